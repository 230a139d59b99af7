package routing

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
)

// ids is the order of the upstreams.
func ids(p *Plan) string {
	var out []string
	for _, c := range p.Candidates {
		out = append(out, c.Upstream.ID)
	}
	return strings.Join(out, " ")
}

// B19, B50, E21, LRU: each strategy orders the upstreams of a tier and the accounts of an upstream by its own figures.
func TestEveryStrategyOrdersUpstreamsAndAccounts_B19_B50_E20_E21(t *testing.T) {
	at := func(minutes int) int64 { return now.Add(time.Duration(minutes) * time.Minute).UnixNano() }
	type figures = map[string]Figures
	type accounts = map[string]AccountFigures
	abc := [][]catalog.Resource{up("a", nil, 3), up("b", nil, 1), up("c", nil, 1), up("z", priority(1), 1)}
	for _, c := range []struct {
		name, strategy string
		turn           uint64
		ups            figures
		accs           accounts
		want, first    string // order of upstreams; accounts of a
		why            string
	}{
		{"in turn", catalog.StrategyRoundRobin, 0, nil, nil, "a b c z", "a-1 a-2 a-3", WhyRoundRobin},
		{"the next turn", catalog.StrategyRoundRobin, 1, nil, nil, "b c a z", "a-2 a-3 a-1", WhyRoundRobin},
		{"and the one after it", catalog.StrategyRoundRobin, 5, nil, nil, "c a b z", "a-3 a-1 a-2", WhyRoundRobin},
		{"the full one is passed over", catalog.StrategyRoundRobin, 1, figures{"b": {Held: 1, Slots: 1}}, accounts{"a-2": {Active: true, Held: 1, Slots: 1}}, "c a b z", "a-3 a-1 a-2", WhyRoundRobin},
		{"the least share of slots", catalog.StrategyLeastLoaded, 0, figures{"a": {Held: 5, Slots: 10}, "b": {Held: 1, Slots: 4}, "c": {Held: 9, Slots: 100}},
			accounts{"a-1": {Active: true, Held: 2, Slots: 4}, "a-2": {Active: true, Held: 3, Slots: 4}, "a-3": {Active: true, Held: 1, Slots: 4}}, "c b a z", "a-3 a-1 a-2", WhyLeastLoaded},
		{"of unlimited ones the least in use", catalog.StrategyLeastLoaded, 0, figures{"a": {Held: 3}, "b": {Held: 1}, "c": {Held: 2}}, nil, "b c a z", "a-1 a-2 a-3", WhyLeastLoaded},
		{"the longest unused, never used first", catalog.StrategyLRU, 0, figures{"a": {LastUsed: at(-1)}, "b": {LastUsed: at(-9)}},
			accounts{"a-1": {Active: true, LastUsed: at(-1)}, "a-2": {Active: true, LastUsed: at(-3)}}, "c b a z", "a-3 a-2 a-1", WhyLRU},
	} {
		snap := snapshot(t, append(abc, setting("scheduling.strategy", c.strategy))...)
		p := plan(snap, board{c.ups, c.accs}, Query{Turn: c.turn, Seed: 7})
		first := ""
		for _, cand := range p.Candidates {
			if cand.Upstream.ID == "a" {
				first = strings.Join(cand.Accounts, " ")
			}
		}
		if ids(p) != c.want || first != c.first || p.Candidates[0].Why != c.why || p.Candidates[3].Why != WhySingle {
			t.Errorf("%s: %s, accounts of a %s", c.name, show(p), first)
		}
	}
}

func TestTheScoreWeighsEachFactor_B50(t *testing.T) {
	good, bad := Figures{}, Figures{}
	at := func(minutes int) int64 { return now.Add(time.Duration(minutes) * time.Minute).UnixNano() }
	costly := func(u *catalog.Upstream) { u.Multipliers.Input = "2" }
	for _, c := range []struct {
		factor string
		change func()
		up     func(*catalog.Upstream) // of the worse one
		good   AccountFigures          // of the better one's account
	}{
		{"load", func() { bad.Held, bad.Slots = 3, 4; good.Held, good.Slots = 1, 4 }, nil, AccountFigures{}},
		{"error_rate", func() { bad.Failures = 0.3; good.Failures = 0.1 }, nil, AccountFigures{}},
		{"ttft", func() { bad.TTFT, good.TTFT = 2*time.Second, time.Second }, nil, AccountFigures{}},
		{"idle", func() { bad.LastUsed, good.LastUsed = at(-1), at(-2) }, nil, AccountFigures{}},
		{"cost", func() {}, costly, AccountFigures{}},
		{"priority", func() {}, weight(0), AccountFigures{}},
		{"quota", func() {}, nil, AccountFigures{Active: true, QuotaUsed: 0.1}},
		{"reset", func() {}, nil, AccountFigures{Active: true, QuotaUsed: 0.5, QuotaReset: at(5)}},
	} {
		good, bad = Figures{}, Figures{}
		c.change()
		for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} { // whatever the fixed order is
			better, worse := names[0], names[1]
			accs := map[string]AccountFigures{worse + "-1": {Active: true, QuotaUsed: 0.5}}
			if c.good.Active {
				accs[better+"-1"] = c.good
			}
			live := board{map[string]Figures{better: good, worse: bad}, accs}
			only := snapshot(t, up(better, nil, 1), up(worse, c.up, 1), setting("scheduling.score", c.factor+"=1"), setting("scheduling.strategy", "score"), setting("scheduling.score_top", "1"))
			if p := plan(only, live, Query{}); ids(p) != better+" "+worse || p.Candidates[0].Why != WhyScore {
				t.Errorf("%s: %s", c.factor, show(p))
			}
			if c.factor == "quota" || c.factor == "reset" { // they differ in both
				continue
			}
			others := "load=1,error_rate=1,ttft=1,idle=1,cost=1,priority=1,queue=1"
			without := strings.TrimPrefix(strings.ReplaceAll(","+others, ","+c.factor+"=1", ""), ",")
			blind := snapshot(t, up(better, nil, 1), up(worse, c.up, 1), setting("scheduling.score", without), setting("scheduling.strategy", "score"), setting("scheduling.score_top", "1"))
			seen := map[string]bool{}
			for seed := range uint64(40) {
				seen[ids(plan(blind, live, Query{Seed: seed}))] = true
			}
			if len(seen) != 2 {
				t.Errorf("%s counts although its weight is 0: %v", c.factor, seen)
			}
		}
	}
	queue := snapshot(t, up("a", nil, 1), up("b", nil, 1), setting("scheduling.score", "queue=1"), setting("scheduling.strategy", "score"), setting("scheduling.score_top", "1"))
	if p := plan(queue, board{upstreams: map[string]Figures{"a": {Waiting: 3}, "b": {Waiting: 1}}}, Query{Seed: 1}); ids(p) != "b a" {
		t.Error(show(p))
	}
}

func TestAmongTheBestScoresABetterOneComesFirstMoreOften_B50(t *testing.T) {
	live := board{upstreams: map[string]Figures{"a": {Held: 0, Slots: 10}, "b": {Held: 5, Slots: 10}, "c": {Held: 9, Slots: 10}}}
	for top, want := range map[string][2]float64{"1": {1, 0}, "2": {0.6, 0.4}} {
		snap := snapshot(t, up("a", nil, 1), up("b", nil, 1), up("c", nil, 1), setting("scheduling.strategy", "score"), setting("scheduling.score", "load=1"), setting("scheduling.score_top", top))
		got := shares(snap, live, 40_000)
		if math.Abs(got["a"]-want[0]) > 0.012 || math.Abs(got["b"]-want[1]) > 0.012 || got["c"] != 0 {
			t.Errorf("among %s: %v", top, got)
		}
	}
}

// B51, C54, C66: failures take from a weight as slowness does, and leave a tenth.
func TestFailuresTakeFromAWeight_C54(t *testing.T) {
	snap := snapshot(t, up("a", nil, 1), up("b", nil, 1))
	for failures, share := range map[float64]float64{0: .5, 0.5: 1. / 3, 1: .1 / 1.1} {
		got := shares(snap, board{upstreams: map[string]Figures{"b": {Failures: failures}}}, 40_000)
		if math.Abs(got["b"]-share) > 0.012 {
			t.Errorf("%.1f failures: %v, want %.3f", failures, got, share)
		}
	}
}

func TestAGroupHasAStrategyOfItsOwn(t *testing.T) {
	snap := snapshot(t, up("a", nil, 1), up("b", nil, 1), setting("scheduling.strategy", "round_robin"),
		[]catalog.Resource{&catalog.Group{ID: "g", Upstreams: []string{"a", "b"}, Strategy: "lru"}, &catalog.Group{ID: "h", Upstreams: []string{"a", "b"}}},
		key("in-g", func(k *catalog.Key) { k.Group = "g" }), key("in-h", func(k *catalog.Key) { k.Group = "h" }))
	for id, want := range map[string]string{"in-g": WhyLRU, "in-h": WhyRoundRobin, "all": WhyRoundRobin} {
		if p := plan(snap, board{}, Query{Key: snap.Key(id)}); p.Candidates[0].Why != want {
			t.Errorf("%s: %s", id, show(p))
		}
	}
}

// E18, B14, B17, B18: explain can say of every account why it was not used.
func TestEveryAccountThatIsLeftOutHasAReason_E18_B14(t *testing.T) {
	past, soon := now.Add(-time.Second), now.Add(time.Minute)
	list := up("a", nil, 6)
	list[1].(*catalog.Account).Active = false
	list[2].(*catalog.Account).ExpiresAt = &now
	list[3].(*catalog.Account).ExpiresAt = &soon
	snap := snapshot(t, list)
	p := plan(snap, board{accounts: map[string]AccountFigures{"a-4": {}, "a-5": {Active: true, BlockedUntil: soon}, "a-6": {Active: true, BlockedUntil: past}}}, Query{ExcludeAccounts: []string{"a-3"}})
	var got []string
	for _, x := range p.ExcludedAccounts {
		got = append(got, x.Account+"="+x.Reason)
		if x.Upstream != "a" || (x.Reason == AccountBlocked) != x.Until.Equal(soon) {
			t.Errorf("%+v", x)
		}
	}
	if want := "a-1=disabled a-2=expired a-3=excluded a-4=dead a-5=blocked"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if show(p) != "a[a-6]:single_candidate_remaining" {
		t.Error(show(p))
	}
	blocked := map[string]AccountFigures{}
	for i := range 40 {
		blocked[fmt.Sprint("m-", i+1)] = AccountFigures{}
	}
	if p := plan(snapshot(t, up("m", nil, 40)), board{accounts: blocked}, Query{}); len(p.ExcludedAccounts) != accountsMax || p.UnlistedAccounts != 40-accountsMax {
		t.Errorf("%d listed, %d not", len(p.ExcludedAccounts), p.UnlistedAccounts)
	}
}

// E18, E19: a block of a single model at an account counts for requests that would ask for that model there, under whatever name,
// and for no others.
func TestABlockOfAModelLeavesTheAccountOutForThatModel_E18_E19(t *testing.T) {
	soon := now.Add(time.Minute)
	of := func(models ...string) AccountFigures {
		b := account.Blocks{Account: "x"}
		for _, m := range models {
			b.Apply(now, m, account.Ask{Until: soon, Reason: account.ReasonRate})
		}
		return AccountFigures{Active: true, Blocks: &b}
	}
	alias := func(u *catalog.Upstream) {
		u.ModelRules = []catalog.ModelRule{{Type: "alias", Value: "fast", Target: "m"}, {Type: "exact", Value: "m"}, {Type: "exact", Value: "n"}}
	}
	snap := snapshot(t, up("a", alias, 2), up("b", priority(1), 1))
	one := board{accounts: map[string]AccountFigures{"a-1": of("m")}}
	both := board{accounts: map[string]AccountFigures{"a-1": of("m"), "a-2": of("m", "n")}}
	past := account.Blocks{Account: "x"}
	past.Apply(now.Add(-time.Minute), "m", account.Ask{Until: now})
	over, hand := AccountFigures{Active: true, Blocks: &past}, of("m")
	hand.BlockedUntil, hand.ByHand = now.Add(time.Second), true
	for _, c := range []struct {
		name, model string
		live        board
		q           Query
		want        string
		left        string
	}{
		{"the other account has it", "m", one, Query{}, "a[a-2]:single_candidate_remaining b[b-1]:single_candidate_remaining", "a-1=model_blocked"},
		{"under another name", "fast", one, Query{}, "a[a-2]:single_candidate_remaining b[b-1]:single_candidate_remaining", "a-1=model_blocked"},
		{"at that upstream by its name", "a/m", one, Query{}, "a[a-2]:single_candidate_remaining", "a-1=model_blocked"},
		{"another model", "n", one, Query{}, "a[a-1 a-2]:single_candidate_remaining b[b-1]:single_candidate_remaining", ""},
		{"its time is over", "m", board{accounts: map[string]AccountFigures{"a-1": over}}, Query{}, "a[a-1 a-2]:single_candidate_remaining b[b-1]:single_candidate_remaining", ""},
		{"at all accounts: the last resort", "m", both, Query{}, "b[b-1]:single_candidate_remaining a[a-1 a-2]:last_resort", "a-1=model_blocked a-2=model_blocked"},
		{"and of the account's session", "m", one, Query{Session: bound("a", "a-1")}, "a[a-2]:affinity_escaped_model_blocked b[b-1]:single_candidate_remaining", "a-1=model_blocked"},
		{"on top of an operator's block", "m", board{accounts: map[string]AccountFigures{"a-1": hand, "a-2": {}}}, Query{}, "b[b-1]:single_candidate_remaining | a=no_account", "a-1=blocked a-2=dead"},
	} {
		c.q.Model = c.model
		p := plan(snap, c.live, c.q)
		var left []string
		for _, x := range p.ExcludedAccounts {
			if left = append(left, x.Account+"="+x.Reason); x.Reason != AccountDead && !x.Until.Equal(soon) {
				t.Errorf("%s: until %s", c.name, x.Until)
			}
		}
		if show(p) != c.want || strings.Join(left, " ") != c.left {
			t.Errorf("%s: %s, left out %v; want %s, %s", c.name, show(p), left, c.want, c.left)
		}
	}
	only := snapshot(t, up("a", nil, 1), setting("scheduling.all_blocked", "reject"))
	if p := plan(only, one, Query{Model: "m"}); p.Refusal.RetryAfter != time.Minute {
		t.Errorf("refused until %s", p.Refusal.RetryAfter)
	}
}

func TestThePriorityOfAccountsComesBeforeTheirLoad_B50(t *testing.T) {
	list := up("a", nil, 3)
	list[1].(*catalog.Account).Priority = 2
	list[3].(*catalog.Account).Priority = -1
	snap := snapshot(t, list)
	busy := board{accounts: map[string]AccountFigures{"a-3": {Active: true, Held: 3, Slots: 4}, "a-2": {Active: true, Held: 1, Slots: 4}}}
	if p := plan(snap, busy, Query{}); show(p) != "a[a-3 a-2 a-1]:single_candidate_remaining" {
		t.Error(show(p))
	}
}

// E19: a wholly blocked upstream comes after all healthy ones, of every tier.
func TestTheLastResortComesAfterEverythingElse_E19(t *testing.T) {
	soon := now.Add(time.Minute)
	blocked := map[string]AccountFigures{"a-1": {Active: true, BlockedUntil: soon}, "a-2": {Active: true, BlockedUntil: soon.Add(-time.Second)}}
	snap := snapshot(t, up("a", nil, 2), up("b", priority(1), 1), up("c", priority(2), 1))
	p := plan(snap, board{accounts: blocked}, Query{})
	if ids(p) != "b c a" || !p.Candidates[2].LastResort || p.Candidates[0].LastResort || strings.Join(p.Candidates[2].Accounts, " ") != "a-2 a-1" {
		t.Error(show(p))
	}
	unable := Plan{}
	Make(&Query{Capability: dialect.CapChat, Key: snap.Key("all"), Now: now}, snap, board{accounts: blocked}, &unable)
	if ids(&unable) != "b c" || unable.Excluded[0].Reason != NoAccount {
		t.Errorf("a lease that takes no blocked account: %s", show(&unable))
	}
	strict := snapshot(t, up("a", nil, 2), up("b", priority(1), 1), setting("scheduling.all_blocked", "reject"))
	if p := plan(strict, board{accounts: blocked}, Query{}); show(p) != "b[b-1]:single_candidate_remaining | a=no_account" {
		t.Error(show(p))
	}
}

// C53: under every strategy, over either kind of board, a plan is a permutation within the tiers, free before full, and
// the same for the same query.
func TestEveryStrategyPermutesWithinTheTiers_C53(t *testing.T) {
	for _, strategy := range []string{catalog.StrategyWeighted, catalog.StrategyRoundRobin, catalog.StrategyLeastLoaded, catalog.StrategyLRU, catalog.StrategyScore} {
		resources := [][]catalog.Resource{setting("scheduling.strategy", strategy), setting("scheduling.score", "priority=1,load=1,queue=1,error_rate=1,ttft=1,reset=1,quota=1,cost=1,idle=1")}
		live := board{map[string]Figures{}, map[string]AccountFigures{}}
		together := batch{accounts: map[string][]AccountFigures{}}
		for i := range 23 {
			id := fmt.Sprintf("u%02d", i)
			resources = append(resources, up(id, func(u *catalog.Upstream) { u.Priority, u.Weight = i%4, i%3 }, 1+i%20))
			live.upstreams[id] = Figures{Held: i % 5, Slots: 4, TTFT: time.Duration(i%7) * time.Second, Failures: float64(i%11) / 10, LastUsed: now.UnixNano() - int64(i%6)*1e9}
			for k := range 1 + i%20 {
				f := AccountFigures{Held: k % 4, Slots: k % 5, Active: k%6 != 5, QuotaUsed: float64(k%3) / 2, QuotaReset: now.UnixNano() + int64(k%2)*1e12, LastUsed: int64(k % 3)}
				live.accounts[fmt.Sprint(id, "-", k+1)] = f
			}
		}
		snap := snapshot(t, resources...)
		for _, u := range snap.Upstreams() {
			for i := range u.Accounts {
				together.accounts[u.ID] = append(together.accounts[u.ID], live.accounts[u.Accounts[i].ID])
			}
		}
		together.board = live
		for seed := range uint64(50) {
			p := plan(snap, live, Query{Seed: seed, Turn: seed})
			if other := plan(snap, together, Query{Seed: seed, Turn: seed}); show(p) != show(other) {
				t.Fatalf("%s, seed %d: one by one %s\ntogether %s", strategy, seed, show(p), show(other))
			}
			seen := map[string]bool{}
			for i, c := range p.Candidates {
				if i > 0 {
					before := p.Candidates[i-1]
					if before.Tier > c.Tier || before.Tier == c.Tier && (before.full || !before.account) && !c.full && c.account {
						t.Fatalf("%s, seed %d: %s", strategy, seed, show(p))
					}
				}
				accounts := map[string]bool{}
				for _, a := range c.Accounts {
					if accounts[a] || !strings.HasPrefix(a, c.Upstream.ID+"-") || !live.accounts[a].Active {
						t.Fatalf("%s, seed %d: %s", strategy, seed, show(p))
					}
					accounts[a] = true
				}
				if seen[c.Upstream.ID] || c.Tier != c.Upstream.Priority {
					t.Fatalf("%s, seed %d: %s", strategy, seed, show(p))
				}
				seen[c.Upstream.ID] = true
			}
			if len(seen) != 23 {
				t.Fatalf("%s, seed %d: %d candidates", strategy, seed, len(seen))
			}
		}
	}
}

func TestNoStrategyAllocatesInTheSteadyState(t *testing.T) {
	for _, strategy := range []string{catalog.StrategyWeighted, catalog.StrategyRoundRobin, catalog.StrategyLeastLoaded, catalog.StrategyLRU, catalog.StrategyScore} {
		snap := snapshot(t, up("a", nil, 3), up("b", nil, 2), up("c", nil, 1), setting("scheduling.strategy", strategy), setting("scheduling.public_names_only", "true"))
		q := Query{Capability: dialect.CapChat, Key: snap.Key("all"), Now: now, Model: "a/x", ExcludeAccounts: []string{"a-2"}}
		var p Plan
		var live Live = board{accounts: map[string]AccountFigures{"a-3": {}}}
		for _, model := range []string{"a/x", "", "unknown"} {
			q.Model = model
			Make(&q, snap, live, &p)
			if n := testing.AllocsPerRun(100, func() { Make(&q, snap, live, &p) }); n > 0 {
				t.Errorf("%s, %q: %v allocations", strategy, model, n)
			}
		}
	}
}
