package catalog

import (
	"slices"
	"time"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/dialect"
)

// IPs is the addresses from which a key may be used: single ones and ranges (10.0.0.0/8, 2001:db8::/32). An address
// must be in Allow, unless that is empty, and not in Deny (D36).
type IPs struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Curfew is the hours in which a key may not be used: From is the first minute, To the first one after it; over
// midnight when To comes before From.
type Curfew struct {
	From string `json:"from"` // 22:00
	To   string `json:"to"`
	Zone string `json:"zone,omitempty"` // "" is UTC
}

const (
	maxIPsMost  = 10_000
	ipWindowMax = 366 * 24 * time.Hour
	clientsMax  = 100
)

// access is what the key's address and the hour must be; nil when the key has no such rule. Rules that this version
// cannot read let nobody in.
func (r *Key) access() *access.Rules {
	if r.IPs == nil && r.Curfew == nil {
		return nil
	}
	rules := &access.Rules{}
	if r.IPs != nil {
		list, err := access.ParseIPs(r.IPs.Allow, r.IPs.Deny)
		if err != nil {
			return &access.Rules{IPs: access.NoIPs()}
		}
		rules.IPs = list
	}
	if c := r.Curfew; c != nil {
		z, ok := zoneOf(c.Zone)
		curfew, err := access.ParseCurfew(c.From, c.To, z)
		if !ok || err != nil {
			return &access.Rules{IPs: access.NoIPs()}
		}
		rules.Curfew = &curfew
	}
	return rules
}

// AddressLimit is from how many addresses the key may be used, and for how long an address counts after its last use
// (0: for ever). 0 addresses is no limit.
func (r *Key) AddressLimit() (most int, window time.Duration) {
	if r.MaxIPs == nil {
		return 0, 0
	}
	return *r.MaxIPs, r.IPWindow.Std()
}

func (c *checker) ips(l *IPs) *IPs {
	if l == nil {
		return nil
	}
	v := IPs{c.prefixes("ips.allow", l.Allow), c.prefixes("ips.deny", l.Deny)}
	if v.Allow == nil && v.Deny == nil {
		return nil
	}
	return &v
}

func (c *checker) prefixes(field string, list []string) []string {
	if !c.atMost(field, len(list), listMax) {
		return nil
	}
	var out []string
	for i, s := range list {
		p, err := access.ParsePrefix(s)
		if err != nil {
			c.fail(indexed(field, i), "must be an address or a range such as 10.0.0.0/8: %v", err)
			continue
		}
		text := p.String()
		if p.IsSingleIP() {
			text = p.Addr().String()
		}
		out = append(out, text)
	}
	return out
}

func (c *checker) maxIPs(n *int, window Duration) (*int, Duration) {
	if n == nil {
		if window != 0 {
			c.fail("ip_window", "only with max_ips")
		}
		return nil, window
	}
	c.between("max_ips", *n, 1, maxIPsMost, " or null")
	if window != 0 && (window.Std() < time.Minute || window.Std() > ipWindowMax) {
		c.fail("ip_window", "must be 1m..%s, or absent for ever", Duration(ipWindowMax))
	}
	v := *n
	return &v, window
}

func (c *checker) curfew(f *Curfew) *Curfew {
	if f == nil {
		return nil
	}
	v := *f
	v.Zone = c.zone("curfew.zone", v.Zone)
	_, wrongFrom := access.ParseClock(v.From)
	_, wrongTo := access.ParseClock(v.To)
	for _, e := range [...]struct {
		field string
		err   error
	}{{"curfew.from", wrongFrom}, {"curfew.to", wrongTo}} {
		if e.err != nil {
			c.fail(e.field, "%v", e.err)
		}
	}
	if wrongFrom == nil && wrongTo == nil {
		if _, err := access.ParseCurfew(v.From, v.To, nil); err != nil {
			c.fail("curfew.to", "must differ from curfew.from")
		}
	}
	return &v
}

// clients checks the programs that a group lets in, such as claude_code or "codex >= 0.40".
func (c *checker) clients(list []string) []string {
	if !c.atMost("clients", len(list), clientsMax) {
		return nil
	}
	var out []string
	for i, s := range list {
		rule, err := access.ParseClientRule(s)
		if err != nil {
			c.fail(indexed("clients", i), "%v", err)
			continue
		}
		if _, known := dialect.ParseClient(rule.Name); !known {
			c.fail(indexed("clients", i), "%s is no client that is recognised; any is every one", rule.Name)
		}
		if text := rule.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// AllowsClient says that the group serves a program: name is its recognised name ("any" when it was not), agent its
// User-Agent, which tells the version (B8). An empty list serves all.
func (g *CompiledGroup) AllowsClient(name, agent string) bool { return g.clients.Allow(name, agent) }

// Access is the key's rules of addresses and hours; nil when it has none.
func (s *Snapshot) Access(key string) *access.Rules { return s.access[key] }

// buildAccess compiles what is checked after authentication.
func (s *Snapshot) buildAccess() {
	s.access = map[string]*access.Rules{}
	for id, k := range s.keys.byID {
		if rules := k.access(); rules != nil {
			s.access[id] = rules
		}
	}
	for _, g := range s.groups {
		g.clients = access.ParseClients(g.Clients)
	}
}
