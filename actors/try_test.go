package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

// three is an upstream "u" with 2 slots and the accounts a (1 slot), b (1 slot) and off (not active).
func three() Layout {
	off := acc("off", "u", -1)
	off.Active = false
	idle := up("idle", -1, 0)
	idle.Active = false
	return Layout{
		Upstreams: []catalog.Upstream{up("u", 2, 0), idle, up("free", -1, 0), up("bare", -1, 0)},
		Accounts:  []catalog.Account{acc("a", "u", 1), acc("b", "u", 1), off, acc("i", "idle", -1), acc("f", "free", -1)},
	}
}

func TestTryGrantsOrSaysWhyNot(t *testing.T) {
	u := func(accounts ...string) Candidate {
		return Candidate{Upstream: "u", Accounts: accounts}
	}
	block := func(h *house, id string, d time.Duration) {
		until := h.now().Add(d)
		if err := h.BlockAccount(id, &until); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, c := range []struct {
		says    string
		before  func(*house)
		ask     Candidate
		account string        // of the lease
		reason  Reason        // of the refusal
		until   time.Duration // from now
	}{
		{"the preferred account serves", nil, u("a", "b"), "a", "", 0},
		{"preference is the caller's", nil, u("b", "a"), "b", "", 0},
		{"a full account is passed over (pain 41, D49)", func(h *house) { h.take("x", u("a")) }, u("a", "b"), "b", "", 0},
		{"a blocked account is passed over (D49)", func(h *house) { block(h, "a", time.Minute) }, u("a", "b"), "b", "", 0},
		{"an inactive account is passed over", nil, u("off", "b"), "b", "", 0},
		{"an unknown account is passed over", nil, u("nobody", "b"), "b", "", 0},
		{"all slots taken (A51)", func(h *house) { h.take("x", u("a")); h.take("y", u("b")) }, u("a", "b"), "", ConcurrencyFull, 0},
		{"the only account is full (A51)", func(h *house) { h.take("x", u("a")) }, u("a"), "", ConcurrencyFull, 0},
		{"one full and one blocked is full", func(h *house) { h.take("x", u("a")); block(h, "b", time.Minute) }, u("a", "b"), "", ConcurrencyFull, 0},
		{"all blocked: the soonest deadline",
			func(h *house) { block(h, "a", 2*time.Minute); block(h, "b", time.Minute) }, u("a", "b"), "", NoAccount, time.Minute},
		{"all inactive or unknown", nil, u("off", "nobody"), "", NoAccount, 0},
		{"no account named", nil, u(), "", NoAccount, 0},
		{"an upstream without accounts", nil, Candidate{Upstream: "bare", Accounts: []string{"a"}}, "", NoAccount, 0},
		{"another upstream's account does not serve", nil, u("f"), "", NoAccount, 0},
		{"an unknown upstream", nil, Candidate{Upstream: "nobody", Accounts: []string{"a"}}, "", UnknownUpstream, 0},
		{"an upstream that is not active (C14)", nil, Candidate{Upstream: "idle", Accounts: []string{"i"}}, "", UnknownUpstream, 0},
		{"an open breaker (A43)", func(h *house) { must(h.Breaker("u", "open")) }, u("a"), "", CircuitOpen, 100 * time.Second},
		{"a lease that is held already", func(h *house) { h.take("r", u("a")) }, u("b"), "", LocalFault, 0},
	} {
		t.Run(c.says, func(t *testing.T) {
			h := openHouse(t, three())
			if c.before != nil {
				c.before(h)
			}
			held := len(h.status("u").Held)
			l, no := h.Try(req("r"), c.ask)
			if c.reason == "" {
				if no != nil || l.Account != c.account || l.Upstream != "u" || l.ID != req("r").ID {
					t.Fatalf("lease %+v, refusal %+v", l, no)
				}
				h.holds("u", held+1, 0)
				h.Release(l, nil)
			} else {
				if no == nil || no.Reason != c.reason || no.Upstream != c.ask.Upstream {
					t.Fatalf("lease %+v, refusal %+v", l, no)
				}
				if c.until != 0 && !no.Until.Equal(h.now().Add(c.until)) || c.until == 0 && !no.Until.IsZero() {
					t.Fatalf("until %v", no.Until)
				}
			}
			h.holds("u", held, 0)
		})
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func TestNoLimitMeansAsManyAsCome(t *testing.T) { // C24
	h := openHouse(t, one(-1, 0))
	var all []Lease
	for i := range 500 {
		all = append(all, h.take(fmt.Sprint("r", i), onU))
	}
	h.holds("u", 500, 0)
	for _, l := range all {
		h.Release(l, nil)
	}
	h.holds("u", 0, 0)
}

func TestALeaseIsReleasedOnceHoweverOften(t *testing.T) { // A60, A61, pain 35
	h := openHouse(t, three())
	ab := Candidate{Upstream: "u", Accounts: []string{"a", "b"}}
	l := h.take("r1", ab)
	h.Release(l, nil)
	h.Release(l, &Outcome{Result: breaker.Failure})
	x, y := h.take("r2", ab), h.take("r3", ab)
	h.Release(l, nil)
	h.Cancel(l.ID, "u")
	h.refused("r4", ab, ConcurrencyFull)
	h.holds("u", 2, 0)
	if st := h.status("u"); st.Breaker.Failures != 0 {
		t.Fatal("the outcome of a lease that was released before was counted")
	}
	h.Release(x, nil)
	h.Release(y, nil)
	h.holds("u", 0, 0)
}

func TestASlotThatWasFreedServesTheNextAtOnce(t *testing.T) {
	h := openHouse(t, Layout{Upstreams: []catalog.Upstream{up("u", 1, 0)}, Accounts: []catalog.Account{acc("a", "u", 1)}})
	for i := range 2000 {
		l := h.take(fmt.Sprint("r", i), onU)
		h.refused("other", onU, ConcurrencyFull)
		h.Release(l, nil)
	}
}

func TestReportKeepsTheSlotAndReleaseMayCarryTheOutcome(t *testing.T) {
	h := openHouse(t, one(1, 0))
	l := h.take("r1", onU)
	h.Report(l, Outcome{Result: breaker.Success, TTFT: 100 * time.Millisecond})
	st := h.status("u")
	if len(st.Held) != 1 || st.Held[0].Phase != "streaming" {
		t.Fatalf("%+v", st.Held)
	}
	h.Release(l, &Outcome{Result: breaker.Failure, Class: "stream_cut"})
	st = h.status("u")
	if len(st.Held) != 0 || st.Breaker.Failures != 1 || st.Breaker.Last[0].Class != "stream_cut" {
		t.Fatalf("%+v", st)
	}
	h.take("r2", onU)
	f, ok := h.Board().Figures("u")
	if !ok || f.Held != 1 || f.Slots != 1 || f.TTFT != 100*time.Millisecond || f.Successes != 1 || f.Failures != 1 || f.Breaker != breaker.StateClosed || !f.ProbeFree {
		t.Fatalf("%+v", f)
	}
}

func TestAnAttemptMayBlockItsAccount(t *testing.T) { // pains 46, 49, 50
	h := openHouse(t, three())
	ab := Candidate{Upstream: "u", Accounts: []string{"a", "b"}}
	l := h.take("r1", ab)
	h.Release(l, &Outcome{Block: &Block{Ask: account.Ask{Until: h.now().Add(72 * time.Hour), Reason: "http_429", Source: "retry-after"}}})
	if l := h.take("r2", ab); l.Account != "b" {
		t.Fatalf("a blocked account served: %+v", l)
	}
	if no := h.refused("r3", Candidate{Upstream: "u", Accounts: []string{"a"}}, NoAccount); !no.Until.Equal(h.now().Add(5 * time.Minute)) {
		t.Fatalf("an upstream's hint of days is cut to five minutes, got %v", no.Until)
	}
	if f, _ := h.Board().AccountFigures("a"); !f.BlockedUntil.Equal(h.now().Add(5*time.Minute)) || f.Reason != "http_429" || !f.Active || f.Slots != 1 || f.Upstream != "u" {
		t.Fatalf("%+v", f)
	}
	h.passTime(5 * time.Minute)
	if l := h.take("r4", ab); l.Account != "a" {
		t.Fatalf("the account did not come back: %+v", l)
	}
	if got := h.recorded(); got != "account/a Blocked" {
		t.Fatal(got)
	}
}

func TestTheOperatorsHandsSayWhatIsWrong(t *testing.T) {
	h := openHouse(t, one(1, 0))
	past := h.now().Add(-time.Second)
	for want, err := range map[string]error{
		`action "ajar" is neither open nor close`:         h.Breaker("u", "ajar"),
		`upstream "x" is not known`:                       h.Breaker("x", "open"),
		`account "x" is not known`:                        h.BlockAccount("x", nil),
		`until 2026-01-02T03:04:04Z is not in the future`: h.BlockAccount("a", &past),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := h.BlockAccount("a", nil); err != nil {
		t.Fatal(err)
	}
}
