package actors

import (
	"math"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
)

// B50: what was said of a limit counts for the plan until that limit is renewed, and is shown as long.
func TestWhatIsSaidOfALimitCountsUntilItIsRenewed_B50(t *testing.T) {
	h := openHouse(t, split())
	in := func(d time.Duration) time.Time { return h.now().Add(d) }
	h.Release(h.take("r1", asks("m", "a")), &Outcome{Result: breaker.Success, Quota: account.Quota{Used: 0.9, Until: in(30 * time.Second), Lapses: in(time.Hour)}})
	h.Release(h.take("r2", asks("m", "a")), &Outcome{Result: breaker.Success}) // says nothing, and takes nothing back
	h.Release(h.take("r3", asks("m", "b")), nil)
	h.status("u")
	for _, c := range []struct {
		after  time.Duration
		used   float64
		lapses bool
	}{{0, 0.9, true}, {30 * time.Second, 0, true}, {time.Hour, 0, false}} {
		h.passTime(c.after)
		f, other := h.Board().Account("a"), h.Board().Account("b")
		if math.Abs(f.QuotaUsed-c.used) > 1e-6 || (f.QuotaReset != 0) != c.lapses || other.QuotaUsed != 0 || other.QuotaReset != 0 {
			t.Errorf("after %s: %+v, %+v", c.after, f, other)
		}
		if s := h.status("u"); (s.Accounts[0].Quota != nil) != c.lapses || s.Accounts[1].Quota != nil {
			t.Errorf("after %s it shows %+v", c.after, s.Accounts[0].Quota)
		}
	}
}

// B50: an account whose limit was met has nothing left, until the upstream's own time or a success.
func TestAMetLimitCountsAsUsedUpAlsoWhileItIsTriedAgain_B50(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*house)
		known bool // the upstream has said until when
	}{
		{"its reset", func(h *house) { h.passTime(2 * time.Hour) }, true},
		{"a success", func(h *house) { h.Release(h.take("probe", asks("m", "a")), &Outcome{Result: breaker.Success}) }, true},
		{"a success, of one whose end nobody knows", func(h *house) { h.Release(h.take("probe", asks("m", "a")), &Outcome{Result: breaker.Success}) }, false},
		{"the operator", func(h *house) { _ = h.BlockAccount("a", nil) }, true},
	} {
		h := openHouse(t, split())
		ask := account.Ask{Until: h.now().Add(time.Minute), Probe: true, Reason: account.ReasonQuota, Source: "retry-after"}
		if c.known {
			ask.Resets = h.now().Add(2 * time.Hour)
		}
		h.Release(h.take("r1", asks("m", "a")), &Outcome{Block: &Block{Ask: ask}})
		h.holds("u", 0, 0) // the account has heard of it
		for range 2 {      // blocked, and then on probation
			if f := h.Board().Account("a"); f.QuotaUsed != 1 || (f.QuotaReset != 0) != c.known {
				t.Errorf("%s: the plan sees %+v", c.name, f)
			}
			h.passTime(time.Minute)
		}
		c.end(h)
		h.holds("u", 0, 0)
		if f := h.Board().Account("a"); f.QuotaUsed != 0 || f.QuotaReset != 0 {
			t.Errorf("%s: the plan still sees %+v", c.name, f)
		}
	}
}

// E18: what the board says of a model is what the account itself says.
func TestTheBoardKnowsBlocksOfModels_E18(t *testing.T) {
	h := openHouse(t, split())
	until := h.now().Add(time.Minute)
	h.Release(h.take("r1", asks("m", "a")), &Outcome{Block: &Block{Model: "m", Ask: account.Ask{Until: until, Reason: account.ReasonRate}}})
	h.holds("u", 0, 0)
	h.refused("r2", asks("m", "a"), NoAccount)
	b := h.Board().Account("a").Blocks
	if !b.ModelUntil("m", h.now()).Equal(until) || !b.ModelUntil("n", h.now()).IsZero() || h.Board().Account("b").Blocks != nil {
		t.Errorf("%+v", b)
	}
	h.passTime(time.Minute)
	if l := h.take("r3", asks("m", "a")); l.Account != "a" || !b.ModelUntil("m", h.now()).IsZero() {
		t.Error("blocked beyond its time")
	}
	if err := h.BlockAccount("a", nil); err != nil {
		t.Fatal(err)
	}
	if b := h.Board().Account("a").Blocks; b != nil && !b.ModelUntil("m", h.now()).IsZero() {
		t.Error("still blocked after the block was lifted")
	}
}
