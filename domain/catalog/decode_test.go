package catalog

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestTheExampleOfTheManualIsRead(t *testing.T) {
	r, _, err := DecodeResource("", []byte(`{"kind":"upstream","id":"openai-main","base_url":"http://127.0.0.1:9001",
		"capabilities":["openai_chat_compatible","openai_responses","openai_extended"],"priority":0,"weight":1,"slots":10,
		"queue":{"enabled":true,"timeout":"30s","max_length":100,"discipline":"fifo"},
		"breaker":{"failures":5,"successes":2,"open_for":"300s","probe_every":"30s"},
		"timeouts":{"connect":"10s","first_byte":"30s","idle":"60s"},
		"model_rules":[{"type":"exact","value":"gpt-5"},{"type":"alias","value":"fast","target":"gpt-5-mini"},{"type":"regex","value":"^gpt-"}],
		"upstream_models":{"house-model":"gpt-5"},"multipliers":{"input":"1","output":"1"},"on_disconnect":"cancel","headers":{"x-team":"a"},"active":true}`))
	if err != nil {
		t.Fatal(err)
	}
	want := NewUpstream("openai-main", "http://127.0.0.1:9001", "openai_chat_compatible", "openai_responses", "openai_extended")
	want.Slots, want.Queue = ptr(10), &Queue{Enabled: true, Timeout: Duration(30 * time.Second), MaxLength: ptr(100), Discipline: "fifo"}
	want.ModelRules = []ModelRule{{"exact", "gpt-5", ""}, {"alias", "fast", "gpt-5-mini"}, {"regex", "^gpt-", ""}}
	want.UpstreamModels, want.Headers = map[string]string{"house-model": "gpt-5"}, map[string]string{"x-team": "a"}
	want.Multipliers, want.OnDisconnect = Multipliers{"1", "1"}, "cancel"
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

func TestWhatAFileLeavesOutHasItsDefault(t *testing.T) {
	s := NewState()
	r, _, err := DecodeResource(KindUpstream, []byte(`{"id":"a","base_url":"http://h","capabilities":["openai_responses"],"slots":null,"queue":{},"breaker":{"failures":3},"timeouts":null}`))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, r)
	got, _, _ := s.Get(KindUpstream, "a")
	want := NewUpstream("a", "http://h", "openai_responses")
	want.Breaker.Failures, want.OnDisconnect = 3, "cancel"
	want.Queue = &Queue{Enabled: true, Timeout: Duration(30 * time.Second), Discipline: "fifo"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if r, _, err := DecodeResource(KindUpstream, []byte(`{"id":"a","queue":null}`)); err != nil || r.(*Upstream).Queue != nil {
		t.Errorf("queue: null is no queue, got %+v, %v", r, err)
	}
}

func TestWhatAFileMustNotHoldIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		text string
		want string // every line of the error, joined by " | "
	}{
		{KindKey, `{"id":"k","limits":{"rps":5}}`, "key k: limits.rps: unknown field"},
		{KindKey, `{"id":"k","limits":7}`, "key k: limits: must be an object"},
		{KindKey, `{"id":"k","secret":"sk-pen-x"}`, "key k: secret: is not accepted; give its hash"},
		{KindPrice, `{"id":"p","tiers":[{"above":1,"input":true}],"service_tiers":{"flex":{"imput":1,"tiers":[{"inclusive":1}]},"batch":7},"per_image":[]}`,
			`price p: tiers[0].above: unknown field | price p: tiers[0].input: must be a decimal such as "2.5" | price p: service_tiers.flex.imput: unknown field | price p: service_tiers.flex.tiers[0].inclusive: must be true or false | price p: service_tiers.batch: must be an object | price p: per_image: must be a decimal such as "2.5"`},
		{KindPrice, `{"id":"p","tiers":{},"service_tiers":[]}`, "price p: tiers: must be a list | price p: service_tiers: must be an object of objects"},
		{KindUpstream, `{"id":"a","queue":{"timout":"1s"},"model_rules":[{"type":"exact","valu":"x"}],"wieght":1}`,
			"upstream a: queue.timout: unknown field | upstream a: model_rules[0].valu: unknown field | upstream a: wieght: unknown field"},
		{KindUpstream, `{"id":"a","weight":"1","slots":1.5,"active":1,"base_url":7,"capabilities":"x","queue":[],"breaker":{"open_for":30},"multipliers":{"input":true},"headers":{"a":1}}`,
			`upstream a: weight: must be a whole number | upstream a: slots: must be a whole number | upstream a: active: must be true or false | upstream a: base_url: must be a string | upstream a: capabilities: must be a list | upstream a: queue: must be an object | upstream a: breaker.open_for: must be a duration such as "30s" | upstream a: multipliers.input: must be a decimal such as "2.5" | upstream a: headers.a: must be a string`},
		{KindUpstream, `{"id":"a","timeouts":{"idle":"-1s"},"capabilities":["x",null,{"a":1}]}`,
			`upstream a: timeouts.idle: must be a duration above zero, such as "30s" | upstream a: capabilities[1]: must not be null | upstream a: capabilities[2]: must be a string`},
		{KindUpstream, `{"id":"a","timeouts":{"connect":"0s","first_byte":"0s","idle":"0s"},"queue":{"timeout":"0s","age_every":"0s"},"breaker":{"open_max":"0s"}}`,
			strings.ReplaceAll(`upstream a: timeouts.connect: ABOVE | upstream a: timeouts.first_byte: ABOVE | upstream a: timeouts.idle: ABOVE | upstream a: queue.timeout: ABOVE | upstream a: queue.age_every: ABOVE | upstream a: breaker.open_max: ABOVE`,
				"ABOVE", `must be a duration above zero, such as "30s"`)},
		{KindKey, `{"id":"k","expires_at":"tomorrow"}`, `key k: expires_at: must be a time such as "2026-01-31T00:00:00Z"`},
		{KindUser, `{"id":"u","name":"a","name":"b"}`, "user u: name: is given twice"},
		{KindAccount, `{"id":"a","secret_version":9}`, "account a: secret_version: unknown field"},
		{KindUser, `{"kind":"key","id":"u"}`, "user u: kind: is key, not user"},
		{"", `{"id":"u"}`, "u: kind: must be one of"},
		{"dog", `{}`, "dog: kind: must be one of"},
		{KindUser, `[]`, "user: must be an object"},
		{KindUser, `"x"`, "user: must be an object"},
		{KindUser, `null`, "user: must be an object"},
		{KindUser, `{"id":`, "user: is not valid JSON"},
		{KindUser, ``, "user: is not valid JSON"},
		{KindSetting, `{"name":"x","value":{"a":1}}`, "setting x: value: must be a single value"},
	} {
		r, _, err := DecodeResource(c.kind, []byte(c.text))
		if r != nil || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, %v", c.text, r, err)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), "\n", " | "); !strings.HasPrefix(got, c.want) || !strings.HasSuffix(c.want, "of") && got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestAFieldThatComesLaterMayBeNull(t *testing.T) {
	if _, _, err := DecodeResource(KindKey, []byte(`{"id":"k","limits":null,"max_ips":null}`)); err != nil {
		t.Error(err)
	}
}

// C32: the plain credential comes out beside the resource and is in no field of it.
func TestAnAccountsCredentialNeverStaysInTheResource_C32(t *testing.T) {
	const secret = "sk-proj-abcdefghijklmnop1234"
	r, x, err := DecodeResource(KindAccount, []byte(`{"id":"a-1","upstream":"a","api_key":"`+secret+`"}`))
	if err != nil || x.Credential != secret || x.CredentialUnchanged {
		t.Fatalf("%+v, %v", x, err)
	}
	if text, _ := json.Marshal(r); strings.Contains(string(text), "abcdef") || r.(*Account).Masked != "sk-***1234" || !r.(*Account).Active {
		t.Errorf("got %s", text)
	}
	r, x, err = DecodeResource(KindAccount, []byte(`{"id":"a-1","upstream":"a","api_key":"sk-***1234"}`))
	if err != nil || x.Credential != "" || !x.CredentialUnchanged || r.(*Account).SecretVersion != 0 {
		t.Errorf("masked: %+v, %+v, %v", r, x, err)
	}
	for _, secret := range []string{"sk-abcdef123456\n", " sk-abcdef123456", "sk-abcdef\r\nx-team: 1", "sk-abc\x00def123456"} {
		text, _ := json.Marshal(map[string]string{"id": "a-1", "upstream": "a", "api_key": secret})
		_, x, err := DecodeResource(KindAccount, text)
		if x.Credential != "" || err == nil || !strings.HasPrefix(err.Error(), "account a-1: api_key: has control characters") || strings.Contains(err.Error(), "abc") {
			t.Errorf("%q: %v", secret, err)
		}
	}
	for secret, want := range map[string]string{"": "", "short": "***", "12345678901": "***", "123456789012": "123***9012", "äääääääääääää": "ä?***ää"} {
		if got := Mask(secret); got != want {
			t.Errorf("Mask(%q) = %q, want %q", secret, got, want)
		}
	}
}

// A key that was read from a file with the end of its line would end the headers of each request to the upstream.
func TestAnAccountsCredentialIsOneLine(t *testing.T) {
	for _, end := range []string{`\n`, `\r\nX-Other: 1`, `\u0000`, `\t`, `\u007f`} {
		_, _, err := DecodeResource(KindAccount, []byte(`{"id":"a-1","upstream":"a","api_key":"sk-12345678`+end+`"}`))
		if err == nil || !strings.Contains(err.Error(), "api_key: has control characters") || strings.Contains(err.Error(), "12345678") {
			t.Errorf("%s: %v", end, err)
		}
	}
	if _, _, err := DecodeResource(KindWebhook, []byte(`{"id":"w","url":"https://x.test","secret":"0123456789abcdef0123456789abcdef\n"}`)); err != nil {
		t.Errorf("a secret that is sent nowhere: %v", err)
	}
}

func TestAnExportAppliedAgainChangesNothing(t *testing.T) {
	s := NewState()
	u := upstream("a")
	u.PathPrefix, u.Slots, u.Queue = ptr("/x/v1"), ptr(4), &Queue{Enabled: false}
	u.ModelRules = []ModelRule{{"alias", "x", "y"}}
	u.UpstreamModels, u.Headers = map[string]string{"a": "b"}, map[string]string{"x": "y"}
	u.Multipliers.Input, u.OnDisconnect, u.Weight, u.Active = "0.5", "drain_up_to:90s", 0, false
	when := time.Date(2031, 2, 3, 4, 5, 6, 7000, time.UTC)
	apply(t, s, u, upstream("b"), account("a-1", "a"), &Group{ID: "g", Accounts: []string{"a-1"}, Multiplier: "2"}, &User{ID: "u", Name: "Ü", Disabled: true, Slots: ptr(1)},
		&Key{ID: "k", Hash: shaHash(1), User: "u", Group: "g", Upstreams: []string{}, Models: []string{"gpt-*"}, ExpiresAt: &when, Revoked: true, Prefix: "sk-pen-abc"},
		&Key{ID: "k2", Hash: bcryptHash},
		&Price{Model: "gpt-*", Upstream: "a", EffectiveFrom: &when, Input: "1", Output: "2", CachedInput: "0.1", PerRequest: "0.01"},
		&Rule{ID: "r", Priority: 3, Match: RuleMatch{Status: []int{500}, Header: "x: y"}, Action: RuleAction{Failover: ptr(false), CountBreaker: true, BlockFor: Duration(time.Minute)}},
		&Setting{Name: "chat_usage", Value: "estimate"})
	n := 0
	for _, kind := range Kinds() {
		for _, was := range s.List(kind) {
			n++
			text, err := json.Marshal(Public(was))
			if err != nil || !strings.HasPrefix(string(text), `{"kind":"`+string(kind)+`"`) {
				t.Fatalf("%s, %v", text, err)
			}
			r, _, err := DecodeResource("", text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if facts, err := Decide(s, Apply{Resource: r}); err != nil || len(facts) != 0 {
				t.Errorf("%s\n%+v, %v", text, facts, err)
			}
		}
	}
	if n != 10 {
		t.Errorf("%d resources", n)
	}
}

func TestScalarsOfSettingsAndDecimalsNeedNoQuotes(t *testing.T) {
	for text, want := range map[string]string{`6`: "6", `true`: "true", `"unified"`: "unified"} {
		if r, _, err := DecodeResource(KindSetting, []byte(`{"name":"x","value":`+text+`}`)); err != nil || r.(*Setting).Value != want {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	r, _, err := DecodeResource(KindPrice, []byte(`{"model":"m","upstream":"a","input":2.50,"output":"10"}`))
	if err != nil || r.(*Price).Input != "2.50" || r.Ident() != "a/m" {
		t.Errorf("%+v, %v", r, err)
	}
}

func FuzzDecodeResourceIsTotal(f *testing.F) {
	for _, s := range []string{`{"id":"a","limits":{"rpm":[{}]}}`, `{"queue":{"enabled":[1]}}`, `{"a":{"a":{"a":1}}}`, `[[[`, `{"headers":{"a":{"b":[null]}}}`} {
		for k := range len(kinds) {
			f.Add(uint8(k), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, k uint8, text []byte) {
		r, _, err := DecodeResource(kinds[int(k)%len(kinds)], text)
		if (r == nil) == (err == nil) {
			t.Fatalf("%q: %v and %v", text, r, err)
		}
		if err == nil {
			_, _ = Decide(NewState(), Apply{Resource: r})
		}
	})
}
