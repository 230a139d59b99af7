package breaker

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTheOpenTimeGrowsToItsCapAndNoFurther_pain51(t *testing.T) {
	for _, c := range []struct {
		says string
		p    Policy
		want []time.Duration // after the first, second … failed probe
	}{
		{"by default it doubles up to five minutes", Policy{}, []time.Duration{30e9, 60e9, 120e9, 240e9, 300e9, 300e9}},
		{"a growth of 1 stays", Policy{Growth: 1}, []time.Duration{30e9, 30e9, 30e9}},
		{"halves are possible", Policy{Growth: 1.5, ProbeEvery: 10 * time.Second}, []time.Duration{10e9, 15e9, 22500 * time.Millisecond}},
		{"a cap below the interval does not shorten it", Policy{ProbeEvery: time.Minute, OpenMax: time.Second}, []time.Duration{60e9, 60e9}},
		{"a shrinking growth is none that anybody wants", Policy{Growth: 0.5}, []time.Duration{30e9, 60e9}},
	} {
		p := c.p.filled()
		for i, want := range c.want {
			if got := p.reopenFor(i + 1); got != want {
				t.Errorf("%s: after %d failed probes %v, want %v", c.says, i+1, got, want)
			}
		}
		if got := p.reopenFor(1 << 30); got > p.OpenMax {
			t.Errorf("%s: %v is above the cap", c.says, got)
		}
	}
}

func TestTheHistoryTellsWhyAndUntilWhen(t *testing.T) {
	b, _ := story(t, opened+"+100 ask bad4 +10 ask ok5 ask ok6 open")
	var got []string
	for _, h := range b.History() {
		line := h.At.Sub(t0).String() + " " + h.To.String() + " by " + h.By
		if h.Until != nil {
			line += " until " + h.Until.Sub(t0).String() + " after " + h.Class
		}
		got = append(got, line)
	}
	want := []string{
		"0s open by failures until 1m40s after http_5xx", "1m40s half_open by time", "1m40s open by probe until 1m50s after http_5xx",
		"1m50s half_open by time", "1m50s closed by probes", "1m50s open by operator until 3m30s after ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if last := b.Last(); len(last) != 4 || last[3].Status != 504 {
		t.Fatalf("the failures stay after it has closed: %+v", last)
	}
}

func TestTheHistoryAndWhatItKeepsAreBounded(t *testing.T) {
	b := New("u", policy, t0)
	for i := range 100 {
		b.ForceOpen(t0.Add(time.Duration(i)*time.Second), time.Time{})
	}
	if h := b.History(); len(h) != 20 || !h[19].At.Equal(t0.Add(99*time.Second)) {
		t.Fatalf("%d entries", len(h))
	}
	b.ForceClose(t0)
	p, _, _ := b.Acquire(t0)
	b.Record(p, Failure, Evidence{Said: strings.Repeat("é", 500)})
	if said := b.Last()[0].Said; len(said) > 200 || !strings.HasPrefix(said, "é") || strings.ContainsRune(said, '\uFFFD') {
		t.Fatalf("%d bytes: %q", len(said), said)
	}
}

func TestAViewTellsStateEvidenceAndHistory(t *testing.T) {
	b, _ := story(t, opened)
	v := b.View()
	if v.State != StateOpen || v.Until == nil || !v.Until.Equal(b.Until()) || v.Failures != 3 || len(v.Last) != 3 || len(v.History) != 1 || v.Probing {
		t.Fatalf("%+v", v)
	}
	b.ForceClose(t0)
	if again := b.View(); again.State != StateClosed || again.Until != nil || len(again.History) != 2 || v.State != StateOpen || len(v.History) != 1 {
		t.Fatalf("then %+v, now %+v", v, again)
	}
	s := NewSet("u", policy)
	fail(s, Key{"b", "m"}, 3, t0)
	fail(s, Key{"a", "n"}, 1, t0)
	if vs := s.Views(); len(vs) != 2 || vs[0].Account != "a" || vs[0].Failures != 1 || vs[1].Model != "m" || vs[1].State != StateOpen {
		t.Fatalf("%+v", vs)
	}
}

func TestFactsOfAWholeUpstreamAreWrittenAsBefore(t *testing.T) {
	for want, fact := range map[string]any{
		`{"upstream":"u","failures":5,"until":"2026-01-02T03:04:05Z","by":"failures","last":[{"at":"2026-01-02T03:04:05Z","class":"http_5xx","status":503}]}`: &Opened{
			Upstream: "u", Failures: 5, Until: t0, By: "failures", Last: []Evidence{{At: t0, Class: "http_5xx", Status: 503}}},
		`{"upstream":"u"}`:               &HalfOpened{Upstream: "u"},
		`{"upstream":"u","by":"probes"}`: &Closed{Upstream: "u", By: "probes"},
	} {
		if got, err := json.Marshal(fact); err != nil || string(got) != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestFactsFromBeforeTheGrowthWasKnownCountTheirProbes(t *testing.T) {
	b := New("u", policy, t0)
	for _, by := range []string{"failures", "probe", "probe"} {
		b.Evolve(&Opened{Upstream: "u", By: by, Until: t0}, t0)
	}
	if b.reopened != 2 {
		t.Fatalf("%d", b.reopened)
	}
	b.Evolve(&Opened{Upstream: "u", Account: "a", Model: "m", By: "failures", Until: t0.Add(time.Hour)}, t0)
	if b.reopened != 2 || !b.Until().Equal(t0) {
		t.Fatal("a fact of an account's breaker moved the upstream's")
	}
}
