package routing

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// board is the live figures; what it does not name is idle.
type board struct {
	upstreams map[string]Figures
	accounts  map[string]AccountFigures
}

func (b board) Upstream(id string) Figures { return b.upstreams[id] }
func (b board) Account(id string) AccountFigures {
	if f, ok := b.accounts[id]; ok {
		return f
	}
	return AccountFigures{Active: true}
}

// up is an upstream with accounts a-1 … a-n.
func up(id string, change func(*catalog.Upstream), accounts int) []catalog.Resource {
	u := catalog.NewUpstream(id, "http://h", dialect.CapChat)
	if change != nil {
		change(u)
	}
	list := []catalog.Resource{u}
	for i := range accounts {
		list = append(list, &catalog.Account{ID: fmt.Sprint(id, "-", i+1), Upstream: id, SecretVersion: 1, Masked: "***", Active: true})
	}
	return list
}

func priority(n int) func(*catalog.Upstream) { return func(u *catalog.Upstream) { u.Priority = n } }
func weight(n int) func(*catalog.Upstream)   { return func(u *catalog.Upstream) { u.Weight = n } }
func models(rules ...catalog.ModelRule) func(*catalog.Upstream) {
	return func(u *catalog.Upstream) { u.ModelRules = rules }
}
func caps(list ...dialect.Capability) func(*catalog.Upstream) {
	return func(u *catalog.Upstream) { u.Capabilities = list }
}

func snapshot(t testing.TB, resources ...[]catalog.Resource) *catalog.Snapshot {
	t.Helper()
	s := catalog.NewState()
	cmds := []catalog.Command{catalog.Apply{Resource: &catalog.Key{ID: "all", Hash: "sha256:" + strings.Repeat("0", 64)}}}
	for _, list := range resources {
		for _, r := range list {
			cmds = append(cmds, catalog.Apply{Resource: r})
		}
	}
	changes, err := catalog.DecideAll(s, cmds)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		for _, f := range c.Facts {
			s.Evolve(f, s.Revision+1)
		}
	}
	b := catalog.Build(s, nil)
	if len(b.Skipped) > 0 {
		t.Fatal(b.Skipped)
	}
	return b
}

func key(id string, change func(*catalog.Key)) []catalog.Resource {
	k := &catalog.Key{ID: id, Hash: fmt.Sprintf("sha256:%064x", []byte(id))}
	change(k)
	return []catalog.Resource{k}
}

func setting(name, value string) []catalog.Resource {
	return []catalog.Resource{&catalog.Setting{Name: name, Value: value}}
}

func plan(snap *catalog.Snapshot, live Live, q Query) *Plan {
	if q.Key == nil {
		q.Key = snap.Key("all")
	}
	if q.Capability == "" {
		q.Capability = dialect.CapChat
	}
	q.Now, q.LastResort = now, true
	var p Plan
	Make(&q, snap, live, &p)
	return &p
}

// show is "a[a-1 a-2]:why b[…]:why | x=reason".
func show(p *Plan) string {
	var out []string
	for _, c := range p.Candidates {
		out = append(out, fmt.Sprintf("%s[%s]:%s", c.Upstream.ID, strings.Join(c.Accounts, " "), c.Why))
	}
	if len(p.Excluded) > 0 {
		out = append(out, "|")
	}
	for _, e := range p.Excluded {
		out = append(out, e.Upstream+"="+e.Reason)
	}
	return strings.Join(out, " ")
}

// A37, A40, B16, B49, C66, C67: who falls out by which filter, in their order; no figure but a breaker or a block takes anybody out.
func TestWhoIsACandidateAndWhyNot(t *testing.T) {
	open := Figures{Breaker: Open, Until: now.Add(time.Minute)}
	due := Figures{Breaker: Open, Until: now}
	probe, busy := Figures{Breaker: HalfOpen, ProbeFree: true}, Figures{Breaker: HalfOpen}
	blocked := AccountFigures{Active: true, BlockedUntil: now.Add(time.Minute)}
	type figures map[string]Figures
	type accounts map[string]AccountFigures
	for _, c := range []struct {
		name string
		snap [][]catalog.Resource
		ups  figures
		accs accounts
		q    Query
		want string
	}{
		{"tiers ascend, smaller first (C22, C52)", [][]catalog.Resource{up("a", priority(2), 1), up("b", priority(-1), 1), up("c", priority(1), 1)}, nil, nil, Query{},
			"b[b-1]:single_candidate_remaining c[c-1]:single_candidate_remaining a[a-1]:single_candidate_remaining"},
		{"inactive joins nothing (C14)", [][]catalog.Resource{up("a", func(u *catalog.Upstream) { u.Active = false }, 1), up("b", nil, 1)}, nil, nil, Query{}, "b[b-1]:single_candidate_remaining"},
		{"model rules (C45, C46)", [][]catalog.Resource{up("a", models(catalog.ModelRule{Type: "exact", Value: "gpt-5"}), 1), up("b", nil, 1)}, nil, nil, Query{Model: "gpt-4"},
			"b[b-1]:single_candidate_remaining | a=model_not_allowed"},
		{"no model passes (C43)", [][]catalog.Resource{up("a", models(catalog.ModelRule{Type: "exact", Value: "gpt-5"}), 1)}, nil, nil, Query{}, "a[a-1]:single_candidate_remaining"},
		{"open and not due (A41)", [][]catalog.Resource{up("a", nil, 1), up("b", priority(1), 1)}, figures{"a": open}, nil, Query{}, "b[b-1]:single_candidate_remaining | a=circuit_open"},
		{"open and due is a probe", [][]catalog.Resource{up("a", nil, 1)}, figures{"a": due}, nil, Query{}, "a[a-1]:half_open_probe"},
		{"half open with a free probe", [][]catalog.Resource{up("a", nil, 1)}, figures{"a": probe}, nil, Query{}, "a[a-1]:half_open_probe"},
		{"half open with its probe under way (A41)", [][]catalog.Resource{up("a", nil, 1), up("b", nil, 1)}, figures{"a": busy}, nil, Query{}, "b[b-1]:single_candidate_remaining | a=circuit_open"},
		{"failed in this request (C52)", [][]catalog.Resource{up("a", nil, 1), up("b", priority(1), 1)}, nil, nil, Query{Exclude: []string{"a"}}, "b[b-1]:single_candidate_remaining | a=excluded"},
		{"accounts that failed in this request (B18)", [][]catalog.Resource{up("a", nil, 2), up("b", priority(1), 1)}, nil, nil, Query{ExcludeAccounts: []string{"a-1", "b-1"}},
			"a[a-2]:single_candidate_remaining | b=excluded"},
		{"without an account", [][]catalog.Resource{up("a", nil, 0), up("b", priority(1), 1)}, nil, nil, Query{}, "b[b-1]:single_candidate_remaining | a=no_account"},
		{"blocked accounts yield to an unblocked one (E18, E19)", [][]catalog.Resource{up("a", nil, 3)}, nil, accounts{"a-1": blocked, "a-3": {}}, Query{}, "a[a-2]:single_candidate_remaining"},
		{"wholly blocked", [][]catalog.Resource{up("a", nil, 2), up("b", priority(1), 1)}, nil, accounts{"a-1": blocked, "a-2": {}}, Query{}, "b[b-1]:single_candidate_remaining a[a-1]:last_resort"},
		{"wholly blocked, of several the one that comes back first (E19)", [][]catalog.Resource{up("a", nil, 3)}, nil, accounts{"a-1": {Active: true, BlockedUntil: now.Add(time.Hour)}, "a-2": blocked, "a-3": {}}, Query{}, "a[a-2 a-1]:last_resort"},
		{"a block that has ended is none", [][]catalog.Resource{up("a", nil, 1)}, nil, accounts{"a-1": {Active: true, BlockedUntil: now}}, Query{}, "a[a-1]:single_candidate_remaining"},
		{"the least used account first, unlimited ones as unused", [][]catalog.Resource{up("a", nil, 5)}, nil,
			accounts{"a-1": {Held: 5, Slots: 10, Active: true}, "a-2": {Held: 1, Slots: 3, Active: true}, "a-3": {Held: 7, Slots: 0, Active: true}, "a-4": {Held: 2, Slots: 0, Active: true}, "a-5": {Held: 4, Slots: 12, Active: true}}, Query{},
			"a[a-4 a-3 a-2 a-5 a-1]:single_candidate_remaining"},
	} {
		if got := show(plan(snapshot(t, c.snap...), board{c.ups, c.accs}, c.q)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// A37-A39, B15: only what the key was granted, down to single accounts.
func TestGrantsLimitUpstreamsAndAccounts_A38_D23(t *testing.T) {
	snap := snapshot(t, up("a", nil, 2), up("b", nil, 2),
		[]catalog.Resource{&catalog.Group{ID: "g", Accounts: []string{"b-2"}}, &catalog.Group{ID: "e"}},
		key("only-a", func(k *catalog.Key) { k.Upstreams = []string{"a"} }),
		key("in-g", func(k *catalog.Key) { k.Group = "g" }),
		key("in-e", func(k *catalog.Key) { k.Group = "e" }),
		key("nothing", func(k *catalog.Key) { k.Upstreams = []string{} }))
	for id, want := range map[string]string{
		"only-a":  "a[a-1 a-2]:single_candidate_remaining",
		"in-g":    "b[b-2]:single_candidate_remaining",
		"in-e":    "| a=not_granted b=not_granted",
		"nothing": "| a=not_granted b=not_granted",
	} {
		if got := show(plan(snap, board{}, Query{Key: snap.Key(id)})); got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
}

func TestRefusalsSayWhy_A49_A50_C59_C60_D46(t *testing.T) {
	later := now.Add(90 * time.Second)
	snap := snapshot(t, up("a", models(catalog.ModelRule{Type: "exact", Value: "m"}), 1), up("b", models(catalog.ModelRule{Type: "exact", Value: "m"}), 1),
		up("odd", caps(dialect.CapMessages), 1),
		[]catalog.Resource{&catalog.Group{ID: "e"}, &catalog.Group{ID: "g", Upstreams: []string{"odd"}}},
		key("none", func(k *catalog.Key) { k.Upstreams = []string{} }), key("odd", func(k *catalog.Key) { k.Upstreams = []string{"odd"} }),
		key("in-e", func(k *catalog.Key) { k.Group = "e" }), key("in-g", func(k *catalog.Key) { k.Group = "g" }))
	strict := snapshot(t, up("a", nil, 1), up("b", nil, 1), setting("scheduling.all_blocked", "reject"))
	open := func(d time.Duration) Figures { return Figures{Breaker: Open, Until: now.Add(d)} }
	off := func(u *catalog.Upstream) { u.Active = false }
	for _, c := range []struct {
		name  string
		snap  *catalog.Snapshot
		live  board
		q     Query
		want  string
		until time.Time
	}{
		{"no upstream", snapshot(t), board{}, Query{}, "503 NO_UPSTREAMS_CONFIGURED", time.Time{}},
		{"no active upstream", snapshot(t, up("a", off, 1)), board{}, Query{}, "503 NO_UPSTREAMS_CONFIGURED", time.Time{}},
		{"no upstream with the capability", snap, board{}, Query{Capability: dialect.CapGemini}, "503 ALL_UPSTREAMS_UNAVAILABLE (CAPABILITY_NOT_SUPPORTED)", time.Time{}},
		{"an empty list grants nothing", snap, board{}, Query{Key: snap.Key("none")}, "403 NO_AUTHORIZED_UPSTREAMS", time.Time{}},
		{"the granted upstream lacks the capability", snap, board{}, Query{Key: snap.Key("odd")}, "403 NO_AUTHORIZED_UPSTREAMS", time.Time{}},
		{"the group's upstream lacks the capability", snap, board{}, Query{Key: snap.Key("in-g")}, "403 NO_AUTHORIZED_UPSTREAMS", time.Time{}},
		{"an empty group fails closed", snap, board{}, Query{Key: snap.Key("in-e")}, "503 NO_ACCOUNTS_IN_GROUP", time.Time{}},
		{"nobody takes the model", snap, board{}, Query{Model: "x"}, "503 ALL_UPSTREAMS_UNAVAILABLE (MODEL_NOT_ALLOWED)", time.Time{}},
		{"all open, until the first comes back", snap, board{upstreams: map[string]Figures{"a": open(2 * time.Minute), "b": open(90 * time.Second)}}, Query{Model: "m"},
			"503 ALL_UPSTREAMS_UNAVAILABLE (UPSTREAM_CIRCUIT_OPEN)", later},
		{"one open, one failed", snap, board{upstreams: map[string]Figures{"a": open(90 * time.Second)}}, Query{Exclude: []string{"b"}}, "503 ALL_UPSTREAMS_UNAVAILABLE (NO_HEALTHY_CANDIDATES)", later},
		{"all accounts blocked, and no last resort", strict, board{accounts: map[string]AccountFigures{"a-1": {BlockedUntil: later, Active: true}, "b-1": {BlockedUntil: later.Add(1), Active: true}}}, Query{},
			"503 ALL_UPSTREAMS_UNAVAILABLE (NO_HEALTHY_CANDIDATES)", later},
	} {
		r := plan(c.snap, c.live, c.q).Refusal
		if got := fmt.Sprint(r.Status, " ", r.Error()); got != c.want || !r.Until.Equal(c.until) {
			t.Errorf("%s: got %s until %v, want %s until %v", c.name, got, r.Until, c.want, c.until)
		}
		if wait := r.RetryAfter; !c.until.IsZero() && wait != 90*time.Second || c.until.IsZero() && wait != 0 {
			t.Errorf("%s: retry after %v", c.name, wait)
		}
	}
	if r := plan(snap, board{}, Query{Model: "m"}).Refusal; !r.IsZero() {
		t.Errorf("refused with candidates: %v", r)
	}
}

// C7-C9: a generic request never meets client-specific upstreams; a client-specific one falls back to generic ones.
func TestClientCapabilitiesAndTheirFallback_C7_C9_C47(t *testing.T) {
	cli := up("cli", caps(dialect.CapCodexCLI), 1)
	gen := up("gen", caps(dialect.CapResponses), 1)
	for _, c := range []struct {
		name           string
		snap           *catalog.Snapshot
		cap, fallback  dialect.Capability
		key            string
		want, wantPool string
	}{
		{"generic request", snapshot(t, cli, gen), dialect.CapResponses, "", "all", "gen", "openai_responses"},
		{"client request", snapshot(t, cli, gen), dialect.CapCodexCLI, dialect.CapResponses, "all", "cli", "codex_cli_responses"},
		{"nobody declares it", snapshot(t, gen), dialect.CapCodexCLI, dialect.CapResponses, "all", "gen", "openai_responses"},
		{"not granted what declares it", snapshot(t, cli, gen, key("k", func(k *catalog.Key) { k.Upstreams = []string{"gen"} })), dialect.CapCodexCLI, dialect.CapResponses, "k", "gen", "openai_responses"},
		{"nobody at all", snapshot(t, up("x", nil, 1)), dialect.CapCodexCLI, dialect.CapResponses, "all", "", "codex_cli_responses"},
	} {
		p := plan(c.snap, board{}, Query{Capability: c.cap, Fallback: c.fallback, Key: c.snap.Key(c.key)})
		got := ""
		for _, cand := range p.Candidates {
			got += cand.Upstream.ID
		}
		if got != c.want || string(p.Capability) != c.wantPool {
			t.Errorf("%s: %s from %s", c.name, got, p.Capability)
		}
	}
}

func TestACandidateCarriesItsModels_C19_C48(t *testing.T) {
	snap := snapshot(t, up("a", func(u *catalog.Upstream) {
		u.ModelRules = []catalog.ModelRule{{Type: "alias", Value: "fast", Target: "gpt-5-mini"}, {Type: "regex", Value: "^gpt-"}}
		u.UpstreamModels = map[string]string{"gpt-5-mini": "gpt-5-mini-2025"}
		u.Priority = 3
	}, 1))
	for model, want := range map[string]Candidate{
		"fast":  {ResolvedModel: "gpt-5-mini", Redirect: true, UpstreamModel: "gpt-5-mini-2025", Tier: 3},
		"gpt-4": {ResolvedModel: "gpt-4", Tier: 3},
		"":      {Tier: 3},
	} {
		got := plan(snap, board{}, Query{Model: model}).Candidates[0]
		if got.ResolvedModel != want.ResolvedModel || got.Redirect != want.Redirect || got.UpstreamModel != want.UpstreamModel || got.Tier != want.Tier {
			t.Errorf("%q: %+v", model, got)
		}
	}
}

// shares counts who comes first over many seeds.
func shares(snap *catalog.Snapshot, live Live, n int) map[string]float64 {
	first := map[string]float64{}
	q := Query{Capability: dialect.CapChat, Key: snap.Key("all"), Now: now}
	var p Plan
	for seed := range n {
		q.Seed = uint64(seed) * 0x2545f4914f6cdd1d
		Make(&q, snap, live, &p)
		first[p.Candidates[0].Upstream.ID] += 1 / float64(n)
	}
	return first
}

func TestWithinATierChanceFollowsWeightAndSpeed_C23_C52(t *testing.T) {
	ms := func(n int) Figures { return Figures{TTFT: time.Duration(n) * time.Millisecond} }
	for _, c := range []struct {
		name string
		snap *catalog.Snapshot
		ups  map[string]Figures
		want map[string]float64
	}{
		{"by weight (C23)", snapshot(t, up("a", weight(1), 1), up("b", weight(2), 1), up("c", weight(7), 1)), nil, map[string]float64{"a": .1, "b": .2, "c": .7}},
		{"equal weights", snapshot(t, up("a", nil, 1), up("b", nil, 1), up("c", nil, 1), up("d", nil, 1)), nil, map[string]float64{"a": .25, "b": .25, "c": .25, "d": .25}},
		{"all weights zero are uniform", snapshot(t, up("a", weight(0), 1), up("b", weight(0), 1)), nil, map[string]float64{"a": .5, "b": .5}},
		{"weight zero comes after all others", snapshot(t, up("a", weight(0), 1), up("b", weight(1), 1)), nil, map[string]float64{"b": 1}},
		{"half as fast, half the share", snapshot(t, up("a", nil, 1), up("b", nil, 1)), map[string]Figures{"a": ms(200), "b": ms(400)}, map[string]float64{"a": 2. / 3, "b": 1. / 3}},
		{"slowness leaves a tenth", snapshot(t, up("a", nil, 1), up("b", nil, 1)), map[string]Figures{"a": ms(1), "b": ms(60_000)}, map[string]float64{"a": 1 / 1.1, "b": .1 / 1.1}},
		{"unknown speed counts as the best", snapshot(t, up("a", nil, 1), up("b", nil, 1)), map[string]Figures{"a": ms(60_000)}, map[string]float64{"a": .5, "b": .5}},
		{"a full one comes behind those with a slot (C52)", snapshot(t, up("a", weight(100), 1), up("b", nil, 1), up("z", priority(1), 1)), map[string]Figures{"a": {Held: 3, Slots: 3}}, map[string]float64{"b": 1}},
		{"one with waiters too", snapshot(t, up("a", weight(100), 1), up("b", nil, 1)), map[string]Figures{"a": {Waiting: 1}}, map[string]float64{"b": 1}},
		{"full ones among themselves by weight, and before the next tier", snapshot(t, up("a", nil, 1), up("b", weight(3), 1), up("z", priority(1), 1)), map[string]Figures{"a": {Held: 1, Slots: 1}, "b": {Held: 1, Slots: 1}}, map[string]float64{"a": .25, "b": .75}},
		{"speed is compared within the tier", snapshot(t, up("a", nil, 1), up("b", nil, 1), up("z", priority(1), 1)), map[string]Figures{"a": ms(900), "b": ms(900), "z": ms(1)}, map[string]float64{"a": .5, "b": .5}},
	} {
		got := shares(c.snap, board{upstreams: c.ups}, 40_000)
		for id, share := range got {
			if math.Abs(share-c.want[id]) > 0.012 { // five standard deviations of 40,000 fair draws
				t.Errorf("%s: %s is first in %.3f, want %.3f", c.name, id, share, c.want[id])
			}
		}
	}
}

// C53: chance never carries a candidate over the border of its tier, and loses or doubles none.
func TestEveryOrderIsAPermutationWithinTiers_C53(t *testing.T) {
	var all [][]catalog.Resource
	for i := range 23 {
		all = append(all, up(fmt.Sprintf("u%02d", i), func(u *catalog.Upstream) { u.Priority, u.Weight = i%4, i%3 }, 1))
	}
	snap := snapshot(t, all...)
	orders := map[string]bool{}
	for seed := range uint64(300) {
		p := plan(snap, board{}, Query{Seed: seed})
		seen := map[string]bool{}
		last := -1
		for _, c := range p.Candidates {
			if c.Tier < last || seen[c.Upstream.ID] || c.Accounts[0] != c.Upstream.ID+"-1" || c.Tier != c.Upstream.Priority {
				t.Fatalf("seed %d: %s", seed, show(p))
			}
			last, seen[c.Upstream.ID] = c.Tier, true
		}
		if len(seen) != 23 {
			t.Fatalf("seed %d: %d candidates", seed, len(seen))
		}
		orders[show(p)] = true
		if again := plan(snap, board{}, Query{Seed: seed}); show(again) != show(p) {
			t.Fatalf("seed %d is not repeatable", seed)
		}
	}
	if len(orders) < 290 {
		t.Errorf("only %d orders of 300 seeds", len(orders))
	}
}

func TestAPlanIsReusedWithoutTraces(t *testing.T) {
	snap := snapshot(t, up("a", nil, 2), up("b", models(catalog.ModelRule{Type: "exact", Value: "m"}), 2))
	var p Plan
	q := Query{Capability: dialect.CapChat, Key: snap.Key("all"), Now: now}
	for _, model := range []string{"m", "x", "m", "x"} {
		for _, c := range []dialect.Capability{dialect.CapChat, dialect.CapGemini} {
			q.Model, q.Capability = model, c
			Make(&q, snap, board{}, &p)
			var fresh Plan
			Make(&q, snap, board{}, &fresh)
			if show(&p) != show(&fresh) || p.Refusal != fresh.Refusal || p.Capability != fresh.Capability {
				t.Fatalf("%s %s: %s, fresh %s", model, c, show(&p), show(&fresh))
			}
		}
	}
}

func TestExclusionsAreBounded(t *testing.T) {
	var all [][]catalog.Resource
	for i := range 50 {
		all = append(all, up(fmt.Sprintf("u%02d", i), models(catalog.ModelRule{Type: "exact", Value: "m"}), 1))
	}
	p := plan(snapshot(t, all...), board{}, Query{Model: "x"})
	if len(p.Excluded) != exclusionsMax || p.Unlisted != 50-exclusionsMax || p.Refusal.Reason != failure.ModelNotAllowed {
		t.Errorf("%d listed, %d not, %v", len(p.Excluded), p.Unlisted, p.Refusal)
	}
}

// batch is a board that has the accounts of each upstream together, as the real one.
type batch struct {
	board
	accounts map[string][]AccountFigures
}

func (b batch) Accounts(u *catalog.CompiledUpstream, into []AccountFigures) {
	copy(into, b.accounts[u.ID])
}

// benchmark plans over a board of maps that nobody writes.
func benchmark(b *testing.B, upstreams, accounts int, strategy string) {
	var all [][]catalog.Resource
	live := board{map[string]Figures{}, map[string]AccountFigures{}}
	together := batch{accounts: map[string][]AccountFigures{}}
	for i := range upstreams {
		id := fmt.Sprintf("u%03d", i)
		all = append(all, up(id, func(u *catalog.Upstream) {
			u.Priority = i % 3
			u.ModelRules = []catalog.ModelRule{{Type: "alias", Value: "fast", Target: "gpt-5"}, {Type: "exact", Value: "gpt-5"}, {Type: "regex", Value: "^o[0-9]"}}
		}, accounts))
		live.upstreams[id] = Figures{TTFT: time.Duration(100+i) * time.Millisecond}
		for k := range accounts {
			f := AccountFigures{Held: k % 3, Slots: 10, Active: true}
			live.accounts[fmt.Sprint(id, "-", k+1)] = f
			together.accounts[id] = append(together.accounts[id], f)
		}
	}
	together.board = live
	if strategy != "" {
		all = append(all, setting("scheduling.strategy", strategy))
	}
	snap := snapshot(b, all...)
	q := Query{Capability: dialect.CapChat, Key: snap.Key("all"), Now: now, Model: "gpt-5"}
	var p Plan
	var l Live = together
	if strategy == "" {
		l = live
	}
	b.ReportAllocs()
	for b.Loop() {
		q.Seed++
		Make(&q, snap, l, &p)
	}
	if len(p.Candidates) != upstreams {
		b.Fatal(show(&p))
	}
}

func BenchmarkMake3x2(b *testing.B)           { benchmark(b, 3, 2, catalog.StrategyWeighted) }
func BenchmarkMake200x5OneByOne(b *testing.B) { benchmark(b, 200, 5, "") }
func BenchmarkMake200x5(b *testing.B) {
	for _, strategy := range []string{catalog.StrategyWeighted, catalog.StrategyRoundRobin, catalog.StrategyLeastLoaded, catalog.StrategyLRU, catalog.StrategyScore} {
		b.Run(strategy, func(b *testing.B) { benchmark(b, 200, 5, strategy) })
	}
}

func TestAPlanInTheSteadyStateDoesNotAllocate(t *testing.T) {
	snap := snapshot(t, up("a", nil, 2), up("b", nil, 2), up("c", models(catalog.ModelRule{Type: "exact", Value: "m"}), 2))
	q := Query{Capability: dialect.CapChat, Key: snap.Key("all"), Now: now, Model: "x"}
	var p Plan
	var live Live = board{}
	Make(&q, snap, live, &p)
	if n := testing.AllocsPerRun(100, func() { Make(&q, snap, live, &p) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if !slices.ContainsFunc(p.Candidates, func(c Candidate) bool { return c.Upstream.ID == "a" }) {
		t.Error(show(&p))
	}
}
