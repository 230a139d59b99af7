package account

import (
	"fmt"
	"math/rand"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// set asks for a block with the default cap.
func set(b *Block, now, until time.Time, reason, source string) *Blocked {
	return b.Apply(now, Ask{Until: until, Reason: reason, Source: source})
}

func TestBlockKeepsTheLaterDeadline(t *testing.T) { // pain 46
	for _, c := range []struct {
		says   string
		have   time.Duration // present deadline after t0; 0 none
		want   time.Duration // asked for
		source string
		ends   time.Duration // deadline afterwards
		fact   bool
	}{
		{"a first block counts as asked", 0, time.Minute, "retry-after", time.Minute, true},
		{"a later deadline extends", time.Minute, 2 * time.Minute, "retry-after", 2 * time.Minute, true},
		{"an earlier deadline changes nothing", 2 * time.Minute, time.Minute, "retry-after", 2 * time.Minute, false},
		{"the same deadline changes nothing", time.Minute, time.Minute, "retry-after", time.Minute, false},
		{"an automatic block of days is cut to five minutes", 0, 72 * time.Hour, "retry-after", 5 * time.Minute, true},
		{"an operator's block of days stays", 0, 72 * time.Hour, Operator, 72 * time.Hour, true},
		{"an automatic block does not shorten an operator's", 72 * time.Hour, 96 * time.Hour, "default", 72 * time.Hour, false},
		{"a deadline in the past blocks nothing", 0, -time.Second, "retry-after", 0, false},
		{"a deadline of now blocks nothing", 0, 0, Operator, 0, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			b := Block{Account: "a"}
			if c.have > 0 {
				set(&b, t0, t0.Add(c.have), "first", Operator)
			}
			f := set(&b, t0, t0.Add(c.want), "http_429", c.source)
			if (f != nil) != c.fact {
				t.Fatalf("fact %+v, want one: %v", f, c.fact)
			}
			if f != nil && (f.Account != "a" || f.Reason != "http_429" || f.Source != c.source || !f.Until.Equal(t0.Add(c.ends))) {
				t.Fatalf("fact says %+v", f)
			}
			if c.ends == 0 {
				if b.Active(t0) {
					t.Fatal("blocked")
				}
				return
			}
			if !b.Until().Equal(t0.Add(c.ends)) || !b.Active(t0) || b.Active(t0.Add(c.ends)) {
				t.Fatalf("until %v, want %v", b.Until(), t0.Add(c.ends))
			}
		})
	}
}

func TestUnblockLiftsOnceAndOnlyABlock(t *testing.T) { // pain 49
	b := Block{Account: "a"}
	if f := b.Clear(t0, Operator); f != nil {
		t.Fatalf("unblocked what was not blocked: %+v", f)
	}
	set(&b, t0, t0.Add(time.Minute), "auth", "default")
	if f := b.Clear(t0, Operator); f == nil || f.Account != "a" || f.By != Operator {
		t.Fatalf("got %+v", f)
	}
	if b.Active(t0) || b.Clear(t0, Operator) != nil {
		t.Fatal("still blocked after the block was lifted")
	}
	set(&b, t0, t0.Add(time.Minute), "auth", "default")
	if f := b.Clear(t0.Add(time.Minute), Operator); f != nil {
		t.Fatal("a block that has ended by itself writes no fact")
	}
}

func TestFactsRebuildTheBlock(t *testing.T) {
	for seed := int64(1); seed <= 200; seed++ {
		r := rand.New(rand.NewSource(seed))
		live, rebuilt, now := Block{Account: "a"}, Block{Account: "a"}, t0
		for range 50 {
			now = now.Add(time.Duration(r.Intn(200)) * time.Second)
			before := live.Until()
			if r.Intn(4) == 0 {
				if f := live.Clear(now, Operator); f != nil {
					rebuilt.Evolve(f)
				}
			} else {
				source := []string{"retry-after", Operator}[r.Intn(2)]
				f := set(&live, now, now.Add(time.Duration(r.Intn(1000)-50)*time.Second), "x", source)
				if f != nil {
					rebuilt.Evolve(f)
				}
				if live.Until().Before(before) {
					fail(t, seed, "a block shortened the deadline")
				}
				if source != Operator && live.Until().After(before) && live.Until().After(now.Add(AutomaticMax)) {
					fail(t, seed, "an automatic block is longer than the cap")
				}
			}
			if live != rebuilt {
				fail(t, seed, fmt.Sprintf("live %+v, rebuilt %+v", live, rebuilt))
			}
		}
	}
}

func fail(t *testing.T, seed int64, what string) {
	t.Helper()
	t.Fatalf("seed %d: %s\nrepeat: go test ./domain/account -run '%s'", seed, what, t.Name())
}
