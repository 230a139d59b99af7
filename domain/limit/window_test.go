package limit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(ms int64) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

// A33: of any 60 seconds no more than the limit is admitted, and the window opens at its exact millisecond.
func TestAWindowOpensAtItsExactMillisecond(t *testing.T) {
	var w Window
	w.SetLimit(3)
	for _, ms := range []int64{0, 0, 20_500} {
		if !w.Fits(1, at(ms)) {
			t.Fatalf("at %d ms: does not fit", ms)
		}
		w.Charge(1, at(ms))
	}
	for _, c := range []struct {
		now, n, opens int64
	}{{20_500, 1, 60_000}, {59_999, 1, 60_000}, {59_999, 2, 60_000}, {59_999, 3, 80_500}, {60_000, 2, 60_000}, {60_000, 3, 80_500}, {80_500, 3, 80_500}} {
		if got := w.Reopens(c.n, at(c.now)); !got.Equal(at(c.opens)) {
			t.Errorf("%d more at %d ms: opens at %s, want %s", c.n, c.now, got, at(c.opens))
		}
	}
}

func TestWhatIsLargerThanTheWindowGoesAloneAndIsNotRefusedForEver(t *testing.T) {
	var w Window
	w.SetLimit(100)
	w.Charge(1, at(0))
	if w.Fits(500, at(1)) || !w.Reopens(500, at(1)).Equal(at(60_000)) {
		t.Error("it must wait for an empty window")
	}
	if !w.Fits(500, at(60_000)) {
		t.Error("it must go into an empty window")
	}
}

func TestAWindowWithoutALimitTakesEverythingAndRemembersNothing(t *testing.T) {
	var w Window
	w.Charge(1_000_000, at(0))
	if !w.Fits(1<<40, at(0)) || w.Used(at(0)) != 0 || w.charges.buf != nil {
		t.Errorf("got %+v", w)
	}
	w.SetLimit(1)
	w.Charge(1, at(0))
	w.SetLimit(0)
	if !w.Fits(1, at(0)) {
		t.Error("a limit that was taken away must not hold")
	}
}

// The state law: 8 bytes for each millisecond, 60,000 of them, whatever the limit is; given back when idle.
func TestAWindowHoldsAtMost60000EntriesWhateverItsLimit(t *testing.T) {
	var w Window
	w.SetLimit(1_000_000_000)
	for ms := int64(0); ms < 130_000; ms++ {
		for range 3 {
			w.Charge(1000, at(ms))
		}
		w.Used(at(ms))
		if w.charges.n > span {
			t.Fatalf("%d entries", w.charges.n)
		}
	}
	if got := w.Used(at(129_999)); got != 3*1000*span {
		t.Errorf("counts %d", got)
	}
	if len(w.charges.buf) != 1<<16 {
		t.Errorf("%d entries of memory", len(w.charges.buf))
	}
	if w.Used(at(300_000)); len(w.charges.buf) > ringKeep {
		t.Errorf("idle: still %d entries of memory", len(w.charges.buf))
	}
}

func TestAClockThatIsSetBackNeitherOpensNorBlocksAWindow(t *testing.T) {
	var w Window
	w.SetLimit(2)
	w.Charge(1, at(0))
	w.Charge(1, at(30_000))
	back := at(30_000).Add(-24 * time.Hour)
	if w.Fits(1, back) || !w.Reopens(1, back).Equal(back.Add(30*time.Second)) {
		t.Errorf("opens at %s", w.Reopens(1, back))
	}
	if w.Charge(1, back.Add(30*time.Second)); w.Used(back.Add(31*time.Second)) != 2 {
		t.Error("it must count on by the new clock")
	}
}

// windowModel is the window as one would write it without a care for speed.
type windowModel struct {
	limit   int64
	charges []struct{ ms, n int64 }
}

func (m *windowModel) used(ms int64) (sum int64) {
	for _, c := range m.charges {
		if ms-60_000 < c.ms {
			sum += c.n
		}
	}
	return sum
}

func (m *windowModel) fits(n, ms int64) bool { u := m.used(ms); return u+n <= m.limit || u == 0 }

func (m *windowModel) reopens(n, ms int64) int64 {
	moments := []int64{ms} // nothing changes but when a charge slides out
	for _, c := range m.charges {
		moments = append(moments, c.ms+60_000)
	}
	slices.Sort(moments)
	for _, at := range moments {
		if at >= ms && m.fits(n, at) {
			return at
		}
	}
	panic("never")
}

func (m *windowModel) refund(n, ms int64) {
	for i := range m.charges {
		if c := &m.charges[i]; c.ms == ms {
			back := min(n, c.n)
			c.n -= back
			n -= back
		}
	}
}

func TestAWindowDoesWhatItsModelDoes(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, m := Window{}, windowModel{limit: 1 + r.Int64N(30)}
		w.SetLimit(m.limit)
		now := int64(0)
		for step := range 400 {
			now += r.Int64N([]int64{1, 50, 3000, 70_000}[r.IntN(4)] + 1)
			arrived := max(now-r.Int64N(40), 0) // requests overtake each other on their way
			n := 1 + r.Int64N(8)
			m.charges = slices.DeleteFunc(m.charges, func(c struct{ ms, n int64 }) bool { return c.ms < now-200_000 })
			switch r.IntN(4) {
			case 0, 1:
				if got, want := w.Fits(n, at(now)), m.fits(n, now); got != want {
					t.Fatalf("seed %d, step %d: fits %v, model %v", seed, step, got, want)
				} else if got {
					w.Charge(n, at(arrived))
					m.charges = append(m.charges, struct{ ms, n int64 }{arrived, n})
				} else if got, want := w.Reopens(n, at(now)), m.reopens(n, now); !got.Equal(at(want)) {
					t.Fatalf("seed %d, step %d: reopens %s, model %s", seed, step, got, at(want))
				}
			case 2:
				if len(m.charges) > 0 {
					c := m.charges[r.IntN(len(m.charges))]
					if now-c.ms < 60_000 { // what has slid out is gone in both
						w.Refund(n, at(c.ms))
						m.refund(n, c.ms)
					}
				}
			}
			if got, want := w.Used(at(now)), m.used(now); got != want {
				t.Fatalf("seed %d, step %d: used %d, model %d", seed, step, got, want)
			}
		}
	}
}
