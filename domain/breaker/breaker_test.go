package breaker

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var policy = Policy{Failures: 3, Successes: 2, OpenFor: 100 * time.Second, ProbeEvery: 10 * time.Second}

// story plays words against a breaker. Permits are numbered by their asking, from 1.
//
//	+10        ten seconds pass            ask / no     a permit is given / refused (its number rises with "ask")
//	ok2 bad2 neutral2 cancel2              permit 2's outcome
//	open close                             the operator
//	=closed =open =half_open               the state is
func story(t *testing.T, words string) (*Breaker, []string) {
	t.Helper()
	b, now := New("u", policy, t0), t0
	var permits []Permit
	var facts []string
	note := func(f any) {
		if f != nil && !reflect.ValueOf(f).IsNil() {
			facts = append(facts, strings.TrimPrefix(fmt.Sprintf("%T", f), "*breaker."))
		}
	}
	for i, w := range strings.Fields(words) {
		var n int
		switch {
		case w == "ask" || w == "no":
			p, ok, f := b.Acquire(now)
			if ok != (w == "ask") {
				t.Fatalf("word %d: permit %v, want %q; state %v until %v", i+1, ok, w, b.State(), b.Until().Sub(now))
			}
			note(f)
			if ok {
				permits = append(permits, p)
			}
		case w == "open":
			note(b.ForceOpen(now, time.Time{}))
		case w == "close":
			note(b.ForceClose(now))
		case strings.HasPrefix(w, "="):
			if b.State().String() != w[1:] {
				t.Fatalf("word %d: state %v, want %s", i+1, b.State(), w[1:])
			}
		case scan(w, "+%d", &n):
			now = now.Add(time.Duration(n) * time.Second)
		case scan(w, "ok%d", &n):
			note(b.Record(permits[n-1], Success, Evidence{At: now}))
		case scan(w, "bad%d", &n):
			note(b.Record(permits[n-1], Failure, Evidence{At: now, Class: "http_5xx", Status: 500 + n}))
		case scan(w, "neutral%d", &n):
			note(b.Record(permits[n-1], Neutral, Evidence{At: now}))
		case scan(w, "cancel%d", &n):
			b.Cancel(permits[n-1])
		default:
			t.Fatalf("unknown word %q", w)
		}
	}
	return b, facts
}

func scan(w, format string, n *int) bool {
	k, err := fmt.Sscanf(w, format, n)
	return k == 1 && err == nil
}

// opened leads to an open breaker at time 0 with three permits used.
const opened = "ask ask ask bad1 bad2 bad3 =open "

func TestTheBreakerTakesAnUpstreamOutAndLetsItBackIn(t *testing.T) {
	for _, c := range []struct{ says, words, facts string }{
		{"failures below the threshold change nothing", "ask ask bad1 bad2 =closed ask", ""},
		{"consecutive failures open it (pain 52)", opened + "no", "Opened"},
		{"a success between them resets the count", "ask ask ask ask ask bad1 bad2 ok3 bad4 bad5 =closed", ""},
		{"neutral outcomes neither count nor reset (pain 58)", "ask ask ask ask bad1 bad2 neutral3 =closed bad4 =open", "Opened"},
		{"open refuses until open_for is over", opened + "+99 no +1 ask =half_open", "Opened HalfOpened"},
		{"half-open only when asked", opened + "+500 =open ask =half_open", "Opened HalfOpened"},
		{"one probe at a time", opened + "+100 ask no no +1000 no", "Opened HalfOpened"},
		{"a probe's success frees the next probe at once", opened + "+100 ask ok4 ask", "Opened HalfOpened"},
		{"enough successes close it", opened + "+100 ask ok4 =half_open ask ok5 =closed ask ask ask", "Opened HalfOpened Closed"},
		{"a failed probe waits only probe_every", opened + "+100 ask bad4 =open +9 no +1 ask", "Opened HalfOpened Opened HalfOpened"},
		{"well again: in service within one probe interval", opened + "+100 ask bad4 +10 ask ok5 ask ok6 =closed", "Opened HalfOpened Opened HalfOpened Closed"},
		{"a failure after one success opens again and the success is forgotten",
			opened + "+100 ask ok4 ask bad5 =open +10 ask ok6 =half_open ask ok7 =closed", "Opened HalfOpened Opened HalfOpened Closed"},
		{"a cancelled probe frees its place uncounted", opened + "+100 ask cancel4 =half_open ask ok5 =half_open ask", "Opened HalfOpened"},
		{"a neutral probe frees its place uncounted", opened + "+100 ask neutral4 =half_open ask ok5 =half_open ask", "Opened HalfOpened"},
		{"cancelling an earlier probe does not free the present one", opened + "+100 ask ok4 ask cancel4 no", "Opened HalfOpened"},
		{"a late outcome from before the opening does not end the probe",
			"ask ask ask ask ask bad1 bad2 bad3 =open +100 ask ok4 no bad5 =half_open no ok6 ask", "Opened HalfOpened"},
		{"failures of requests in flight while open count nothing", "ask ask ask ask bad1 bad2 bad3 bad4 =open +100 ask", "Opened HalfOpened"},
		{"a probe that breaks after its first content opens again", opened + "+100 ask ok4 bad4 =open", "Opened HalfOpened Opened"},
		{"a late failure from before the closing counts nothing",
			opened + "+100 ask ok4 ask ok5 =closed bad1 bad2 bad3 bad4 bad5 =closed", "Opened HalfOpened Closed"},
		{"the operator opens", "open =open no +99 no +1 ask", "Opened HalfOpened"},
		{"the operator closes at once (pain 49)", opened + "close =closed ask ask", "Opened Closed"},
		{"the operator closes a closed one: no fact, failures forgotten", "ask ask ask ask bad1 bad2 close bad3 bad4 =closed", ""},
		{"each further failed probe waits twice as long (pain 51)",
			opened + "+100 ask bad4 +10 ask bad5 +19 no +1 ask bad6 +39 no +1 ask", "Opened HalfOpened Opened HalfOpened Opened HalfOpened Opened HalfOpened"},
		{"a success among the probes does not stop the growth, closing does",
			opened + "+100 ask bad4 +10 ask ok5 ask bad6 +19 no +1 ask ok7 ask ok8 =closed " +
				"ask ask ask bad9 bad10 bad11 =open +99 no +1 ask bad12 +9 no +1 ask",
			"Opened HalfOpened Opened HalfOpened Opened HalfOpened Closed Opened HalfOpened Opened HalfOpened"},
		{"the operator's opening starts the growth anew", opened + "+100 ask bad4 +10 ask bad5 open +100 ask bad6 +10 ask",
			"Opened HalfOpened Opened HalfOpened Opened Opened HalfOpened Opened HalfOpened"},
		{"opening voids the probe in flight", opened + "+100 ask open ok4 =open +100 ask no", "Opened HalfOpened Opened HalfOpened"},
	} {
		t.Run(c.says, func(t *testing.T) {
			if _, facts := story(t, c.words); strings.Join(facts, " ") != c.facts {
				t.Fatalf("facts %v, want %s", facts, c.facts)
			}
		})
	}
}

func TestOpenedCarriesTheEvidence(t *testing.T) {
	p := policy
	p.Failures = 12
	b := New("u", p, t0)
	var f any
	for i := 1; i <= 12; i++ {
		permit, _, _ := b.Acquire(t0)
		f = b.Record(permit, Failure, Evidence{At: t0.Add(time.Duration(i) * time.Second), Class: "network", Status: i})
	}
	o, ok := f.(*Opened)
	if !ok || o.Upstream != "u" || o.Failures != 12 || o.By != "failures" || !o.Until.Equal(t0.Add(112*time.Second)) {
		t.Fatalf("%+v", f)
	}
	if len(o.Last) != 10 || o.Last[0].Status != 3 || o.Last[9].Status != 12 {
		t.Fatalf("the last ten failures are kept, got %+v", o.Last)
	}
}

func TestZeroFieldsOfThePolicyTakeTheDefaults(t *testing.T) { // seed 2.1: 5, 2, 300 s, 30 s; configurable: pain 48
	if got := (Policy{}).filled(); got != (Policy{5, 2, 300 * time.Second, 30 * time.Second, 2, 300 * time.Second}) {
		t.Fatalf("%+v", got)
	}
	if got := (Policy{Growth: math.NaN(), ProbeEvery: time.Hour}).filled(); got.Growth != 2 || got.OpenMax != time.Hour {
		t.Fatalf("%+v", got)
	}
	whole := policy
	whole.Growth, whole.OpenMax = 1.5, time.Minute
	if got := whole.filled(); got != whole {
		t.Fatalf("%+v", got)
	}
}

func TestCheckTellsWhenItMayWorkAgain(t *testing.T) {
	b, _ := story(t, opened)
	if ok, until := b.Check(t0.Add(time.Second)); ok || !until.Equal(t0.Add(100*time.Second)) {
		t.Fatalf("open: %v %v", ok, until)
	}
	if _, ok, _ := b.Acquire(t0.Add(100 * time.Second)); !ok {
		t.Fatal("no probe")
	}
	if ok, until := b.Check(t0.Add(200 * time.Second)); ok || !until.IsZero() {
		t.Fatalf("probing: %v %v", ok, until)
	}
}

func TestFactsRebuildTheBreakerAndVoidPermits(t *testing.T) {
	live, _ := story(t, opened)
	again := New("u", policy, t0)
	probe, _, _ := again.Acquire(t0)
	again.Evolve(&Opened{Upstream: "u", Failures: 3, Until: live.Until(), Last: live.Last()}, t0)
	if again.State() != StateOpen || !again.Until().Equal(live.Until()) || again.failures != 3 || len(again.Last()) != 3 {
		t.Fatalf("%+v", again)
	}
	if again.Valid(probe) {
		t.Fatal("a permit from before counts")
	}
	again.Evolve(&HalfOpened{}, t0)
	if p, ok, _ := again.Acquire(t0); !ok || !p.Probe || !again.Probing() {
		t.Fatal("half-open after a restart has a free probe")
	}
	again.Evolve(&Closed{}, t0)
	if again.State() != StateClosed || again.failures != 0 || again.Probing() {
		t.Fatalf("%+v", again)
	}
}

func TestStatesAreWrittenByName(t *testing.T) {
	for s, name := range map[State]string{StateClosed: "closed", StateOpen: "open", StateHalfOpen: "half_open"} {
		b, _ := s.MarshalText()
		var back State
		if err := back.UnmarshalText(b); err != nil || string(b) != name || back != s {
			t.Fatalf("%s: %v %v", b, back, err)
		}
	}
	var s State
	if s.UnmarshalText([]byte("ajar")) == nil {
		t.Fatal("accepted an unknown state")
	}
}
