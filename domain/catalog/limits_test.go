package catalog

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

const aHash = `"hash":"sha256:abababababababababababababababababababababababababababababababab"`

// given reads a resource file and checks it; the faults of both as one text.
func given(kind Kind, text string) (Resource, string) {
	r, _, err := DecodeResource(kind, []byte(text))
	if err == nil {
		r, err = normalize(NewState(), r)
	}
	if err == nil {
		return r, ""
	}
	var faults []string
	for _, f := range faultsIn(err) {
		faults = append(faults, f.Error())
	}
	return nil, strings.Join(faults, " | ")
}

func TestWhatAFileSaysOfLimitsIsWhatTheMachineGets(t *testing.T) {
	berlin, _ := time.LoadLocation("Europe/Berlin")
	k, fault := given(KindKey, `{"id":"k",`+aHash+`,"budget":"strict","limits":{"rpm":60,"tpm":100000,"budget":"1.00",
		"spending":[{"period":"daily","zone":"Europe/Berlin","limit":5},{"period":"monthly","limit":"100"},{"period":"rolling","limit":"9.50"}]}}`)
	if fault != "" {
		t.Fatal(fault)
	}
	want := limit.Key{ID: "k", Rate: limit.Rate{RPM: 60, TPM: 100_000}, Money: limit.Money{Mode: limit.Strict, Rules: []limit.Rule{
		{Period: limit.Period{Kind: limit.Daily, Zone: berlin}, Limit: 5 * money.USD},
		{Period: limit.Period{Kind: limit.Monthly, Zone: time.UTC}, Limit: 100 * money.USD},
		{Period: limit.Period{Kind: limit.Rolling, Zone: time.UTC, Hours: 24}, Limit: 95 * money.USD / 10},
		{Limit: money.USD},
	}}}
	got := CallerPolicy(nil, []Key{*k.(*Key)}).Keys[0]
	for i := range got.Money.Rules { // zones are compared by name
		g, w := &got.Money.Rules[i].Zone, &want.Money.Rules[i].Zone
		if (*g == nil) != (*w == nil) || *g != nil && (*g).String() != (*w).String() {
			t.Errorf("rule %d: zone %v, want %v", i, *g, *w)
		}
		*g, *w = nil, nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAKeyKeepsItsMoneyAsItsUserUnlessItSaysOtherwise(t *testing.T) {
	for _, c := range []struct {
		user, key string
		balance   bool
		want      limit.Mode
	}{
		{"", "", false, limit.Postpaid}, {"strict", "", true, limit.Strict}, {"postpaid", "", true, limit.Postpaid},
		{"strict", "postpaid", true, limit.Postpaid}, {"", "strict", false, limit.Strict},
	} {
		p := CallerPolicy(&User{ID: "u", Budget: c.user, Overdraft: "2.5"}, []Key{{ID: "k", Budget: c.key}})
		if p.Balance != c.balance || p.Keys[0].Money.Mode != c.want || p.Overdraft != 25*money.USD/10 {
			t.Errorf("user %q, key %q: %+v", c.user, c.key, p)
		}
	}
}

func TestASpendingRuleThatCannotBeReadAllowsNothing(t *testing.T) {
	g := Group{ID: "g", Limits: &Limits{Spending: []Spending{{Period: "fortnightly", Limit: "5"}}}}
	b := limit.NewBudget("group/g", g.Money())
	if no := b.Check(time.Unix(0, 0)); no.Code != limit.BudgetExceeded {
		t.Errorf("got %+v", no)
	}
}

func TestFaultsInLimitsNameTheField(t *testing.T) {
	long := `{"period":"daily","limit":"1"},{"period":"daily","zone":"UTC","limit":"2"}`
	for _, c := range []struct {
		kind Kind
		text string
		want string
	}{
		{KindKey, `"limits":{"rpm":0}`, "limits.rpm: must be 1..1,000,000 or null"},
		{KindKey, `"limits":{"rpm":1000001,"tpm":0}`, "limits.rpm: must be 1..1,000,000 or null | key x: limits.tpm: must be 1..1,000,000,000 or null"},
		{KindKey, `"limits":{"spending":[{"limit":"1"}]}`, "limits.spending[0].period: must be daily, monthly or rolling"},
		{KindKey, `"limits":{"spending":[{"period":"daily"}]}`, "limits.spending[0].limit: is required"},
		{KindKey, `"limits":{"spending":[{"period":"daily","limit":"0"}]}`, `limits.spending[0].limit: must be an amount of USD such as "10.50", more than 0 and at most 100,000,000`},
		{KindKey, `"limits":{"spending":[{"period":"daily","hours":5,"limit":"1"}]}`, "limits.spending[0].hours: only for rolling"},
		{KindKey, `"limits":{"spending":[{"period":"rolling","hours":8761,"limit":"1"}]}`, "limits.spending[0].hours: must be 1..8,760"},
		{KindKey, `"limits":{"spending":[{"period":"rolling","zone":"UTC","limit":"1"}]}`, "limits.spending[0].zone: only for daily and monthly"},
		{KindKey, `"limits":{"spending":[{"period":"daily","zone":"Berlin","limit":"1"}]}`, "limits.spending[0].zone: must be the name of a time zone such as Europe/Berlin"},
		{KindKey, `"limits":{"spending":[{"period":"daily","zone":"Local","limit":"1"}]}`, "limits.spending[0].zone: must be the name of a time zone such as Europe/Berlin"},
		{KindKey, `"limits":{"spending":[` + long + `]}`, "limits.spending[1]: has the same period as limits.spending[0]"},
		{KindKey, `"limits":{"budget":"-1"},"budget":"lax"`, `limits.budget: must be an amount of USD such as "10.50", more than 0 and at most 100,000,000 | key x: budget: must be strict or postpaid`},
		{KindUser, `"budget":"lax","overdraft":"-5"`, `budget: must be strict or postpaid | user x: overdraft: must be an amount of USD such as "10.50", more than 0 and at most 100,000,000`},
		{KindGroup, `"limits":{"rpm":5}`, "limits.rpm: unknown field"},
		{KindUpstream, `"base_url":"http://h","capabilities":["openai_responses"],"limits":{"tpm":5}`, "limits.tpm: unknown field"},
		{KindGroup, `"clients":["codex","claude code"]`, `clients[1]: must be a client such as codex, or "codex >= 0.40"`},
		{KindGroup, `"clients":["curl"]`, "clients[0]: curl is no client that is recognised; any is every one"},
		{KindKey, `"ips":{"allow":["10.0.0.0/8","10.0.0.0/33"],"deny":["h"]}`,
			"ips.allow[1]: must be an address or a range such as 10.0.0.0/8: is no IP address | key x: ips.deny[0]: must be an address or a range such as 10.0.0.0/8: is no IP address"},
		{KindKey, `"max_ips":0`, "max_ips: must be 1..10,000 or null"},
		{KindKey, `"ip_window":"1h"`, "ip_window: only with max_ips"},
		{KindKey, `"max_ips":1,"ip_window":"1s"`, "ip_window: must be 1m..8784h, or absent for ever"},
		{KindKey, `"curfew":{"from":"22:00"}`, "curfew.to: must be an hour and a minute such as 22:00"},
		{KindKey, `"curfew":{"from":"0:00","to":"24:01","zone":"Mars"}`,
			"curfew.zone: must be the name of a time zone such as Europe/Berlin | key x: curfew.from: must be an hour and a minute such as 22:00 | key x: curfew.to: must be an hour and a minute such as 22:00"},
		{KindKey, `"curfew":{"from":"00:00","to":"24:00"}`, "curfew.to: must differ from curfew.from"},
	} {
		text := c.text
		if c.kind == KindKey {
			text = aHash + "," + text
		}
		if _, got := given(c.kind, `{"id":"x",`+text+`}`); got != string(c.kind)+" x: "+c.want {
			t.Errorf("%s\ngot  %s\nwant %s %s: %s", c.text, got, c.kind, "x", c.want)
		}
	}
}

func TestWhatIsShownOfLimitsAppliesAgainAndChangesNothing(t *testing.T) {
	for kind, text := range map[Kind]string{
		KindKey: aHash + `,"limits":{"rpm":1,"spending":[{"period":"rolling","limit":"1.50"},{"period":"daily","zone":"UTC","limit":2}]},"budget":"strict",
			"ips":{"allow":["::ffff:10.1.2.3","10.0.0.7/8"],"deny":["2001:db8::1/32"]},"max_ips":3,"ip_window":"24h","curfew":{"from":"22:00","to":"06:00","zone":"Asia/Shanghai"}`,
		KindUser:     `"limits":{"tpm":5,"budget":10}`,
		KindGroup:    `"clients":["codex>=0.40","any","any"],"limits":{"budget":"5"},"budget":"strict"`,
		KindUpstream: `"base_url":"http://h","capabilities":["openai_responses"],"limits":{"spending":[{"period":"monthly","limit":"7"}]}`,
	} {
		s := NewState()
		r, fault := given(kind, `{"id":"x",`+text+`}`)
		if fault != "" {
			t.Fatal(fault)
		}
		apply(t, s, r)
		stored, _, _ := s.Get(kind, "x")
		shown, _ := json.Marshal(Public(stored))
		again, fault := given(kind, string(shown))
		if fault != "" || len(Differ(stored, again)) > 0 {
			t.Errorf("%s: %s\nshown %s\n%v", kind, fault, shown, Differ(stored, again))
		}
	}
	k, _ := given(KindKey, `{"id":"x",`+aHash+`,"limits":{"spending":[]},"ips":{}}`)
	if k.(*Key).Limits != nil || k.(*Key).IPs != nil {
		t.Error("limits that limit nothing are none")
	}
}

// Addresses, hours and clients are compiled with the snapshot (B8, D28, D35, D36); what cannot be read lets nobody in.
func TestASnapshotKnowsWhoMayComeIn(t *testing.T) {
	s := NewState()
	for kind, text := range map[Kind]string{
		KindGroup: `{"id":"g","clients":["codex >= 0.40"]}`,
		KindKey:   `{"id":"k",` + aHash + `,"ips":{"allow":["10.0.0.0/8"]},"curfew":{"from":"22:00","to":"06:00","zone":"Asia/Shanghai"}}`,
	} {
		r, fault := given(kind, text)
		if fault != "" {
			t.Fatal(fault)
		}
		apply(t, s, r)
	}
	snap := Build(s, nil)
	noon := time.Date(2026, 1, 1, 4, 0, 0, 0, time.UTC) // of Shanghai
	for _, c := range []struct {
		address string
		at      time.Time
		want    access.Code
	}{
		{"10.1.1.1", noon, ""}, {"::ffff:10.1.1.1", noon, ""}, {"11.1.1.1", noon, access.IPDenied},
		{"10.1.1.1", noon.Add(10 * time.Hour), access.OutsideHours}, {"10.1.1.1", noon.Add(18 * time.Hour), ""},
	} {
		if got, _ := snap.Access("k").Check(netip.MustParseAddr(c.address), c.at); got != c.want {
			t.Errorf("%s at %s: got %q, want %q", c.address, c.at, got, c.want)
		}
	}
	if snap.Access("other") != nil {
		t.Error("a key without rules has none")
	}
	g := snap.Group("g")
	if !g.AllowsClient("codex", "codex_cli_rs/0.41.0 (Linux)") || g.AllowsClient("codex", "codex_cli_rs/0.39.9") || g.AllowsClient("any", "curl/8.0") {
		t.Error("clients of the group")
	}
	bad := &Key{ID: "b", IPs: &IPs{Deny: []string{"nonsense"}}}
	if got, _ := bad.access().Check(netip.MustParseAddr("10.1.1.1"), noon); got != access.IPDenied {
		t.Errorf("a list that cannot be read: got %q", got)
	}
}

func TestGuardsOfTheGatewayComeFromSettings(t *testing.T) {
	s := DefaultSettings()
	if got := s.Guards.Throttle(); got != (access.ThrottlePolicy{Failures: 20, Window: time.Minute, Block: time.Minute}) {
		t.Errorf("got %+v", got)
	}
	if got := s.Guards.Platform(); len(got.Rules) != 0 {
		t.Errorf("the platform is unlimited at first: %+v", got)
	}
	for _, c := range []struct{ name, value, canonical, fault string }{
		{"platform.daily", "100.50", "100.5", ""}, {"platform.monthly", "1000", "1000", ""}, {"platform.budget", "strict", "strict", ""},
		{"platform.daily", "-1", "", "must be an amount of USD, at most 100,000,000 (0 is unlimited)"},
		{"platform.budget", "", "", "must be strict or postpaid"},
		{"trusted_proxies", "127.0.0.1, 10.0.0.7/8", "127.0.0.1/32,10.0.0.0/8", ""}, {"trusted_proxies", "", "", ""},
		{"trusted_proxies", "10.0.0.0/8,lb", "", "must be addresses and ranges such as 10.0.0.0/8, with commas between: lb is no IP address"},
		{"cors.origins", "https://App.example.com, http://localhost:3000", "https://app.example.com,http://localhost:3000", ""}, {"cors.origins", "", "", ""},
		{"cors.origins", "*", "", `must be origins of web pages such as https://app.example.com, with commas between: "*" is none`},
		{"cors.origins", "https://a.b/", "", `must be origins of web pages such as https://app.example.com, with commas between: "https://a.b/" is none`},
		{"auth.failures", "1001", "", "must be 0..1,000 (0 blocks nobody)"}, {"auth.block", "0s", "", "must be a duration of 1s..24h"},
	} {
		canonical, _, err := s.put(c.name, c.value)
		if c.fault == "" && (err != nil || canonical != c.canonical) || c.fault != "" && (err == nil || err.Error() != c.fault) {
			t.Errorf("%s=%s: got %q, %v", c.name, c.value, canonical, err)
		}
	}
	want := limit.Money{Mode: limit.Strict, Rules: []limit.Rule{{Period: limit.Period{Kind: limit.Daily}, Limit: 1005 * money.USD / 10}, {Period: limit.Period{Kind: limit.Monthly}, Limit: 1000 * money.USD}}}
	if got := s.Guards.Platform(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
