package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSchedulingHasTheDefaultsOfTheReference(t *testing.T) {
	s := DefaultSettings().Scheduling
	want := Scheduling{
		Strategy: StrategyWeighted, Score: Score{Priority: 1, Load: 1, Queue: 0.7, ErrorRate: 0.8, TTFT: 0.5}, ScoreTop: 7, LastResort: true,
		PerAccount: 3, Affinity: AffinityBoundWins, Sliding: 5 * time.Minute, Absolute: 30 * time.Minute, Bindings: 10_000,
		EscapeTTFT: 15 * time.Second, EscapeFailures: 0.5,
	}
	if s != want {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestSettingsOfSchedulingAreChecked(t *testing.T) {
	for _, c := range []struct {
		name, value, canonical string
		ok                     bool
	}{
		{"scheduling.strategy", "score", "score", true}, {"scheduling.strategy", "fastest", "", false}, {"scheduling.strategy", "", "", false},
		{"scheduling.score", "ttft=0.50, load=2", "load=2,ttft=0.5", true}, {"scheduling.score", "load=0,ttft=1", "ttft=1", true},
		{"scheduling.score", "load=0", "", false}, {"scheduling.score", "load", "", false}, {"scheduling.score", "lode=1", "", false},
		{"scheduling.score", "load=1,load=2", "", false}, {"scheduling.score", "load=-1", "", false}, {"scheduling.score", "load=NaN", "", false},
		{"scheduling.score", "load=1001", "", false}, {"scheduling.score", "", "", false},
		{"scheduling.score_top", "1", "1", true}, {"scheduling.score_top", "0", "", false}, {"scheduling.score_top", "1001", "", false},
		{"scheduling.all_blocked", "reject", "reject", true}, {"scheduling.all_blocked", "wait", "", false},
		{"scheduling.public_names_only", "true", "true", true}, {"scheduling.public_names_only", "yes", "", false},
		{"failover.per_upstream", "0", "0", true}, {"failover.per_upstream", "-1", "", false}, {"failover.per_account", "03", "3", true},
		{"affinity.mode", "leading_run", "leading_run", true}, {"affinity.mode", "sticky", "", false},
		{"affinity.sliding", "300s", "5m", true}, {"affinity.sliding", "0", "", false}, {"affinity.sliding", "25h", "", false}, {"affinity.sliding", "5", "", false},
		{"affinity.absolute", "168h", "168h", true}, {"affinity.absolute", "169h", "", false},
		{"affinity.bindings", "1", "1", true}, {"affinity.bindings", "0", "", false}, {"affinity.bindings", "1000001", "", false},
		{"affinity.session", "content", "content", true}, {"affinity.session", "ip", "", false},
		{"affinity.escape_ttft", "0", "0", true}, {"affinity.escape_ttft", "0s", "0", true}, {"affinity.escape_ttft", "-1s", "", false}, {"affinity.escape_ttft", "2h", "", false},
		{"affinity.escape_failures", "0.250", "0.25", true}, {"affinity.escape_failures", "1.1", "", false}, {"affinity.escape_failures", "NaN", "", false},
		{"affinity.reasoning", "drop", "drop", true}, {"affinity.reasoning", "keep", "", false},
	} {
		s := DefaultSettings()
		canonical, field, err := s.put(c.name, c.value)
		if (err == nil) != c.ok || c.ok && canonical != c.canonical || err != nil && field != "value" {
			t.Errorf("%s %q: %q, %s, %v", c.name, c.value, canonical, field, err)
		}
		if err != nil && s.Scheduling != DefaultSettings().Scheduling {
			t.Errorf("%s %q was refused and left a trace", c.name, c.value)
		}
		if err == nil {
			if again, _, err := s.put(c.name, canonical); err != nil || again != canonical {
				t.Errorf("%s: %q is not canonical: %q, %v", c.name, canonical, again, err)
			}
		}
	}
}

// C26: the fields come from a resource file, are checked by name, and what is shown can be applied again.
func TestFieldsOfSchedulingGoThroughAResourceFile_C26(t *testing.T) {
	s := NewState()
	for _, text := range []string{
		`{"kind":"upstream","id":"a","base_url":"http://h","capabilities":["openai_responses"],"affinity_migration":{"threshold":50000}}`,
		`{"kind":"account","id":"a-1","upstream":"a","api_key":"sk-12345678","priority":-2,"expires_at":"2030-01-01T00:00:00.1234567+01:00"}`,
		`{"kind":"group","id":"g","upstreams":["a"],"strategy":"lru","affinity":"leading_run"}`,
	} {
		r, _, err := DecodeResource("", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := r.(*Account); ok {
			a.SecretVersion = 1
		}
		facts, err := Decide(s, Apply{Resource: r})
		if err != nil || len(facts) != 1 {
			t.Fatalf("%s: %v %v", text, facts, err)
		}
		s.Evolve(facts[0], s.Revision+1)
		stored, _, _ := s.Get(r.Kind(), r.Ident())
		shown, err := json.Marshal(Public(stored))
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := DecodeResource("", shown)
		if err != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		if facts, err := Decide(s, Apply{Resource: again}); err != nil || len(facts) != 0 {
			t.Errorf("what is shown changes something: %s: %v %v", shown, facts, err)
		}
	}
	u, _, _ := s.Get(KindUpstream, "a")
	if m := u.(*Upstream).AffinityMigration; *m != (Migration{true, MetricTokens, 50_000, DirectionBelow}) {
		t.Errorf("%+v", m)
	}
	a, _, _ := s.Get(KindAccount, "a-1")
	if a := a.(*Account); a.Priority != -2 || !a.ExpiresAt.Equal(time.Date(2029, 12, 31, 23, 0, 0, 123456000, time.UTC)) {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		r    Resource
		want string
	}{
		{&Upstream{ID: "b", BaseURL: "http://h", Capabilities: u.(*Upstream).Capabilities, AffinityMigration: &Migration{Metric: "cost", Direction: "up"}},
			"affinity_migration.metric: must be one of tokens, length|affinity_migration.direction: must be one of below, at_or_above|affinity_migration.threshold: must be 1..10,000,000"},
		{&Group{ID: "h", Strategy: "x", Affinity: "y"}, "strategy: must be one of weighted, round_robin, least_loaded, lru, score|affinity: must be one of bound_wins, leading_run, off"},
		{&Account{ID: "b-1", Upstream: "a", SecretVersion: 1, Masked: "***", Priority: 1_000_001}, "priority: must be -1,000,000..1,000,000"},
	} {
		_, err := Decide(s, Apply{Resource: c.r})
		for _, part := range strings.Split(c.want, "|") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %s", err, part)
			}
		}
	}
}

// C58 and its anomaly: below the threshold by default, at or above it when it is set so.
func TestWhichSessionsMoveUp_C58(t *testing.T) {
	for _, c := range []struct {
		m              *Migration
		tokens, length int64
		want           bool
	}{
		{nil, 1, 1, false},
		{&Migration{Metric: MetricTokens, Threshold: 10, Direction: DirectionBelow}, 5, 5, false},
		{&Migration{true, MetricTokens, 10, DirectionBelow}, 9, 99, true}, {&Migration{true, MetricTokens, 10, DirectionBelow}, 10, 1, false},
		{&Migration{true, MetricTokens, 10, DirectionAtOrAbove}, 10, 1, true}, {&Migration{true, MetricTokens, 10, DirectionAtOrAbove}, 9, 99, false},
		{&Migration{true, MetricLength, 10, DirectionBelow}, 99, 9, true}, {&Migration{true, MetricLength, 10, DirectionBelow}, 9, 0, false},
	} {
		if got := c.m.Moves(c.tokens, c.length); got != c.want {
			t.Errorf("%+v, %d tokens, %d bytes: %v", c.m, c.tokens, c.length, got)
		}
	}
}

// E13-E16: the list of models, Lists and the reading of names agree.
func TestNamesOfModelsAgreeWithTheirList_E13_E15_E16(t *testing.T) {
	s := NewState()
	apply := func(list ...Resource) {
		for _, r := range list {
			facts, err := Decide(s, Apply{Resource: r})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range facts {
				s.Evolve(f, s.Revision+1)
			}
		}
	}
	ruled, open, off := NewUpstream("ruled", "http://h", "openai_responses"), NewUpstream("open", "http://h", "openai_responses"), NewUpstream("off", "http://h", "openai_responses")
	ruled.ModelRules = []ModelRule{{"exact", "gpt-5", ""}, {"alias", "fast", "gpt-5"}, {"regex", "^o[0-9]", ""}, {"exact", "open/x", ""}}
	ruled.UpstreamModels = map[string]string{"o3": "o3-2025", "not-taken": "y"}
	off.Active, off.ModelRules = false, []ModelRule{{"exact", "hidden", ""}}
	apply(ruled, open, off, &Price{ID: "p", Model: "priced", Input: "1", Output: "1"}, &Price{ID: "s", Model: "ruled/priced", Input: "1", Output: "1"},
		&Key{ID: "k", Hash: "sha256:" + strings.Repeat("0", 64)}, &Key{ID: "few", Hash: "sha256:" + strings.Repeat("1", 64), Models: []string{"gpt-5"}})
	snap := Build(s, nil)
	k := snap.Key("k")
	if got := strings.Join(snap.Models(k), " "); got != "fast gpt-5 o3 open/x priced ruled/priced" {
		t.Error(got)
	}
	listed := map[string]bool{}
	for _, name := range snap.Models(k) {
		listed[name] = true
	}
	for _, name := range []string{"fast", "gpt-5", "o3", "o4", "open/x", "priced", "ruled/priced", "hidden", "not-taken", "", "other"} {
		if snap.Lists(k, name) != listed[name] {
			t.Errorf("%q: Lists says %v", name, !listed[name])
		}
	}
	for name, want := range map[string][2]string{
		"gpt-5": {"", "gpt-5"}, "ruled/gpt-5": {"ruled", "gpt-5"}, "open/x": {"", "open/x"}, "open/y": {"open", "y"}, "open/a/b": {"open", "a/b"},
		"off/hidden": {"", "off/hidden"}, "/x": {"", "/x"}, "open/": {"", "open/"}, "": {"", ""},
		"ruled/priced": {"ruled", "priced"}, // a price declares nothing
	} {
		n, id := snap.ResolveName(k, name), ""
		if n.Upstream != nil {
			id = n.Upstream.ID
		}
		if id != want[0] || n.Model != want[1] {
			t.Errorf("%q: %q at %q", name, n.Model, id)
		}
	}
	few := snap.Key("few")
	for name, want := range map[string]bool{"gpt-5": true, "open/gpt-5": true, "open/o3": false, "elsewhere/gpt-5": false, "": true} {
		if snap.AllowsModel(few, name) != want {
			t.Errorf("a key for gpt-5 and %q: %v", name, !want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { snap.ResolveName(k, "open/y"); snap.Lists(k, "nothing"); snap.AllowsModel(few, "open/gpt-5") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
