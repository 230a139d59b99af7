package catalog

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/dialect"
)

const bcryptHash = "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW"

func shaHash(i int) string { return fmt.Sprintf("sha256:%064x", i) }

func ptr[T any](v T) *T { return &v }

func upstream(id string) *Upstream {
	return NewUpstream(id, "http://127.0.0.1:9001", dialect.CapChat)
}

func account(id, up string) *Account {
	return &Account{ID: id, Upstream: up, SecretVersion: 1, Masked: "sk-***1234", Active: true}
}

// apply decides and folds resources in any order, and fails the test when one is refused.
func apply(t testing.TB, s *State, resources ...Resource) []Change {
	t.Helper()
	cmds := make([]Command, len(resources))
	for i, r := range resources {
		cmds[i] = Apply{Resource: r}
	}
	changes, err := DecideAll(s, cmds)
	if err != nil {
		t.Fatal(err)
	}
	evolve(s, changes)
	return changes
}

func evolve(s *State, changes []Change) {
	for _, c := range changes {
		for _, f := range c.Facts {
			s.Evolve(f, s.Revision+1)
		}
	}
}

func TestApplyOfAnUnchangedResourceYieldsNoFact(t *testing.T) {
	s := NewState()
	all := []Resource{
		&Key{ID: "k", Hash: shaHash(1), User: "u", Group: "g", Upstreams: []string{"a"}, ExpiresAt: ptr(time.Date(2030, 1, 1, 3, 0, 0, 999, time.FixedZone("x", 3600)))},
		upstream("a"), account("a-1", "a"), &Group{ID: "g", Upstreams: []string{"a"}, Multiplier: "1.50"}, &User{ID: "u"},
		&Price{Model: "gpt-5", Input: "1.250", Output: "10"}, &Rule{ID: "r", Match: RuleMatch{Status: []int{418}}}, &Setting{Name: "failover.max_attempts", Value: "06"},
	}
	if changes := apply(t, s, all...); len(changes) != len(all) {
		t.Fatalf("%d changes, want %d", len(changes), len(all))
	}
	for _, c := range apply(t, s, all...) {
		t.Errorf("changed again: %s", c.Ref)
	}
	if s.Revision != int64(len(all)) {
		t.Errorf("revision %d", s.Revision)
	}
	k, version, _ := s.Get(KindKey, "k")
	if got := k.(*Key); version != 1 || got.Access != Restricted || got.ExpiresAt.Format(time.RFC3339Nano) != "2030-01-01T02:00:00Z" {
		t.Errorf("key %+v at version %d", got, version)
	}
	if p, _, ok := s.Get(KindPrice, "gpt-5"); !ok || p.(*Price).Input != "1.25" {
		t.Errorf("price %+v", p)
	}
}

func TestDecideLeavesTheGivenResourceAlone(t *testing.T) {
	u := &Upstream{ID: "a", BaseURL: "http://h/", Capabilities: []dialect.Capability{"codex_responses", "openai_responses"}}
	facts, err := Decide(NewState(), Apply{Resource: u})
	if err != nil {
		t.Fatal(err)
	}
	got := facts[0].(*UpstreamRegistered).Upstream
	want := Upstream{ID: "a", BaseURL: "http://h", Capabilities: []dialect.Capability{"openai_responses"}, Breaker: defaultBreaker, Timeouts: defaultTimeouts, OnDisconnect: "cancel"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if u.BaseURL != "http://h/" || u.Breaker != (Breaker{}) || u.Capabilities[0] != "codex_responses" {
		t.Errorf("the given resource was changed: %+v", u)
	}
	got.Capabilities[0] = "x"
	if u.Capabilities[1] != "openai_responses" {
		t.Error("fact and given resource share a list")
	}
}

func TestEveryFaultNamesItsField(t *testing.T) {
	with := func(change func(*Upstream)) *Upstream {
		u := upstream("openai-main")
		change(u)
		return u
	}
	price := func(change func(*Price)) *Price {
		p := &Price{Model: "m", Input: "1", Output: "2"}
		change(p)
		return p
	}
	aliases := func(n int) (list []ModelRule) {
		for i := range n {
			list = append(list, ModelRule{"alias", fmt.Sprint("m", i), fmt.Sprint("m", i+1)})
		}
		return list
	}
	for _, c := range []struct {
		r    Resource
		want string
	}{
		{with(func(u *Upstream) { u.Breaker.Failures = 0 }), "upstream openai-main: breaker.failures: must be 1..1,000,000"},
		{with(func(u *Upstream) { u.Breaker.Failures = 1_000_001 }), "upstream openai-main: breaker.failures: must be 1..1,000,000"},
		{with(func(u *Upstream) { u.ID = "" }), "upstream: id: is required"},
		{with(func(u *Upstream) { u.ID = "a/b" }), "upstream a/b: id: must be letters, digits and ._-:@+, with a letter or digit first"},
		{with(func(u *Upstream) { u.BaseURL = "" }), "upstream openai-main: base_url: is required"},
		{with(func(u *Upstream) { u.BaseURL = "ftp://h" }), "upstream openai-main: base_url: must be an address such as https://api.openai.com"},
		{with(func(u *Upstream) { u.BaseURL = "https://" }), "upstream openai-main: base_url: must be an address such as https://api.openai.com"},
		{with(func(u *Upstream) { u.BaseURL = "https://k:v@h" }), "upstream openai-main: base_url: must not hold credentials; they belong into an account"},
		{with(func(u *Upstream) { u.BaseURL = "https://h/?key=1" }), "upstream openai-main: base_url: must not have a query or a fragment"},
		{with(func(u *Upstream) { u.PathPrefix = ptr("v1") }), `upstream openai-main: path_prefix: must be "" or a path such as /openai/v1`},
		{with(func(u *Upstream) { u.Capabilities = nil }), "upstream openai-main: capabilities: is required"},
		{with(func(u *Upstream) { u.Capabilities = append(u.Capabilities, "telepathy") }), `upstream openai-main: capabilities[1]: "telepathy" is none of`},
		{with(func(u *Upstream) { u.Weight = -1 }), "upstream openai-main: weight: must be 0..1,000,000"},
		{with(func(u *Upstream) { u.Slots = ptr(0) }), "upstream openai-main: slots: must be 1..1,000,000 or null"},
		{with(func(u *Upstream) { u.Queue = &Queue{Discipline: "lifo"} }), "upstream openai-main: queue.discipline: must be fifo or fair"},
		{with(func(u *Upstream) { u.Queue = &Queue{AgeEvery: Duration(25 * time.Hour)} }), "upstream openai-main: queue.age_every: must be 1ms..24h"},
		{with(func(u *Upstream) { u.Queue = &Queue{MaxLength: ptr(0)} }), "upstream openai-main: queue.max_length: must be 1..1,000,000 or null"},
		{with(func(u *Upstream) { u.Timeouts.Idle = 0 }), "upstream openai-main: timeouts.idle: must be 1ms..24h"},
		{with(func(u *Upstream) { u.Breaker.OpenFor = Duration(8 * 24 * time.Hour) }), "upstream openai-main: breaker.open_for: must be 1ms..168h"},
		{with(func(u *Upstream) { u.ModelRules = []ModelRule{{"exact", "a", ""}, {"regex", "(", ""}} }), "upstream openai-main: model_rules[1].value: is not a valid regular expression"},
		{with(func(u *Upstream) { u.ModelRules = []ModelRule{{"alias", "a", "b"}, {"alias", "b", "a"}} }), `upstream openai-main: model_rules[0].value: is a circular alias over "a"`},
		{with(func(u *Upstream) { u.ModelRules = []ModelRule{{"alias", "a", "a"}} }), `upstream openai-main: model_rules[0].value: is a circular alias over "a"`},
		{with(func(u *Upstream) { u.ModelRules = aliases(11) }), "upstream openai-main: model_rules[0].value: is a chain of more than 10 aliases"},
		{with(func(u *Upstream) { u.ModelRules = []ModelRule{{"alias", "a", ""}} }), "upstream openai-main: model_rules[0].target: is required"},
		{with(func(u *Upstream) { u.ModelRules = []ModelRule{{"exact", "a", "b"}} }), "upstream openai-main: model_rules[0].target: only for an alias"},
		{with(func(u *Upstream) { u.ModelRules = []ModelRule{{"glob", "a", ""}} }), "upstream openai-main: model_rules[0].type: must be exact, regex or alias"},
		{with(func(u *Upstream) { u.UpstreamModels = map[string]string{"a": ""} }), "upstream openai-main: upstream_models.a: is required"},
		{with(func(u *Upstream) { u.Multipliers.Input = "100.1" }), "upstream openai-main: multipliers.input: must be 0..100"},
		{with(func(u *Upstream) { u.Multipliers.Output = "1.00001" }), "upstream openai-main: multipliers.output: must be a decimal"},
		{with(func(u *Upstream) { u.OnDisconnect = "drain_up_to:soon" }), `upstream openai-main: on_disconnect: drain_up_to needs a duration of 1ms..24h, not "soon"`},
		{with(func(u *Upstream) { u.Headers = map[string]string{"Authorization": "x"} }), "upstream openai-main: headers.Authorization: holds a credential; it belongs into an account"},
		{with(func(u *Upstream) { u.Headers = map[string]string{"x-a": "x", "X-A": "y"} }), "upstream openai-main: headers.x-a: is named twice"},
		{with(func(u *Upstream) { u.Headers = map[string]string{"x a": "x"} }), "upstream openai-main: headers.x a: is not a header name"},
		{with(func(u *Upstream) { u.Headers = map[string]string{"x-a": "x\r\ny: z"} }), "upstream openai-main: headers.x-a: has control characters"},
		{&Account{ID: "a", Upstream: "nowhere", SecretVersion: 1, Masked: "***"}, "account a: upstream: upstream nowhere does not exist"},
		{&Account{ID: "a", Upstream: "up"}, "account a: api_key: is required"},
		{&Account{ID: "a", Upstream: "up", Masked: "sk-***1234"}, "account a: api_key: is masked, and there is no account to keep the key of"},
		{&Account{ID: "a", Upstream: "up", SecretVersion: 1, Masked: "sk-plain-text"}, "account a: api_key: must be sealed and masked before it is recorded"},
		{&Account{ID: "up-1", Upstream: "up", Masked: "sk-***9999"}, "account up-1: api_key: is masked but not the present key sk-***1234; give the whole key"},
		{&Account{ID: "a", SecretVersion: 1, Masked: "***"}, "account a: upstream: is required"},
		{&Group{ID: "g", Upstreams: []string{"up", "nowhere"}}, "group g: upstreams[1]: upstream nowhere does not exist"},
		{&Group{ID: "g", Accounts: []string{"up-1", "up-1"}}, "group g: accounts[1]: up-1 is named twice"},
		{&Group{ID: "g", Multiplier: "-1"}, "group g: multiplier: must be 0..100"},
		{&User{ID: "u", Slots: ptr(-1)}, "user u: slots: must be 1..1,000,000 or null"},
		{&Key{ID: "k"}, "key k: hash: must be sha256: and 64 hex digits"},
		{&Key{ID: "k", Hash: "sha256:" + strings.Repeat("g", 64)}, "key k: hash: must be sha256: and 64 hex digits"},
		{&Key{ID: "k", Hash: bcryptHash[:59] + "!"}, "key k: hash: must be sha256: and 64 hex digits"},
		{&Key{ID: "k", Hash: shaHash(7)}, "key k: hash: is already the hash of key taken"},
		{&Key{ID: "k", Hash: shaHash(1), User: "nobody"}, "key k: user: user nobody does not exist"},
		{&Key{ID: "k", Hash: shaHash(1), Group: "none"}, "key k: group: group none does not exist"},
		{&Key{ID: "k", Hash: shaHash(1), Upstreams: []string{"none"}}, "key k: upstreams[0]: upstream none does not exist"},
		{&Key{ID: "k", Hash: shaHash(1), Access: "some"}, "key k: access: must be restricted or unrestricted"},
		{&Key{ID: "k", Hash: shaHash(1), Access: Unrestricted, Upstreams: []string{"up"}}, "key k: upstreams: only with access: restricted"},
		{&Key{ID: "k", Hash: shaHash(1), Multiplier: "100.5"}, "key k: multiplier: must be 0..100"},
		{&Key{ID: "k", Hash: shaHash(1), Multiplier: "1.00001"}, "key k: multiplier: must be a decimal"},
		{&Key{ID: "k", Hash: shaHash(1), Models: []string{""}}, "key k: models[0]: is required"},
		{price(func(p *Price) { p.Model = "" }), "price: model: is required"},
		{price(func(p *Price) { p.Input = "" }), `price m: input: is required ("0" is free)`},
		{price(func(p *Price) { p.Output = "0.0000001" }), "price m: output: must be a decimal"},
		{price(func(p *Price) { p.CachedInput = "-1" }), "price m: cached_input: must be 0..1000000"},
		{price(func(p *Price) { p.Upstream = "none" }), "price none/m: upstream: upstream none does not exist"},
		{&Rule{ID: "r"}, "rule r: match: needs at least one of status, error_type, body_pattern, header"},
		{&Rule{ID: "r", Match: RuleMatch{BodyPattern: "("}}, "rule r: match.body_pattern: is not a valid regular expression"},
		{&Rule{ID: "r", Match: RuleMatch{Header: "x"}}, `rule r: match.header: must be "name: pattern"`},
		{&Rule{ID: "r", Match: RuleMatch{Status: []int{42}}}, "rule r: match.status[0]: must be 100..599"},
		{&Key{ID: "k", Hash: shaHash(1), ExpiresAt: ptr(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)))}, "key k: expires_at: must be between the years 1 and 9999"},
		{&Price{Model: "m", Input: "1", Output: "1", EffectiveFrom: ptr(time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)))}, "price m: effective_from: must be between the years 1 and 9999"},
		{&Account{ID: "up-1", Upstream: "up", ExpiresAt: ptr(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}, "account up-1: expires_at: must be between the years 1 and 9999"},
		{&Key{ID: "k", Hash: "$2b$16" + bcryptHash[6:]}, "key k: hash: has a bcrypt cost above 15"},
		{&Key{ID: "k", Hash: "$2b$31" + bcryptHash[6:]}, "key k: hash: has a bcrypt cost above 15"},
		{&Setting{Name: "failover.max_atempts", Value: "1"}, "setting failover.max_atempts: name: unknown setting; known are failover.max_attempts, "},
		{&Setting{Name: "failover.max_attempts", Value: "-1"}, "setting failover.max_attempts: value: must be 0..1,000"},
		{&Setting{Name: "on_exhausted", Value: "panic"}, "setting on_exhausted: value: must be one of unified, last_answer, bad_gateway"},
		{&Setting{Name: "failover_on_400", Value: "yes"}, "setting failover_on_400: value: must be true or false"},
	} {
		s := NewState()
		apply(t, s, upstream("up"), account("up-1", "up"), &Key{ID: "taken", Hash: shaHash(7)})
		facts, err := Decide(s, Apply{Resource: c.r})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, ErrInvalid) || facts != nil {
			t.Errorf("got  %v (%v)\nwant %s", err, facts, c.want)
		}
	}
}

// faultsIn takes an error apart.
func faultsIn(err error) []*InvalidError {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var list []*InvalidError
		for _, e := range many.Unwrap() {
			list = append(list, faultsIn(e)...)
		}
		return list
	}
	var one *InvalidError
	if errors.As(err, &one) {
		return []*InvalidError{one}
	}
	return nil
}

func TestAllFaultsOfAResourceAreReportedTogether(t *testing.T) {
	u := upstream("a")
	u.BaseURL, u.Weight, u.Breaker.Failures = "x", -1, -1
	_, err := Decide(NewState(), Apply{Resource: u})
	var fields []string
	for _, f := range faultsIn(err) {
		fields = append(fields, f.Field)
	}
	if !slices.Equal(fields, []string{"base_url", "weight", "breaker.failures"}) {
		t.Errorf("got %v", fields)
	}
}

func TestAMaskedCredentialMeansTheOneThatIsThere(t *testing.T) {
	s := NewState()
	apply(t, s, upstream("a"), &Account{ID: "a-1", Upstream: "a", SecretVersion: 7, Masked: "sk-***1234", Active: true})
	changes := apply(t, s, &Account{ID: "a-1", Upstream: "a", Masked: "sk-***1234", Active: true, Slots: ptr(3)})
	if len(changes) != 1 {
		t.Fatalf("%v", changes)
	}
	if got := changes[0].Facts[0].(*AccountChanged); got.SecretVersion != 7 || *got.Slots != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestRemovalIsRefusedWhileReferencedAndNamesByWhom(t *testing.T) {
	s := NewState()
	apply(t, s, upstream("a"), account("a-1", "a"), &Group{ID: "g", Accounts: []string{"a-1"}}, &User{ID: "u"},
		&Key{ID: "k", Hash: shaHash(1), User: "u", Group: "g", Upstreams: []string{"a"}}, &Price{Model: "m", Upstream: "a", Input: "1", Output: "1"},
		&Rule{ID: "r", Upstream: "a", Match: RuleMatch{Status: []int{500}}})
	for _, c := range []struct {
		ref  Ref
		want string
	}{
		{Ref{KindUpstream, "a"}, "upstream a: is used by account a-1, key k, price a/m, rule r"},
		{Ref{KindAccount, "a-1"}, "account a-1: is used by group g"},
		{Ref{KindGroup, "g"}, "group g: is used by key k"},
		{Ref{KindUser, "u"}, "user u: is used by key k"},
	} {
		if _, err := Decide(s, Remove{c.ref.Kind, c.ref.ID}); !errors.Is(err, ErrReferenced) || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if _, err := Decide(s, Remove{KindKey, "nobody"}); !errors.Is(err, ErrNotFound) || err.Error() != "key nobody: not found" {
		t.Errorf("got %v", err)
	}
	var all []Command
	for _, k := range Kinds() {
		for _, r := range s.List(k) {
			all = append(all, Remove{k, r.Ident()})
		}
	}
	changes, err := DecideAll(s, all)
	if err != nil {
		t.Fatalf("all at once: %v", err)
	}
	evolve(s, changes)
	for _, k := range Kinds() {
		if list := s.List(k); len(list) > 0 {
			t.Errorf("%s is left: %v", k, list)
		}
	}
	if c := apply(t, s, &User{ID: "u"}); c[0].Version != 2 {
		t.Errorf("the version of a stream restarted: %+v", c[0])
	} else if _, isNew := c[0].Facts[0].(*UserRegistered); !isNew {
		t.Errorf("got %T", c[0].Facts[0])
	}
}

func TestDecideAllIsAllOrNothing(t *testing.T) {
	s := NewState()
	_, err := DecideAll(s, []Command{Apply{Resource: &User{ID: "u"}}, Apply{Resource: &User{ID: "v", Slots: ptr(-1)}}, Remove{KindKey, "k"}, Apply{Resource: &User{ID: "u"}}})
	want := "user u: is given twice; ids must differ\nuser v: slots: must be 1..1,000,000 or null\nkey k: not found"
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 || !strings.Contains(err.Error(), "key k: not found") || !strings.Contains(err.Error(), "user u: is given twice") {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if len(s.List(KindUser)) != 0 {
		t.Error("the state was changed")
	}
	for _, cmd := range []Command{nil, Apply{}} {
		if _, err := Decide(s, cmd); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: got %v", cmd, err)
		}
	}
}

// E52: what cannot be read takes rights away and never gives older ones back.
func TestAnUnreadableFactDisablesAKeyAndItsGrants_E52(t *testing.T) {
	s := NewState()
	apply(t, s, upstream("a"), account("a-1", "a"), &Group{ID: "g", Upstreams: []string{"a"}}, &User{ID: "u"}, &User{ID: "v"},
		&Key{ID: "k", Hash: shaHash(1)}, &Key{ID: "ku", Hash: shaHash(2), User: "u"}, &Key{ID: "kg", Hash: shaHash(3), Group: "g"}, &Key{ID: "ok", Hash: shaHash(4), User: "v"})
	for _, ref := range []Ref{{KindKey, "k"}, {KindUser, "u"}, {KindGroup, "g"}, {KindUpstream, "a"}} {
		s.Evolve(&Unreadable{ref, "schema 9 is unknown"}, s.Revision+1)
	}
	b := Build(s, nil)
	now := time.Unix(0, 0)
	if b.Key("k") != nil || b.KeyBySHA256([32]byte{31: 1}) != nil {
		t.Error("the key's older value was revived")
	}
	if d := b.Authorize(b.Key("ku"), now); d != DisabledKey {
		t.Errorf("key of an unreadable user: %q", d)
	}
	if g := b.Grant(b.Key("kg")); !g.NoAccounts || g.Upstream(b.Upstream("a")) {
		t.Error("key of an unreadable group has grants")
	}
	if b.Authorize(b.Key("ok"), now) != Accepted || b.Upstream("a") == nil {
		t.Error("an upstream lost its older value, or a bystander was hit")
	}
	if len(b.Skipped) != 4 {
		t.Errorf("skipped: %v", b.Skipped)
	}
	// Writing it again puts it in force, also with the value of before.
	if c := apply(t, s, &Key{ID: "k", Hash: shaHash(1)}, upstream("a")); len(c) != 2 || c[1].Version != 2 {
		t.Fatalf("%+v", c)
	}
	if b := Build(s, b); b.Key("k") == nil || len(b.Skipped) != 2 {
		t.Errorf("after the repair: %v", b.Skipped)
	}
}

func TestAHashIsFreeAgainWhenItsKeyHasAnotherOrIsGone(t *testing.T) {
	s := NewState()
	apply(t, s, &Key{ID: "a", Hash: shaHash(1)}, &Key{ID: "b", Hash: shaHash(2)})
	apply(t, s, &Key{ID: "a", Hash: shaHash(3)})
	apply(t, s, &Key{ID: "c", Hash: shaHash(1)})
	s.Evolve(&KeyRemoved{"b"}, s.Revision+1)
	apply(t, s, &Key{ID: "d", Hash: shaHash(2)})
	if _, err := Decide(s, Apply{Resource: &Key{ID: "e", Hash: "sha256:" + strings.ToUpper(shaHash(3)[7:])}}); err == nil {
		t.Error("a hash in use was given again")
	}
}

func TestStreamsNameTheirResource(t *testing.T) {
	for _, k := range Kinds() {
		ref := Ref{k, "a/b:c"}
		if got, ok := RefOfStream(ref.Stream()); !ok || got != ref {
			t.Errorf("%s: got %v, %v", ref.Stream(), got, ok)
		}
	}
	for _, s := range []string{"request/x", "catalog/", "catalog/key", "catalog/key/", "catalog/dog/x"} {
		if got, ok := RefOfStream(s); ok {
			t.Errorf("%q is %v", s, got)
		}
	}
	s := NewState()
	s.Evolve(struct{}{}, 9)
	if s.Revision != 9 {
		t.Error("a foreign fact did not move the revision")
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	for d, want := range map[time.Duration]string{30 * time.Second: "30s", 5 * time.Minute: "5m", time.Hour: "1h", 90 * time.Minute: "1h30m", 61 * time.Second: "1m1s", 0: "0s", 1500 * time.Millisecond: "1.5s", 10 * time.Minute: "10m", time.Hour + time.Second: "1h0m1s"} {
		var back Duration
		if got := Duration(d).String(); got != want || back.UnmarshalText([]byte(got)) != nil || back.Std() != d {
			t.Errorf("%v: got %s, back %v", d, got, back.Std())
		}
	}
}

// Of hashes, too, only the result counts: a key gets another id, keys exchange their secrets or hand them on, in one go and in
// any order. No two keys have the same one, also when one of them is only named again.
func TestHashesAreJudgedByTheResult(t *testing.T) {
	k := func(id string, hash int) Command { return Apply{Resource: &Key{ID: id, Hash: shaHash(hash)}} }
	for name, c := range map[string]struct {
		cmds []Command
		ok   bool
		want map[string]string // id by hash
	}{
		"another id":                {[]Command{k("new", 1), Remove{KindKey, "a"}}, true, map[string]string{shaHash(1): "new", shaHash(2): "b"}},
		"an exchange":               {[]Command{k("a", 2), k("b", 1)}, true, map[string]string{shaHash(2): "a", shaHash(1): "b"}},
		"handed on":                 {[]Command{k("c", 1), k("a", 3)}, true, map[string]string{shaHash(1): "c", shaHash(2): "b", shaHash(3): "a"}},
		"taken":                     {cmds: []Command{k("c", 1)}},
		"taken from one that stays": {cmds: []Command{k("c", 1), k("a", 1)}},
		"the same for two":          {cmds: []Command{k("c", 5), k("d", 5)}},
		"nothing changes":           {[]Command{k("a", 1), k("b", 2)}, true, map[string]string{shaHash(1): "a", shaHash(2): "b"}},
	} {
		s := NewState()
		apply(t, s, &Key{ID: "a", Hash: shaHash(1)}, &Key{ID: "b", Hash: shaHash(2)})
		for range 2 {
			if _, err := DecideAll(s, c.cmds); (err == nil) != c.ok {
				t.Errorf("%s: %v", name, err)
			}
			slices.Reverse(c.cmds)
		}
		changes, _ := DecideAll(s, c.cmds)
		if evolve(s, changes); c.ok && !reflect.DeepEqual(s.hashes, c.want) {
			t.Errorf("%s: %v", name, s.hashes)
		}
		if _, err := DecideAll(s, []Command{k("z", 1)}); err == nil {
			t.Errorf("%s: a hash in use is free", name)
		}
	}
}

// A document that says nothing about the revocation of a key neither revokes it nor brings it back to life; one that does, does.
func TestWhatSaysNothingOfARevocationLeavesIt(t *testing.T) {
	for _, c := range []struct {
		was, said, unsaid, want bool
	}{
		{was: true, unsaid: true, want: true}, {was: false, unsaid: true, want: false},
		{was: true, want: false}, {was: false, said: true, want: true},
	} {
		s := NewState()
		apply(t, s, &Key{ID: "k", Hash: shaHash(1), Revoked: c.was})
		changes, err := DecideAll(s, []Command{Apply{Resource: &Key{ID: "k", Hash: shaHash(1), Revoked: c.said}, RevokedUnsaid: c.unsaid}})
		if err != nil {
			t.Fatal(err)
		}
		evolve(s, changes)
		if r, _, _ := s.Get(KindKey, "k"); r.(*Key).Revoked != c.want {
			t.Errorf("%+v: revoked %v", c, r.(*Key).Revoked)
		}
	}
	for text, want := range map[string]bool{`{"id":"k"}`: true, `{"id":"k","revoked":null}`: true, `{"id":"k","revoked":false}`: false, `{"id":"k","revoked":true}`: false} {
		if _, x, err := DecodeResource(KindKey, []byte(text)); err != nil || x.RevokedUnsaid != want {
			t.Errorf("%s: %+v %v", text, x, err)
		}
	}
}

func TestSinceIsWhereAResourceWasAddedLast(t *testing.T) {
	s, ref := NewState(), Ref{KindUpstream, "u"}
	for i, fact := range []Fact{
		&UpstreamRegistered{Upstream: Upstream{ID: "u"}}, &UpstreamChanged{Upstream: Upstream{ID: "u"}},
		&UpstreamRemoved{ID: "u"}, &UpstreamRegistered{Upstream: Upstream{ID: "u"}}, &UpstreamChanged{Upstream: Upstream{ID: "u"}},
	} {
		s.Evolve(fact, int64(10+i))
		if want := []int64{10, 10, 10, 13, 13}[i]; s.Since(ref) != want {
			t.Errorf("after fact %d: %d, want %d", i, s.Since(ref), want)
		}
	}
	if at := s.Since(Ref{KindKey, "none"}); at != 0 {
		t.Errorf("of none: %d", at)
	}
}
