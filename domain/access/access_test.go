package access

import (
	"net/netip"
	"testing"
	"time"
	_ "time/tzdata"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// D28, D36: the allow list first, then the deny list; IPv4 that is written as IPv6 is IPv4.
func TestAddressesAreComparedAsWhatTheyAre(t *testing.T) {
	for _, c := range []struct {
		allow, deny []string
		address     string
		want        bool
	}{
		{nil, nil, "203.0.113.9", true},
		{[]string{"203.0.113.0/24"}, nil, "203.0.113.9", true},
		{[]string{"203.0.113.0/24"}, nil, "203.0.114.9", false},
		{[]string{"203.0.113.0/24"}, nil, "::ffff:203.0.113.9", true},
		{[]string{"::ffff:203.0.113.0/120"}, nil, "203.0.113.9", true},
		{[]string{"203.0.113.77/24"}, nil, "203.0.113.9", true}, // bits behind the length do not count
		{[]string{"203.0.113.9"}, nil, "203.0.113.9", true},
		{[]string{"203.0.113.9"}, nil, "203.0.113.10", false},
		{[]string{"203.0.113.0/24"}, []string{"203.0.113.9"}, "203.0.113.9", false}, // both: denied
		{nil, []string{"203.0.113.0/24", "0.0.0.0/0"}, "198.51.100.1", false},
		{nil, []string{"0.0.0.0/0"}, "2001:db8::1", true}, // of the other family
		{[]string{"2001:db8::/32", "10.0.0.0/8"}, nil, "2001:db8:1::1", true},
		{[]string{"fe80::/10"}, nil, "fe80::1%eth0", true}, // the zone does not count
		{[]string{"::/0"}, nil, "203.0.113.9", false},
	} {
		l, err := ParseIPs(c.allow, c.deny)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Allows(ip(c.address)); got != c.want {
			t.Errorf("allow %v, deny %v: %s %v", c.allow, c.deny, c.address, got)
		}
	}
	l, _ := ParseIPs(nil, nil)
	if l.Allows(netip.Addr{}) || NoIPs().Allows(ip("10.0.0.1")) {
		t.Error("an address that is not known, and a list for nobody, let nobody in")
	}
	var none *IPs
	if !none.Allows(netip.Addr{}) {
		t.Error("no list lets everybody in")
	}
}

func TestWhatIsNoRangeIsSaid(t *testing.T) {
	for text, want := range map[string]error{
		"": errAddress, "10.0.0": errAddress, "10.0.0.0/33": errAddress, "h": errAddress, "::ffff:10.0.0.0/95": errMapped, "fe80::1%eth0": errZone,
	} {
		if _, err := ParsePrefix(text); err != want {
			t.Errorf("%q: got %v, want %v", text, err, want)
		}
	}
	if _, err := ParseIPs(nil, []string{"10.0.0.1", "x"}); err == nil || err.Error() != "x: is no IP address" {
		t.Errorf("got %v", err)
	}
}

// D35: a curfew over midnight, in its zone; it opens when it says.
func TestACurfewClosesFromItsFirstMinuteToItsLast(t *testing.T) {
	shanghai, _ := time.LoadLocation("Asia/Shanghai")
	berlin, _ := time.LoadLocation("Europe/Berlin")
	for _, c := range []struct {
		from, to string
		zone     *time.Location
		now      string
		opens    string // "": open
	}{
		{"22:00", "06:00", nil, "2026-01-01T21:59:59Z", ""},
		{"22:00", "06:00", nil, "2026-01-01T22:00:00Z", "2026-01-02T06:00:00Z"},
		{"22:00", "06:00", nil, "2026-01-01T05:59:59Z", "2026-01-01T06:00:00Z"},
		{"22:00", "06:00", nil, "2026-01-01T06:00:00Z", ""},
		{"22:00", "06:00", shanghai, "2026-01-01T14:00:00Z", "2026-01-01T22:00:00Z"},
		{"12:00", "13:30", nil, "2026-01-01T13:29:00Z", "2026-01-01T13:30:00Z"},
		{"12:00", "13:30", nil, "2026-01-01T11:59:00Z", ""},
		{"12:00", "24:00", nil, "2026-12-31T12:00:00Z", "2027-01-01T00:00:00Z"},
		{"01:00", "04:00", berlin, "2026-03-29T00:30:00Z", "2026-03-29T02:00:00Z"}, // the clock jumps over an hour of it
		{"01:00", "04:00", berlin, "2026-10-24T23:30:00Z", "2026-10-25T03:00:00Z"}, // and back
	} {
		f, err := ParseCurfew(c.from, c.to, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, _ := time.Parse(time.RFC3339, c.now)
		if closed := f.Closed(now); closed != (c.opens != "") {
			t.Errorf("%s to %s at %s: closed %v", c.from, c.to, c.now, closed)
		} else if closed {
			if got := f.Opens(now).Format(time.RFC3339); got != c.opens || f.Closed(f.Opens(now)) {
				t.Errorf("%s to %s at %s: opens %s, want %s", c.from, c.to, c.now, got, c.opens)
			}
		} else if !f.Opens(now).Equal(now) {
			t.Errorf("%s: it is open", c.now)
		}
	}
	for _, bad := range [][2]string{{"22:00", "22:00"}, {"0:00", "01:00"}, {"24:01", "01:00"}, {"00:00", "24:00"}, {"12:60", "13:00"}, {"ab:cd", "13:00"}} {
		if _, err := ParseCurfew(bad[0], bad[1], nil); err == nil {
			t.Errorf("%v is no curfew", bad)
		}
	}
}

func TestTheFirstRuleThatRefusesSaysWhy(t *testing.T) {
	l, _ := ParseIPs([]string{"10.0.0.0/8"}, nil)
	f, _ := ParseCurfew("00:00", "12:00", nil)
	r := &Rules{l, &f}
	morning := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		address string
		now     time.Time
		want    Code
		until   time.Time
	}{
		{"11.0.0.1", morning, IPDenied, time.Time{}}, {"10.0.0.1", morning, OutsideHours, morning.Add(3 * time.Hour)}, {"10.0.0.1", morning.Add(3 * time.Hour), "", time.Time{}},
	} {
		if got, until := r.Check(ip(c.address), c.now); got != c.want || !until.Equal(c.until) {
			t.Errorf("%s: %q until %s", c.address, got, until)
		}
	}
	var none *Rules
	if got, _ := none.Check(netip.Addr{}, morning); got != "" {
		t.Errorf("no rules: %q", got)
	}
}

// B8: type and version of the program.
func TestAGroupServesTheClientsOfItsList(t *testing.T) {
	for _, c := range []struct {
		list        []string
		name, agent string
		want        bool
	}{
		{nil, "any", "curl/8.5", true},
		{[]string{"any"}, "any", "curl/8.5", true},
		{[]string{"codex"}, "codex", "codex_cli_rs/0.38.0 (Ubuntu)", true},
		{[]string{"codex"}, "claude_code", "claude-cli/1.0.83 (external, cli)", false},
		{[]string{"codex", "claude_code"}, "claude_code", "claude-cli/1.0.83 (external, cli)", true},
		{[]string{"claude_code>=1.0.83"}, "claude_code", "claude-cli/1.0.83 (external, cli)", true},
		{[]string{"claude_code >= 1.0.84"}, "claude_code", "claude-cli/1.0.83 (external, cli)", false},
		{[]string{"claude_code >= 1.0.9"}, "claude_code", "claude-cli/1.0.10", true}, // numbers, not texts
		{[]string{"claude_code >= 2"}, "claude_code", "claude-cli/10.0.0", true},
		{[]string{"claude_code >= 1.0"}, "claude_code", "claude-cli", false}, // it does not say
		{[]string{"codex >= v0.40"}, "codex", "codex_cli_rs/0.40.0-alpha.2", true},
		{[]string{"what ever"}, "any", "curl/8.5", false}, // cannot be read: nobody
		{[]string{"what ever"}, "", "", false},
	} {
		if got := ParseClients(c.list).Allow(c.name, c.agent); got != c.want {
			t.Errorf("%v: %s %s: got %v", c.list, c.name, c.agent, got)
		}
	}
	for _, bad := range []string{"", ">= 1", "codex >=", "codex >= x", "codex >= 1.0-beta", "codex > 1", "any >= 1", "a b"} {
		if r, err := ParseClientRule(bad); err == nil {
			t.Errorf("%q is no rule: %+v", bad, r)
		}
	}
	if r, err := ParseClientRule("codex>=0.40"); err != nil || r.String() != "codex >= 0.40.0" {
		t.Errorf("%s, %v", r, err)
	}
}

func TestTheChecksOfARequestDoNotAllocate(t *testing.T) {
	l, _ := ParseIPs([]string{"10.0.0.0/8", "2001:db8::/32"}, []string{"10.1.0.0/16"})
	f, _ := ParseCurfew("22:00", "06:00", nil)
	r, clients, noon := &Rules{l, &f}, ParseClients([]string{"codex >= 0.1"}), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	b, th := NewBindings(3, time.Hour), NewThrottle(ThrottlePolicy{5, time.Minute, time.Minute})
	a := ip("10.2.3.4")
	b.Use(a, noon)
	if n := testing.AllocsPerRun(100, func() {
		r.Check(a, noon)
		clients.Allow("codex", "codex_cli_rs/0.38.0")
		b.Use(a, noon)
		th.Blocked(a, noon)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
