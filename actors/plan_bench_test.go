package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/routing"
)

// fleet is upstreams × accounts, with the board that a system shows of them: everyone has served, one in ten has failed.
func fleet(tb testing.TB, upstreams, accounts int, strategy string) (*System, *catalog.Snapshot) {
	state := catalog.NewState()
	apply := func(r catalog.Resource) {
		facts, err := catalog.Decide(state, catalog.Apply{Resource: r})
		if err != nil {
			tb.Fatal(err)
		}
		for _, f := range facts {
			state.Evolve(f, state.Revision+1)
		}
	}
	var l Layout
	for i := range upstreams {
		u := catalog.NewUpstream(fmt.Sprintf("u%03d", i), "http://h", dialect.CapChat)
		u.Priority = i % 3
		u.ModelRules = []catalog.ModelRule{{Type: "alias", Value: "fast", Target: "gpt-5"}, {Type: "exact", Value: "gpt-5"}}
		apply(u)
		l.Upstreams = append(l.Upstreams, *u)
		for k := range accounts {
			a := &catalog.Account{ID: fmt.Sprint(u.ID, "-", k+1), Upstream: u.ID, SecretVersion: 1, Masked: "***", Active: true}
			apply(a)
			l.Accounts = append(l.Accounts, *a)
		}
	}
	apply(&catalog.Key{ID: "k", Hash: fmt.Sprintf("sha256:%064x", 1), Access: "unrestricted"})
	apply(&catalog.Setting{Name: "scheduling.strategy", Value: strategy})
	snap := catalog.Build(state, nil)
	s := NewSystem(Options{})
	s.Reconfigure(l)
	tb.Cleanup(func() { _ = s.Stop(tb.Context()) })
	v := s.board.view.Load()
	for i := range upstreams {
		id := l.Upstreams[i].ID
		now := time.Now()
		for k, seat := range v.of[id] {
			o := &Outcome{Result: breaker.Success, TTFT: time.Duration(100+i+k) * time.Millisecond}
			if (i+k)%10 == 0 {
				o.Result = breaker.Failure
			}
			v.upstreams[id].observe(o, now)
			seat.figures.observe(o, now)
			seat.figures.used.Store(now.UnixNano())
		}
	}
	return s, snap
}

// tellLimits has all accounts of a fleet tell of their limits, and blocks one in ten for a model.
func tellLimits(s *System) {
	now := time.Now()
	for _, seats := range s.board.view.Load().of {
		for k, seat := range seats {
			q := account.Quota{Used: float64(k) / 8, Until: now.Add(time.Hour), Lapses: now.Add(time.Duration(k+1) * time.Hour)}
			seat.figures.quota.tell(&q, now)
			if k > 0 && seat.id[len(seat.id)-3]%2 == 0 {
				continue
			}
			b := account.Blocks{Account: seat.id}
			b.Apply(now, "other", account.Ask{Until: now.Add(time.Hour), Reason: account.ReasonRate, Max: time.Hour})
			seat.figures.block.Store(&blockView{models: true, all: b.Clone()})
		}
	}
}

// Planning allocates nothing, also where every account tells of its limits and some are blocked for a model (B50, E18).
func TestPlanningWithLimitsAndBlocksOfModelsAllocatesNothing(t *testing.T) {
	s, snap := fleet(t, 40, 5, catalog.StrategyScore)
	tellLimits(s)
	var p routing.Plan
	q := routing.Query{Capability: dialect.CapChat, Key: snap.Key("k"), Model: "gpt-5", LastResort: true, Now: time.Now()}
	if n := testing.AllocsPerRun(50, func() { routing.Make(&q, snap, s.Board(), &p) }); n > 0 || len(p.Candidates) != 40 {
		t.Errorf("%v allocations, %d candidates", n, len(p.Candidates))
	}
}

// BenchmarkPlanOnTheBoard is what planning costs a request with 200 upstreams of 5 accounts, on the live board.
func BenchmarkPlanOnTheBoard(b *testing.B) {
	const known = " with limits"
	for _, name := range []string{catalog.StrategyWeighted, catalog.StrategyRoundRobin, catalog.StrategyLeastLoaded, catalog.StrategyLRU,
		catalog.StrategyScore, catalog.StrategyWeighted + known, catalog.StrategyScore + known} {
		b.Run(name, func(b *testing.B) {
			strategy, all := strings.CutSuffix(name, known)
			s, snap := fleet(b, 200, 5, strategy)
			if all {
				tellLimits(s)
			}
			d := &Dispatcher{System: s, Catalog: func() *catalog.Snapshot { return snap }}
			var p routing.Plan
			q := routing.Query{Capability: dialect.CapChat, Key: snap.Key("k"), Model: "gpt-5", LastResort: true}
			b.ReportAllocs()
			for b.Loop() {
				q.Seed++
				q.Now, q.Turn = time.Now(), d.turns.take(q.Capability)
				routing.Make(&q, snap, s.Board(), &p)
			}
			if len(p.Candidates) != 200 {
				b.Fatal(len(p.Candidates))
			}
		})
	}
}

// The board answers for a snapshot that is not of its moment, and for one that it knows nothing of.
func TestTheBoardAnswersForAnotherSnapshot(t *testing.T) {
	s, snap := fleet(t, 3, 2, catalog.StrategyWeighted)
	into := make([]routing.AccountFigures, 2)
	s.Board().Accounts(snap.Upstream("u001"), into)
	if into[0].TTFT != 101*time.Millisecond || into[1].TTFT != 102*time.Millisecond || !into[0].Active {
		t.Errorf("%+v", into)
	}
	_, more := fleet(t, 3, 4, catalog.StrategyWeighted)
	into = make([]routing.AccountFigures, 4)
	s.Board().Accounts(more.Upstream("u001"), into)
	if into[1].TTFT != 102*time.Millisecond || !into[3].Active || into[3].TTFT != 0 {
		t.Errorf("%+v", into)
	}
	var none Board
	none.Accounts(snap.Upstream("u001"), into[:2])
	if !into[0].Active || into[0].LastUsed != 0 {
		t.Errorf("%+v", into[:2])
	}
}

// A share of failures rises with failures, falls with successes, and is forgotten by time alone.
func TestTheShareOfFailuresMoves(t *testing.T) {
	var r recent
	now := time.Unix(1_900_000_000, 0)
	at := func(d time.Duration) float64 { return r.failing(func() time.Time { return now.Add(d) }) }
	for range 50 {
		r.observe(&Outcome{Result: breaker.Failure}, now)
	}
	if s := at(0); s < 0.99 || s > 1 {
		t.Errorf("after fifty failures: %v", s)
	}
	if s := at(shareHalf); s < 0.49 || s > 0.51 {
		t.Errorf("after a minute: %v", s)
	}
	for range 7 {
		r.observe(&Outcome{Result: breaker.Success}, now)
	}
	if s := at(0); s < 0.46 || s > 0.49 {
		t.Errorf("after seven successes: %v", s)
	}
	r.observe(&Outcome{Result: breaker.Neutral}, now)
	if s := at(0); s < 0.46 || s > 0.49 {
		t.Errorf("a neutral outcome changed it: %v", s)
	}
}
