package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/pricing"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// raw folds facts without any check, as old or foreign facts come.
func raw(resources ...Resource) *State {
	s := NewState()
	for i, r := range resources {
		s.Evolve(set(r, true), int64(i+1))
	}
	return s
}

func TestModelRules_C15_C18_C43_C50(t *testing.T) {
	chain := func(n int) (list []ModelRule) {
		for i := range n {
			list = append(list, ModelRule{"alias", fmt.Sprint("m", i), fmt.Sprint("m", i+1)})
		}
		return list
	}
	for _, c := range []struct {
		name  string
		rules []ModelRule
		model string
		want  Match
	}{
		{"no rules take every model (C46)", nil, "gpt-5", Match{true, "gpt-5", false}},
		{"no model passes every rule (C43)", []ModelRule{{"exact", "gpt-5", ""}}, "", Match{true, "", false}},
		{"exact is the whole name (C16)", []ModelRule{{"exact", "gpt-5", ""}}, "gpt-5", Match{true, "gpt-5", false}},
		{"exact is case sensitive", []ModelRule{{"exact", "gpt-5", ""}}, "GPT-5", Match{false, "GPT-5", false}},
		{"exact is no prefix (C45)", []ModelRule{{"exact", "gpt-5", ""}}, "gpt-5-mini", Match{false, "gpt-5-mini", false}},
		{"regex is not anchored (C18)", []ModelRule{{"regex", "pt-", ""}}, "gpt-5", Match{true, "gpt-5", false}},
		{"anchored regex", []ModelRule{{"regex", "^gpt-", ""}}, "my-gpt-5", Match{false, "my-gpt-5", false}},
		{"alias resolves (C17)", []ModelRule{{"alias", "fast", "gpt-5-mini"}}, "fast", Match{true, "gpt-5-mini", true}},
		{"an alias does not take its target", []ModelRule{{"alias", "fast", "gpt-5-mini"}}, "gpt-5-mini", Match{false, "gpt-5-mini", false}},
		{"aliases chain (C17)", []ModelRule{{"alias", "b", "c"}, {"alias", "a", "b"}}, "a", Match{true, "c", true}},
		{"ten hops are followed (C17)", chain(10), "m0", Match{true, "m10", true}},
		{"eleven hops are not", chain(11), "m0", Match{false, "m0", false}},
		{"and the shorter chain within them is", chain(11), "m1", Match{true, "m11", true}},
		{"a circular alias is ignored", []ModelRule{{"alias", "a", "b"}, {"alias", "b", "a"}, {"regex", "^a$", ""}}, "a", Match{true, "a", false}},
		{"nothing but a circular alias still excludes", []ModelRule{{"alias", "a", "a"}}, "x", Match{false, "x", false}},
		{"an invalid regex is ignored, not the rules beside it", []ModelRule{{"regex", "(", ""}, {"exact", "x", ""}}, "x", Match{true, "x", false}},
		{"nothing but an invalid regex still excludes", []ModelRule{{"regex", "(", ""}}, "x", Match{false, "x", false}},
		{"first hit wins: regex before alias (C50)", []ModelRule{{"regex", "^f", ""}, {"alias", "fast", "slow"}}, "fast", Match{true, "fast", false}},
		{"first hit wins: alias before regex (C50)", []ModelRule{{"alias", "fast", "slow"}, {"regex", "^f", ""}}, "fast", Match{true, "slow", true}},
		{"first hit wins: exact before alias (C50)", []ModelRule{{"exact", "fast", ""}, {"alias", "fast", "slow"}}, "fast", Match{true, "fast", false}},
		{"first alias of a name wins (C50)", []ModelRule{{"alias", "fast", "one"}, {"alias", "fast", "two"}}, "fast", Match{true, "one", true}},
		{"an unknown type never matches", []ModelRule{{"glob", "*", ""}}, "x", Match{false, "x", false}},
	} {
		u := upstream("a")
		u.ModelRules = c.rules
		if got := Build(raw(u), nil).Upstream("a").Match(c.model); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// C19-C21: rules never rewrite; upstream_models do, by the requested name before the resolved one.
func TestOnlyUpstreamModelsRewriteTheBody_C19_C21(t *testing.T) {
	u := upstream("a")
	u.ModelRules = []ModelRule{{"alias", "gpt-4o-mini", "gpt-4o"}, {"alias", "house", "gpt-5"}, {"alias", "both", "gpt-5"}}
	u.UpstreamModels = map[string]string{"gpt-5": "gpt-5-2025", "both": "mine"}
	c := Build(raw(u), nil).Upstream("a")
	for model, want := range map[string]string{"gpt-4o-mini": "", "house": "gpt-5-2025", "both": "mine", "other": "", "": ""} {
		if got := c.BodyModel(model, c.Match(model).Resolved); got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
}

func TestPoolsHoldActiveUpstreamsByPriority_C5_C14_A44(t *testing.T) {
	up := func(id string, priority int, active bool, caps ...dialect.Capability) *Upstream {
		u := NewUpstream(id, "http://h", caps...)
		u.Priority, u.Active = priority, active
		return u
	}
	b := Build(raw(up("c", 0, true, "openai_responses"), up("a", 1, true, "openai_responses"), up("b", 0, true, "codex_responses", "openai_responses"),
		up("off", 0, false, "openai_responses"), up("other", 0, true, "anthropic_messages"), up("cli", 0, true, "codex_cli_responses")), nil)
	ids := func(list []*CompiledUpstream) (out []string) {
		for _, u := range list {
			out = append(out, u.ID)
		}
		return out
	}
	if got := ids(b.Pool("openai_responses")); !slices.Equal(got, []string{"b", "c", "a"}) {
		t.Errorf("got %v", got)
	}
	if got := ids(b.Pool("codex_cli_responses")); !slices.Equal(got, []string{"cli"}) {
		t.Errorf("got %v", got)
	}
	if b.ActiveUpstreams() != 5 || len(b.Upstreams()) != 6 {
		t.Errorf("%d active of %d", b.ActiveUpstreams(), len(b.Upstreams()))
	}
}

// E52: one bad row never takes the others along, and is counted by name.
func TestBadRowsAreSkippedAndCounted_E52(t *testing.T) {
	bad := func(change func(*Upstream)) *Upstream {
		u := upstream("bad")
		change(u)
		return u
	}
	for _, c := range []struct {
		row  Resource
		want string
	}{
		{bad(func(u *Upstream) { u.BaseURL = "::" }), "upstream bad: base_url"},
		{bad(func(u *Upstream) { u.Multipliers.Input = "1.23456" }), "upstream bad: multipliers.input"},
		{bad(func(u *Upstream) { u.Multipliers.Output = "-1" }), "upstream bad: multipliers.output"},
		{bad(func(u *Upstream) { u.OnDisconnect = "shrug" }), "upstream bad: on_disconnect"},
		{bad(func(u *Upstream) { u.ModelRules = []ModelRule{{"regex", "(", ""}} }), "upstream bad: model_rules[0]"},
		{account("orphan", "nowhere"), "account orphan: upstream"},
		{&Group{ID: "bad", Multiplier: "x"}, "group bad: multiplier"},
		{&Key{ID: "bad", Hash: "md5:1"}, "key bad: hash"},
		{&Key{ID: "bad", Hash: shaHash(2), Multiplier: "dear"}, "key bad: multiplier"},
		{&Key{ID: "zwin", Hash: shaHash(1)}, "key zwin: hash"},
		{&Price{ID: "bad", Model: "m", Input: "1", Output: "a lot"}, "price bad: output"},
		{&Rule{ID: "bad", Match: RuleMatch{BodyPattern: "("}}, "rule bad: match.body_pattern"},
		{&Setting{Name: "was.known", Value: "1"}, "setting was.known: name"},
		{&Setting{Name: "chat_usage", Value: "guess"}, "setting chat_usage: value"},
	} {
		state := raw(upstream("ok"), account("ok-1", "ok"), &Key{ID: "k", Hash: shaHash(1)}, &Price{ID: "p", Model: "m", Input: "1", Output: "1"}, c.row)
		b := Build(state, nil)
		if len(b.Skipped) != 1 || !strings.HasPrefix(b.Skipped[0].Error(), c.want+": ") {
			t.Errorf("%s: skipped %v", c.want, b.Skipped)
		}
		if b.Upstream("ok") == nil || b.Account("ok-1") == nil || b.Key("k") == nil || flat(b, "m", "", "ok", noon) != "p@1" || b.Settings.ChatUsage != "inject" {
			t.Errorf("%s: the good rows are not in force", c.want)
		}
		if again := Build(state, b); len(again.Skipped) != 1 {
			t.Errorf("%s: forgotten when taken over from the snapshot before", c.want)
		}
	}
}

func TestABuildTakesOverWhatIsUnchanged(t *testing.T) {
	s := NewState()
	u := upstream("a")
	u.ModelRules = []ModelRule{{"regex", "^gpt-", ""}, {"alias", "x", "x"}}
	s.Evolve(&UpstreamRegistered{*u}, 1)
	first := Build(s, nil)
	s.Evolve(&AccountRegistered{*account("a-1", "a")}, 2)
	second := Build(s, first)
	if second.Upstream("a").models != first.Upstream("a").models {
		t.Error("the rules of an unchanged upstream were compiled again")
	}
	if len(first.Upstream("a").Accounts) != 0 || len(second.Upstream("a").Accounts) != 1 || first.Revision != 1 || second.Revision != 2 {
		t.Error("a build changed the snapshot before it")
	}
	if len(second.Skipped) != 1 {
		t.Errorf("skipped %v", second.Skipped)
	}
}

func TestKeysAreFoundByTheirSecret_A13(t *testing.T) {
	secret := "sk-pen-abcdefgh"
	sum := sha256.Sum256([]byte(secret))
	b := Build(raw(&Key{ID: "sha", Hash: "sha256:" + hex.EncodeToString(sum[:])},
		&Key{ID: "long", Hash: bcryptHash, Prefix: "sk-pen-abcd"}, &Key{ID: "short", Hash: bcryptHash, Prefix: "sk-pen-"}, &Key{ID: "none", Hash: bcryptHash},
		&Key{ID: "none2", Hash: bcryptHash}, &Key{ID: "other", Hash: bcryptHash, Prefix: "sk-pen-x"}, &Key{ID: "longer", Hash: bcryptHash, Prefix: "sk-pen-abcdefghi"}), nil)
	if k := b.KeyBySHA256(sum); k == nil || k.ID != "sha" {
		t.Errorf("got %+v", k)
	}
	if k := b.KeyBySHA256([32]byte{}); k != nil {
		t.Errorf("got %+v", k)
	}
	ids := func(secret string) string {
		var out []string
		for _, k := range b.BcryptKeys([]byte(secret)) {
			out = append(out, k.ID)
		}
		return strings.Join(out, " ")
	}
	for range 2 { // what was found before must not be changed by the next search
		for secret, want := range map[string]string{secret: "none none2 short long", "sk-": "none none2", "": "none none2", "sk-pen-xyz": "none none2 short other"} {
			if got := ids(secret); got != want {
				t.Errorf("%q: %s, want %s", secret, got, want)
			}
		}
	}
}

func TestAuthorization_A13_A17_A24(t *testing.T) {
	at := func(d time.Duration) *time.Time { return ptr(noon.Add(d)) }
	s := raw(&User{ID: "on"}, &User{ID: "off", Disabled: true},
		&Key{ID: "plain", Hash: shaHash(1)}, &Key{ID: "revoked", Hash: shaHash(2), Revoked: true, ExpiresAt: at(-1), User: "off"},
		&Key{ID: "expired", Hash: shaHash(3), ExpiresAt: at(0), User: "off"}, &Key{ID: "fresh", Hash: shaHash(4), ExpiresAt: at(1), User: "on"},
		&Key{ID: "owned", Hash: shaHash(5), User: "off"}, &Key{ID: "orphan", Hash: shaHash(6), User: "gone"})
	b := Build(s, nil)
	for id, want := range map[string]Denial{
		"plain":   Accepted,    // A17: no owner, no check of one
		"revoked": InvalidKey,  // before everything else
		"expired": ExpiredKey,  // A16, before the owner (A13); the instant itself is expired
		"fresh":   Accepted,    //
		"owned":   DisabledKey, // A17
		"orphan":  DisabledKey, // fails closed
		"nobody":  InvalidKey,  // A15
	} {
		if got := b.Authorize(b.Key(id), noon); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	// A24: a key that was verified against an older snapshot is judged by this one.
	old := b.Key("plain")
	for name, fact := range map[string]Fact{"revoked": &KeyChanged{Key{ID: "plain", Hash: shaHash(1), Revoked: true}}, "removed": &KeyRemoved{"plain"}, "another secret": &KeyChanged{Key{ID: "plain", Hash: shaHash(9)}}} {
		s := s.Clone()
		s.Evolve(fact, 99)
		if got := Build(s, b).Authorize(old, noon); got != InvalidKey {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// B7.
func TestModelsOfAKey_A31_A35(t *testing.T) {
	k := &Key{Models: []string{"gpt-5", "claude-*", "?-mini"}}
	for model, want := range map[string]bool{"gpt-5": true, "gpt-5-mini": false, "claude-": true, "claude-opus-4": true, "my-claude-x": false, "o-mini": true, "-mini": false, "": true} {
		if k.allowsModel(model) != want {
			t.Errorf("%q: %v", model, !want)
		}
	}
	if !(&Key{}).allowsModel("anything") {
		t.Error("an empty list is no limit")
	}
	for _, c := range [][3]string{{"*", "", "y"}, {"a*b*c", "aXbYbZc", "y"}, {"a*b", "acbd", "n"}, {"**", "x", "y"}, {"a?", "a", "n"}, {"", "", "y"}, {"*a", "aaab", "n"}, {"a*", "a", "y"}} {
		if got := Glob(c[0], c[1]); got != (c[2] == "y") {
			t.Errorf("%q on %q: %v", c[0], c[1], got)
		}
	}
}

func TestGrants_A38_A39_C40_D21_D24_D50_E17(t *testing.T) {
	b := Build(raw(upstream("a"), upstream("b"), upstream("c"), account("a-1", "a"), account("a-2", "a"), account("b-1", "b"), account("c-1", "c"),
		&Group{ID: "up", Upstreams: []string{"a", "b"}}, &Group{ID: "acc", Accounts: []string{"a-2", "c-1"}}, &Group{ID: "mixed", Upstreams: []string{"b"}, Accounts: []string{"a-1"}},
		&Group{ID: "empty"}, &Group{ID: "stale", Upstreams: []string{"gone"}, Accounts: []string{"gone"}},
		&Key{ID: "all", Hash: shaHash(1), Access: Unrestricted}, &Key{ID: "list", Hash: shaHash(2), Access: Restricted, Upstreams: []string{"a", "gone"}},
		&Key{ID: "nothing", Hash: shaHash(3), Access: Restricted}, &Key{ID: "odd", Hash: shaHash(4), Access: "sometimes"},
		&Key{ID: "g-up", Hash: shaHash(5), Access: Unrestricted, Group: "up"}, &Key{ID: "g-acc", Hash: shaHash(6), Access: Unrestricted, Group: "acc"},
		&Key{ID: "g-mixed", Hash: shaHash(7), Access: Unrestricted, Group: "mixed"}, &Key{ID: "g-empty", Hash: shaHash(8), Access: Unrestricted, Group: "empty"},
		&Key{ID: "g-stale", Hash: shaHash(9), Access: Unrestricted, Group: "stale"}, &Key{ID: "g-gone", Hash: shaHash(10), Access: Unrestricted, Group: "gone"},
		&Key{ID: "both", Hash: shaHash(11), Access: Restricted, Upstreams: []string{"a", "b"}, Group: "acc"},
		&Key{ID: "apart", Hash: shaHash(12), Access: Restricted, Upstreams: []string{"b"}, Group: "acc"},
	), nil)
	for id, want := range map[string]string{
		"all":     "a(a-1 a-2) b(b-1) c(c-1)", // A39
		"list":    "a(a-1 a-2)",               // A38
		"nothing": "",                         // E17: an empty list is nothing
		"odd":     "",
		"g-up":    "a(a-1 a-2) b(b-1)",
		"g-acc":   "a(a-2) c(c-1)", // D23
		"g-mixed": "a(a-1) b(b-1)",
		"g-empty": "closed", // D22
		"g-stale": "closed", // D50
		"g-gone":  "closed", // D21
		"both":    "a(a-2)",
		"apart":   "",
	} {
		g := b.Grant(b.Key(id))
		var got []string
		for _, u := range b.Upstreams() {
			if !g.Upstream(u) {
				continue
			}
			var list []string
			for i := range u.Accounts {
				if g.Account(&u.Accounts[i]) {
					list = append(list, u.Accounts[i].ID)
				}
			}
			got = append(got, u.ID+"("+strings.Join(list, " ")+")")
		}
		if g.NoAccounts {
			got = append(got, "closed")
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", id, s, want)
		}
	}
	if g := b.Grant(&Key{ID: "foreign"}); g.Upstream(b.Upstream("a")) || g.Account(&b.Upstream("a").Accounts[0]) && g.Upstream(b.Upstream("a")) {
		t.Error("a key that is not in the snapshot has grants")
	}
}

// C34: the factors of the upstream, of the group and of the key reach the price.
func TestMultipliersOfAnAttempt_C34(t *testing.T) {
	u := upstream("a")
	u.Multipliers = Multipliers{Input: "0.5", Output: "2"}
	b := Build(raw(u, upstream("b"), &Group{ID: "g", Multiplier: "1.2"}, &Key{ID: "in", Hash: shaHash(1), Group: "g"}, &Key{ID: "out", Hash: shaHash(2)},
		&Key{ID: "both", Hash: shaHash(3), Group: "g", Multiplier: "0.75"}, &Key{ID: "free", Hash: shaHash(4), Multiplier: "0"}), nil)
	for _, c := range []struct {
		up, key string
		want    pricing.Multipliers
	}{
		{"a", "in", pricing.Multipliers{Input: 5000, Output: 20_000, Group: 12_000}},
		{"a", "out", pricing.Multipliers{Input: 5000, Output: 20_000, Group: pricing.One}},
		{"b", "out", pricing.Plain()},
		{"b", "both", pricing.Multipliers{Input: pricing.One, Output: pricing.One, Group: 12_000, Key: ptr[pricing.Multiplier](7500)}},
		{"a", "free", pricing.Multipliers{Input: 5000, Output: 20_000, Group: pricing.One, Key: ptr[pricing.Multiplier](0)}},
	} {
		if got := b.Multipliers(b.Upstream(c.up), Payer{b.Key(c.key).Group, c.key}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: %+v", c.up, c.key, got)
		}
	}
	if got := b.Multipliers(b.Upstream("b"), Payer{"gone", "gone"}); got != pricing.Plain() {
		t.Errorf("of what is gone: %+v", got)
	}
}

// flat is the version of the price that is charged for a short input, "" for an unpriced model.
func flat(b *Snapshot, model, upstreamModel, upstream string, at time.Time) string {
	q, _ := b.Sheets(model, upstreamModel, upstream, at).Quote("", 0)
	return q.Version
}

func TestPricesByPrecedence(t *testing.T) {
	s := NewState()
	apply(t, s, upstream("up"), upstream("other"))
	day := func(n int) *time.Time { return ptr(noon.AddDate(0, 0, n)) }
	for _, p := range []*Price{
		{ID: "exact", Model: "gpt-5", Input: "1", Output: "1"},
		{ID: "exact-up", Model: "gpt-5", Upstream: "up", Input: "2", Output: "1"},
		{ID: "exact-up-later", Model: "gpt-5", Upstream: "up", EffectiveFrom: day(1), Input: "3", Output: "1"},
		{ID: "glob", Model: "gpt-*", Input: "4", Output: "1"},
		{ID: "glob-long", Model: "gpt-4*", Input: "5", Output: "1"},
		{ID: "glob-up", Model: "*", Upstream: "up", Input: "6", Output: "1"},
		{ID: "dated-1", Model: "o3", EffectiveFrom: day(-2), Input: "7", Output: "1"},
		{ID: "dated-2", Model: "o3", EffectiveFrom: day(-1), Input: "8", Output: "1"},
		{ID: "future", Model: "o4", EffectiveFrom: day(1), Input: "9", Output: "1"},
		{ID: "glob-future", Model: "gpt-4.5*", EffectiveFrom: day(1), Input: "9", Output: "1"},
	} {
		apply(t, s, p)
	}
	apply(t, s, &Price{ID: "glob", Model: "gpt-*", Input: "4.5", Output: "1"})
	b := Build(s, nil)
	for _, c := range []struct {
		name, model, sent, upstream string
		at                          time.Time
		want                        string
	}{
		{"of this upstream before general", "gpt-5", "", "up", noon, "exact-up@1"},
		{"general for another upstream", "gpt-5", "", "other", noon, "exact@1"},
		{"newest that has begun", "gpt-5", "", "up", *day(1), "exact-up-later@1"},
		{"not before it has begun", "gpt-5", "", "up", day(1).Add(-1), "exact-up@1"},
		{"exact before glob, even when only the glob names the upstream", "o3", "", "up", noon, "dated-2@1"},
		{"the older date before the newer one", "o3", "", "other", day(-1).Add(-1), "dated-1@1"},
		{"nothing before the first date but a glob", "o3", "", "up", *day(-3), "glob-up@1"},
		{"nothing before the first date", "o3", "", "other", *day(-3), ""},
		{"glob with upstream before longer glob", "gpt-4o", "", "up", noon, "glob-up@1"},
		{"longer glob first", "gpt-4o", "", "other", noon, "glob-long@1"},
		{"a glob that has not begun is passed over", "gpt-4.5-x", "", "other", noon, "glob-long@1"},
		{"version counts changes", "gpt-6", "", "other", noon, "glob@2"},
		{"the rewritten model when the resolved one has none", "house", "gpt-5", "other", noon, "exact@1"},
		{"the resolved model first", "gpt-6", "gpt-5", "other", noon, "glob@2"},
		{"not begun", "o4", "o4", "other", noon, ""},
		{"no model", "", "", "up", noon, ""},
		{"no model, but a rewritten one", "", "o3", "other", noon, "dated-2@1"},
	} {
		if got := flat(b, c.model, c.sent, c.upstream, c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRatesFallBackAndAreExact(t *testing.T) {
	for _, c := range []struct {
		p    Price
		want pricing.Rates
	}{
		{Price{Input: "2.5", Output: "10"}, pricing.Rates{Input: 2_500_000, CachedInput: 2_500_000, CacheWrite5m: 2_500_000, CacheWrite1h: 2_500_000, Output: 10_000_000,
			Reasoning: 10_000_000, AudioInput: 2_500_000, AudioOutput: 10_000_000, ImageInput: 2_500_000, ImageOutput: 10_000_000}},
		{Price{Input: "3", Output: "15", CachedInput: "0.3", CacheWrite5m: "3.75"}, pricing.Rates{Input: 3_000_000, CachedInput: 300_000, CacheWrite5m: 3_750_000, CacheWrite1h: 3_750_000, Output: 15_000_000,
			Reasoning: 15_000_000, AudioInput: 3_000_000, AudioOutput: 15_000_000, ImageInput: 3_000_000, ImageOutput: 15_000_000}},
		{Price{Input: "3", Output: "0", CachedInput: "0", CacheWrite1h: "6", PerRequest: "0.000001"},
			pricing.Rates{Input: 3_000_000, CacheWrite5m: 3_000_000, CacheWrite1h: 6_000_000, AudioInput: 3_000_000, ImageInput: 3_000_000, PerRequest: 10_000}},
	} {
		if got, err := c.p.Compile(""); err != nil || got.Flat != c.want {
			t.Errorf("%+v: got %+v, %v", c.p, got, err)
		}
	}
	for _, p := range []Price{{Input: "1.0000001", Output: "1"}, {Input: "1", Output: "-1"}, {Input: "1", Output: "1000000.000001"}} {
		if got, err := p.Compile(""); err == nil {
			t.Errorf("%+v: got %+v", p, got)
		}
	}
}

func TestSettingsHaveTheirDefaultsAndAreSet(t *testing.T) {
	d := DefaultSettings()
	if d.MaxAttempts != 6 || d.FailoverOn400 || !d.FailoverOnAuth || d.OnExhausted != "unified" || d.AbandonedBilling != "last_progress" || d.ChatUsage != "inject" || !d.FailoverOn400Match.MatchString("Invalid Signature in thinking") {
		t.Errorf("%+v", d)
	}
	b := Build(raw(&Setting{"failover.max_attempts", "0"}, &Setting{"failover_on_400", "true"}, &Setting{"failover_on_auth", "false"}, &Setting{"on_exhausted", "last_answer"},
		&Setting{"abandoned_billing", "none"}, &Setting{"chat_usage", "estimate"}, &Setting{"failover_on_400_match", "^x$"}), nil)
	if s := b.Settings; s.MaxAttempts != 0 || !s.FailoverOn400 || s.FailoverOnAuth || s.OnExhausted != "last_answer" || s.AbandonedBilling != "none" || s.ChatUsage != "estimate" || s.FailoverOn400Match.MatchString("xx") {
		t.Errorf("%+v", s)
	}
}

func TestRulesApplyInTheirOrderAndOnlyWhenAllConditionsHold(t *testing.T) {
	b := Build(raw(&Rule{ID: "z", Priority: 1, Match: RuleMatch{Status: []int{500}}}, &Rule{ID: "a", Priority: 2, Match: RuleMatch{ErrorType: "x"}},
		&Rule{ID: "m", Priority: 1, Upstream: "up", Match: RuleMatch{Status: []int{500, 503}, ErrorType: "busy", BodyPattern: `(?i)try "later"`, Header: "X-Kind: ^edge$"}}), nil)
	var ids []string
	for _, r := range b.Rules("up", nil) {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"m", "z", "a"}) || len(b.Rules("other", nil)) != 2 {
		t.Fatalf("got %v", ids)
	}
	rule := b.Rules("up", nil)[0]
	whole := Evidence{503, []string{"", "busy"}, []byte(`{"m":"Try "Later""}`), func(name string) string { return map[string]string{"X-Kind": "edge"}[name] }}
	if !rule.Matches(whole) {
		t.Error("all conditions hold")
	}
	for name, e := range map[string]Evidence{
		"status": {500 + 2, whole.Types, whole.Body, whole.Header}, "type": {503, nil, whole.Body, whole.Header}, "body": {503, whole.Types, nil, whole.Header},
		"header": {503, whole.Types, whole.Body, func(string) string { return "edges" }}, "no headers": {503, whole.Types, whole.Body, nil}, "nothing": {},
		"body beyond 64 KiB": {503, whole.Types, append(make([]byte, RuleBodyMax), whole.Body...), whole.Header},
	} {
		if rule.Matches(e) {
			t.Errorf("matched without its %s", name)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	var all []Resource
	for i := range 200 {
		u := upstream(fmt.Sprintf("up-%03d", i))
		u.ModelRules = []ModelRule{{"regex", "^gpt-", ""}, {"alias", "fast", "gpt-5-mini"}}
		all = append(all, u)
		for k := range 5 {
			all = append(all, account(fmt.Sprintf("%s-%d", u.ID, k), u.ID))
		}
	}
	for i := range 1000 {
		all = append(all, &Key{ID: fmt.Sprintf("key-%04d", i), Hash: shaHash(i), Access: Restricted, Upstreams: []string{"up-001", "up-002"}})
	}
	s := raw(all...)
	prev := Build(s, nil)
	b.ReportAllocs()
	for b.Loop() {
		prev = Build(s, prev)
	}
	if len(prev.Skipped) > 0 {
		b.Fatal(prev.Skipped)
	}
}
