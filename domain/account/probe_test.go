package account

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"sync"
	"testing"
	"time"
)

func in(d time.Duration) time.Time { return t0.Add(d) }

func TestABlockCutShortIsFollowedBySingleProbes_pain49_pain50(t *testing.T) {
	b := Block{Account: "a"}
	f := b.Apply(t0, Ask{Until: in(72 * time.Hour), Reason: "quota", Source: "retry-after"})
	if f == nil || !f.Until.Equal(in(5*time.Minute)) || f.Resets == nil || !f.Resets.Equal(in(72*time.Hour)) || !f.Probed {
		t.Fatalf("%+v", f)
	}
	if _, ok, until := b.Acquire(in(time.Minute)); ok || !until.Equal(f.Until) {
		t.Fatal("used while blocked")
	}
	p, ok, _ := b.Acquire(f.Until)
	if !ok || p.Probe == 0 {
		t.Fatal("not tried again after the cap")
	}
	if _, second, until := b.Acquire(f.Until); second || !until.IsZero() {
		t.Fatal("a second probe")
	}
	b.Release(p)
	p2, ok, _ := b.Acquire(f.Until)
	if !ok || p2 == p {
		t.Fatal("a probe that came to nothing frees its place")
	}
	if b.Succeeded(p) != nil {
		t.Fatal("a probe that was given back ends nothing")
	}
	u := b.Succeeded(p2)
	if u == nil || u.By != ByProbe || u.Account != "a" || b.Probing(f.Until) {
		t.Fatalf("%+v", u)
	}
	if p, ok, _ := b.Acquire(f.Until); !ok || p.Probe != 0 {
		t.Fatal("in service again")
	}
}

func TestHowLongABlockIsAndWhetherItIsProbed(t *testing.T) {
	for _, c := range []struct {
		says   string
		have   []Ask // before, at t0
		ask    Ask
		until  time.Duration // 0: nothing changes
		resets time.Duration // 0: none
		probed bool
	}{
		{"a burst is over at its reset and not probed", nil, Ask{Until: in(20 * time.Second), Source: "retry-after"}, 20 * time.Second, 0, false},
		{"a cap of the operator's", nil, Ask{Until: in(time.Hour), Max: time.Minute}, time.Minute, time.Hour, true},
		{"a wider cap", nil, Ask{Until: in(time.Hour), Max: 2 * time.Hour}, time.Hour, 0, false},
		{"no cap for an operator", nil, Ask{Until: in(time.Hour), Source: Operator}, time.Hour, 0, false},
		{"no cap for an operator's rule", nil, Ask{Until: in(time.Hour), Source: "rule x"}, time.Hour, 0, false},
		{"an end that nobody knows is probed", nil, Ask{Until: in(time.Minute), Probe: true}, time.Minute, 0, true},
		{"the upstream's own time is kept", nil, Ask{Until: in(time.Minute), Resets: in(5 * time.Hour), Probe: true}, time.Minute, 5 * time.Hour, true},
		{"the year 9999 is bounded", nil, Ask{Until: in(time.Minute), Resets: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Probe: true}, time.Minute, 366 * 24 * time.Hour, true},
		{"a later refusal never shortens (pain 46)", []Ask{{Until: in(time.Minute)}}, Ask{Until: in(time.Second)}, 0, 0, false},
		{"a burst on top of a quota keeps the probing", []Ask{{Until: in(time.Minute), Resets: in(time.Hour), Probe: true}}, Ask{Until: in(2 * time.Minute)}, 2 * time.Minute, time.Hour, true},
	} {
		b := Block{Account: "a"}
		for _, a := range c.have {
			b.Apply(t0, a)
		}
		f := b.Apply(t0, c.ask)
		if (f != nil) != (c.until != 0) {
			t.Errorf("%s: %+v", c.says, f)
			continue
		}
		if f == nil {
			continue
		}
		var resets time.Duration
		if f.Resets != nil {
			resets = f.Resets.Sub(t0)
		}
		if got := f.Until.Sub(t0); got != c.until || resets != c.resets || f.Probed != c.probed {
			t.Errorf("%s: for %v, resets in %v, probed %v", c.says, got, resets, f.Probed)
		}
	}
}

func TestProbationEndsWhenTheUpstreamsOwnTimeHasCome(t *testing.T) {
	b := Block{Account: "a"}
	b.Apply(t0, Ask{Until: in(time.Hour), Source: "retry-after"})
	for range 3 {
		if p, ok, _ := b.Acquire(in(time.Hour)); !ok || p.Probe != 0 {
			t.Fatal("still on probation after the reset")
		}
	}
	if b.Clear(in(time.Hour), Operator) != nil {
		t.Fatal("what has ended by itself writes no fact")
	}
	if f := b.Apply(in(2*time.Hour), Ask{Until: in(2*time.Hour + time.Minute)}); f == nil || f.Resets != nil || f.Probed {
		t.Fatalf("an old trouble lives on in a new one: %+v", f)
	}
}

func TestAFailedProbeBlocksAgain(t *testing.T) {
	b := Block{Account: "a"}
	b.Apply(t0, Ask{Until: in(time.Minute), Probe: true, Reason: "quota"})
	p, _, _ := b.Acquire(in(time.Minute))
	if f := b.Apply(in(time.Minute), Ask{Until: in(2 * time.Minute), Probe: true, Reason: "quota"}); f == nil || b.Succeeded(p) != nil {
		t.Fatalf("%+v", f)
	}
	if p, ok, _ := b.Acquire(in(2 * time.Minute)); !ok || p.Probe == 0 {
		t.Fatal("not probed again")
	}
	if f := b.Clear(in(2*time.Minute), Operator); f == nil || b.Probing(in(2*time.Minute)) {
		t.Fatal("the operator ends a probation at once (pain 49)")
	}
}

func TestABlockOfOneModelLeavesTheOthersAlone(t *testing.T) {
	s := Blocks{Account: "a"}
	f := s.Apply(t0, "gpt", Ask{Until: in(time.Minute), Reason: "http_429"})
	if f == nil || f.Account != "a" || f.Model != "gpt" {
		t.Fatalf("%+v", f)
	}
	if _, ok, until := s.Acquire("gpt", t0); ok || !until.Equal(in(time.Minute)) {
		t.Fatal("used while blocked")
	}
	if _, ok, _ := s.Acquire("other", t0); !ok {
		t.Fatal("another model is blocked as well")
	}
	s.Apply(t0, "", Ask{Until: in(2 * time.Minute), Reason: "auth", Probe: true})
	if ok, until := s.Check("gpt", t0); ok || !until.Equal(in(2*time.Minute)) {
		t.Fatalf("the later of both counts, not %v", until)
	}
	p, ok, _ := s.Acquire("gpt", in(2*time.Minute))
	if !ok || p.Probe == 0 || p.Model != "" {
		t.Fatalf("the account's probe: %+v", p)
	}
	if u := s.Succeeded(p); u == nil || u.Model != "" {
		t.Fatalf("%+v", u)
	}
	s.Apply(in(3*time.Minute), "x", Ask{Until: in(4 * time.Minute), Probe: true})
	if p, ok, _ = s.Acquire("x", in(4*time.Minute)); !ok || p.Probe == 0 || p.Model != "x" {
		t.Fatalf("the model's probe: %+v", p)
	}
	s.Release(p)
	if p, _, _ = s.Acquire("x", in(4*time.Minute)); s.Succeeded(p) == nil || len(s.models) != 1 {
		t.Fatalf("%d models are kept", len(s.models))
	}
	s.Apply(in(5*time.Minute), "y", Ask{Until: in(6 * time.Minute)})
	s.Apply(in(5*time.Minute), "", Ask{Until: in(6 * time.Minute)})
	if vs := s.Views(in(5 * time.Minute)); len(vs) != 2 || vs[0].Model != "" || vs[1].Model != "y" || !vs[1].Until.Equal(in(6*time.Minute)) || vs[0].Probing {
		t.Fatalf("%+v", vs)
	}
	if facts := s.Clear(in(5*time.Minute), Operator); len(facts) != 2 || facts[0].Model != "" || facts[1].Model != "y" {
		t.Fatalf("%+v", facts)
	}
}

// Planning looks at copies from many goroutines (E18).
func TestACloneIsOnlyReadAndSaysUntilWhenAModelIsBlocked(t *testing.T) {
	s := Blocks{Account: "a"}
	s.Apply(t0, "m", Ask{Until: in(time.Minute), Reason: ReasonRate})
	s.Apply(t0, "n", Ask{Until: in(time.Minute), Probe: true})
	c := s.Clone()
	s.Clear(t0, Operator)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if !c.AnyModel() || !c.ModelUntil("m", t0).Equal(in(time.Minute)) || !c.ModelUntil("x", t0).IsZero() || !c.ModelUntil("", t0).IsZero() {
				t.Error("the copy has changed")
			}
			if !c.ModelUntil("n", in(time.Minute)).IsZero() || c.Whole().Limited(t0) {
				t.Error("blocked beyond its time, or as a whole")
			}
		})
	}
	all.Wait()
	if s.AnyModel() || !s.ModelUntil("m", t0).IsZero() {
		t.Error("still blocked after the block was lifted")
	}
}

// B50: from the refusal until the upstream's own time, or a success, nothing is left of a limit.
func TestABlockSaysWhetherALimitHoldsAndUntilWhen_B50(t *testing.T) {
	for _, c := range []struct {
		says    string
		ask     Ask
		limited [3]bool // at once, after a minute, after an hour
		resets  time.Duration
	}{
		{"a burst is over with its block", Ask{Until: in(time.Minute), Reason: ReasonRate}, [3]bool{true, false, false}, time.Minute},
		{"a quota that was cut short holds until its reset", Ask{Until: in(time.Minute), Resets: in(time.Hour), Probe: true, Reason: ReasonQuota}, [3]bool{true, true, false}, time.Hour},
		{"one without an end holds until a success", Ask{Until: in(time.Minute), Probe: true, Reason: ReasonQuota}, [3]bool{true, true, true}, 0},
		{"a refused credential is no limit", Ask{Until: in(time.Minute), Reason: "auth"}, [3]bool{}, time.Minute},
	} {
		b := Block{Account: "a"}
		b.Apply(t0, c.ask)
		got := [3]bool{b.Limited(t0), b.Limited(in(time.Minute)), b.Limited(in(time.Hour))}
		resets := time.Duration(0)
		if at := b.Resets(); !at.IsZero() {
			resets = at.Sub(t0)
		}
		if got != c.limited || resets != c.resets {
			t.Errorf("%s: %v, resets in %s", c.says, got, resets)
		}
	}
}

func TestBlockedModelsAreBounded(t *testing.T) {
	s := Blocks{Account: "a"}
	for i := range 1000 {
		s.Apply(t0, fmt.Sprint("made-up-", i), Ask{Until: in(time.Duration(i+1) * time.Second / 10)})
	}
	if ok, _ := s.Check("made-up-999", t0); ok || len(s.models) != modelsMax {
		t.Fatalf("%d models", len(s.models))
	}
	s.Apply(in(4*time.Minute), "late", Ask{Until: in(5 * time.Minute)})
	if len(s.models) != 1 {
		t.Fatalf("%d models are kept that are over", len(s.models))
	}
}

func TestFactsRebuildTheBlocksOfModels(t *testing.T) {
	for seed := int64(1); seed <= 50; seed++ {
		r := rand.New(rand.NewSource(seed))
		live, again := Blocks{Account: "a"}, Blocks{Account: "a"}
		now := t0
		for step := range 200 {
			now = now.Add(time.Duration(r.Intn(90)) * time.Second)
			model := []string{"", "m", "n"}[r.Intn(3)]
			switch r.Intn(4) {
			case 0, 1:
				if f := live.Apply(now, model, Ask{Until: now.Add(time.Duration(r.Intn(900)-50) * time.Second), Probe: r.Intn(2) == 0, Source: "retry-after"}); f != nil {
					again.Evolve(f, now)
				}
			case 2:
				if p, ok, _ := live.Acquire(model, now); ok {
					if f := live.Succeeded(p); f != nil {
						again.Evolve(f, now)
					}
				}
			case 3:
				if r.Intn(5) == 0 {
					for _, f := range live.Clear(now, Operator) {
						again.Evolve(f, now)
					}
				}
			}
			for _, m := range []string{"", "m", "n"} {
				okLive, untilLive := live.Check(m, now)
				okAgain, untilAgain := again.Check(m, now)
				if okLive != okAgain || !untilLive.Equal(untilAgain) || !reflect.DeepEqual(live.Views(now), again.Views(now)) {
					t.Fatalf("seed %d, step %d, model %q: live %v %v, rebuilt %v %v", seed, step, m, okLive, untilLive, okAgain, untilAgain)
				}
			}
		}
	}
}

func TestFactsOfAWholeAccountAreWrittenAsBefore(t *testing.T) {
	for want, fact := range map[string]any{
		`{"account":"a","reason":"http_429","until":"2026-01-02T03:04:05Z","source":"retry-after"}`: &Blocked{Account: "a", Reason: "http_429", Until: t0, Source: "retry-after"},
		`{"account":"a","by":"operator"}`: &Unblocked{Account: "a", By: "operator"},
	} {
		if got, err := json.Marshal(fact); err != nil || string(got) != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
