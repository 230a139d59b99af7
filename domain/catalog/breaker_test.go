package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/dialect"
)

func upstreamWith(t *testing.T, fields string) (*Upstream, error) {
	t.Helper()
	r, _, err := DecodeResource(KindUpstream, []byte(`{"id":"u","base_url":"http://h","capabilities":["openai_responses"],"breaker":{`+fields+`}}`))
	if err != nil {
		return nil, err
	}
	facts, err := Decide(NewState(), Apply{Resource: r})
	if err != nil {
		return nil, err
	}
	return &facts[0].(*UpstreamRegistered).Upstream, nil
}

func TestABreakersGrowthCapAndScope_pain48_pain51(t *testing.T) {
	usual := breaker.Policy{Failures: 5, Successes: 2, OpenFor: 300e9, ProbeEvery: 30e9, Growth: 2, OpenMax: 300e9}
	with := func(change func(*breaker.Policy)) breaker.Policy { p := usual; change(&p); return p }
	for fields, want := range map[string]breaker.Policy{
		``: usual,
		`"open_growth":2,"open_max":"5m","per":"upstream"`: usual,
		`"open_growth":"1"`:      with(func(p *breaker.Policy) { p.Growth = 1 }),
		`"open_growth":1.5`:      with(func(p *breaker.Policy) { p.Growth = 1.5 }),
		`"open_max":"30m"`:       with(func(p *breaker.Policy) { p.OpenMax = 30 * time.Minute }),
		`"probe_every":"10m"`:    with(func(p *breaker.Policy) { p.ProbeEvery, p.OpenMax = 10*time.Minute, 10*time.Minute }),
		`"per":"account_model"`:  usual,
		`"failures":1000000`:     with(func(p *breaker.Policy) { p.Failures = 1_000_000 }),
		`"open_max":"1m"`:        with(func(p *breaker.Policy) { p.OpenMax = time.Minute }),
		`"open_growth":"2.00"`:   usual,
		`"open_growth":"10.000"`: {},
	} {
		u, err := upstreamWith(t, fields)
		if want == (breaker.Policy{}) {
			if err == nil {
				t.Errorf("{%s}: accepted", fields)
			}
			continue
		}
		if err != nil || u.Breaker.Policy() != want {
			t.Errorf("{%s}: %+v, %v", fields, u, err)
			continue
		}
		if u.Breaker.PerAccountModel() != strings.Contains(fields, "account_model") {
			t.Errorf("{%s}: per account and model is %v", fields, u.Breaker.PerAccountModel())
		}
		if again := NewUpstream("u", "http://h"); fields == `"open_growth":2,"open_max":"5m","per":"upstream"` && u.Breaker != again.Breaker {
			t.Errorf("defaults that are written out make another fact: %+v", u.Breaker)
		}
	}
	for fields, fault := range map[string]string{
		`"open_growth":"0.5"`:                   "upstream u: breaker.open_growth: must be 1..10",
		`"open_growth":11`:                      "upstream u: breaker.open_growth: must be 1..10",
		`"open_growth":"fast"`:                  "upstream u: breaker.open_growth: must be a decimal",
		`"open_growth":1.234`:                   "upstream u: breaker.open_growth: must be a decimal",
		`"open_max":"10s"`:                      "upstream u: breaker.open_max: must be at least breaker.probe_every (30s)",
		`"open_max":"1000h"`:                    "upstream u: breaker.open_max: must be 1ms..168h",
		`"per":"model"`:                         "upstream u: breaker.per: must be upstream or account_model",
		`"probe_every":"10m","open_max":"9m"`:   "upstream u: breaker.open_max: must be at least breaker.probe_every (10m)",
		`"open_growth":true`:                    "upstream u: breaker.open_growth: must be a decimal",
		`"per":7`:                               "upstream u: breaker.per: must be a string",
		`"open_max":300`:                        "upstream u: breaker.open_max: must be a duration",
		`"growth":2`:                            "upstream u: breaker.growth: unknown field",
		`"open_growth":"1e300"`:                 "upstream u: breaker.open_growth: must be a decimal",
		`"open_growth":"-2"`:                    "upstream u: breaker.open_growth: must be",
		`"successes":0`:                         "upstream u: breaker.successes: must be 1..1,000,000",
		`"failures":0,"successes":0,"per":"xx"`: "upstream u: breaker.failures: must be 1..1,000,000",
	} {
		if _, err := upstreamWith(t, fields); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("{%s}: %v, want %s", fields, err, fault)
		}
	}
}

func TestABreakerIsShownWithItsDefaultsAndAppliedAgainUnchanged(t *testing.T) {
	u := NewUpstream("u", "http://h", dialect.Capabilities()[0])
	b, err := json.Marshal(Public(u))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{`"open_growth":"2"`, `"open_max":"5m"`, `"per":"upstream"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	s := NewState()
	facts, err := Decide(s, Apply{Resource: u})
	if err != nil {
		t.Fatal(err)
	}
	s.Evolve(facts[0], 1)
	again, _, err := DecodeResource("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if facts, err := Decide(s, Apply{Resource: again}); err != nil || len(facts) != 0 {
		t.Fatalf("%+v, %v", facts, err)
	}
}

func TestFailureSettingsHaveBounds(t *testing.T) {
	if s := DefaultSettings(); s.BlockDefault != 30*time.Second || s.BlockMax != 5*time.Minute || s.SameAccountRetries != 1 || s.SameAccountWait != 2*time.Second {
		t.Errorf("by default: %+v", s)
	}
	for _, c := range []struct {
		name, value, canonical string
	}{
		{"block.max", "90s", "1m30s"}, {"block.max", "24h", "24h"}, {"block.max", "0", ""}, {"block.max", "25h", ""}, {"block.max", "-5m", ""}, {"block.max", "5", ""},
		{"block.default", "1s", "1s"}, {"block.default", "999ms", ""},
		{"retry.same_account", "0", "0"}, {"retry.same_account", "05", "5"}, {"retry.same_account", "6", ""}, {"retry.same_account", "x", ""},
		{"retry.same_account_wait", "100ms", "100ms"}, {"retry.same_account_wait", "61s", ""},
	} {
		var s Settings
		if canonical, field, err := s.put(c.name, c.value); canonical != c.canonical || (err == nil) != (c.canonical != "") || field != "value" {
			t.Errorf("%s %q: %q, %v", c.name, c.value, canonical, err)
		}
	}
}
