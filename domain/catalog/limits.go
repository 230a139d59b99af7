package catalog

import (
	"slices"
	"time"

	// Zones are known on every machine, and to every build of this program the same.
	_ "time/tzdata"

	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// Limits is what a user, a key, a group or an upstream may use; all of it must hold. The rates are only for users and
// keys. nil, and the zero value, is unlimited.
type Limits struct {
	RPM      *int64     `json:"rpm,omitempty"` // requests in any 60 seconds; nil: unlimited
	TPM      *int64     `json:"tpm,omitempty"` // tokens in any 60 seconds; nil: unlimited
	Spending []Spending `json:"spending,omitempty"`
	Budget   string     `json:"budget,omitempty"` // USD over all time; "": unlimited
}

// Spending is a limit of USD per period.
type Spending struct {
	Period string `json:"period"`          // daily, monthly, rolling
	Hours  int    `json:"hours,omitempty"` // of rolling, 1..8,760; default 24
	Zone   string `json:"zone,omitempty"`  // of daily and monthly, such as Europe/Berlin; "" is UTC
	Limit  string `json:"limit"`           // USD, more than 0
}

const (
	rpmMax      = 1_000_000
	tpmMax      = 1_000_000_000
	hoursMax    = 8760
	spendingMax = 16          // rules of one resource
	usdMax      = 100_000_000 // of one limit
)

var periods = [...]struct {
	name string
	kind limit.Kind
}{{"daily", limit.Daily}, {"monthly", limit.Monthly}, {"rolling", limit.Rolling}}

func (s Spending) kind() (limit.Kind, bool) {
	for _, p := range periods {
		if p.name == s.Period {
			return p.kind, true
		}
	}
	return limit.Total, false
}

// rule is the spending rule for the machine. One that this version cannot read allows nothing: it fails closed.
func (s Spending) rule() limit.Rule {
	kind, known := s.kind()
	amount, err := money.Parse(s.Limit)
	z, zoned := zoneOf(s.Zone)
	if !known || err != nil || !zoned {
		return limit.Rule{}
	}
	return limit.Rule{Period: limit.Period{Kind: kind, Zone: z, Hours: s.Hours}, Limit: amount}
}

// zoneOf reads the name of a time zone; "" is UTC. "Local" is none: it would mean something else on every machine.
func zoneOf(name string) (*time.Location, bool) {
	if name == "" {
		return time.UTC, true
	}
	z, err := time.LoadLocation(name)
	return z, err == nil && name != "Local"
}

// rate is the limits of requests and tokens for the machine.
func (l *Limits) rate() limit.Rate {
	var r limit.Rate
	if l != nil && l.RPM != nil {
		r.RPM = *l.RPM
	}
	if l != nil && l.TPM != nil {
		r.TPM = *l.TPM
	}
	return r
}

// money is the limits of money for the machine: the spending rules, and the budget as one that never begins anew.
func (l *Limits) money(mode string) limit.Money {
	m := limit.Money{}
	m.Mode, _ = limit.ParseMode(mode)
	if l == nil {
		return m
	}
	for _, s := range l.Spending {
		m.Rules = append(m.Rules, s.rule())
	}
	if l.Budget != "" {
		total, _ := money.Parse(l.Budget)
		m.Rules = append(m.Rules, limit.Rule{Limit: total})
	}
	return m
}

// Money is the group's shared budget for the machine; without rules there is none.
func (r *Group) Money() limit.Money { return r.Limits.money(r.Budget) }

// Money is the budget of everything that is spent at the upstream, at its own prices; without rules there is none.
func (r *Upstream) Money() limit.Money { return r.Limits.money(r.Budget) }

// Budgets are the budgets that callers share and that have rules, by name: group/ID, platform, upstream/ID.
func (s *Snapshot) Budgets() map[string]limit.Money {
	of := map[string]limit.Money{}
	put := func(name string, m limit.Money) {
		if len(m.Rules) > 0 {
			of[name] = m
		}
	}
	put("platform", s.Settings.Guards.Platform())
	for id, g := range s.groups {
		put("group/"+id, g.Money())
	}
	for _, u := range s.upstreams {
		put("upstream/"+u.ID, u.Money())
	}
	return of
}

// limits is the key's for the machine. Its mode is its own, or its user's.
func (r *Key) limits(users string) limit.Key {
	mode := r.Budget
	if mode == "" {
		mode = users
	}
	return limit.Key{ID: r.ID, Group: r.Group, Rate: r.Limits.rate(), Money: r.Limits.money(mode)}
}

// CallerPolicy is what a user and its keys may use, for the machine of its caller; u is nil for a key of nobody.
// Subscriptions are not of the catalogue and are added by who knows them.
func CallerPolicy(u *User, keys []Key) limit.Policy {
	var p limit.Policy
	mode := ""
	if u != nil {
		mode = u.Budget
		p.Rate, p.Money, p.Balance = u.Limits.rate(), u.Limits.money(mode), mode != ""
		p.Overdraft, _ = money.Parse(u.Overdraft)
	}
	p.Keys = make([]limit.Key, len(keys))
	for i := range keys {
		p.Keys[i] = keys[i].limits(mode)
	}
	return p
}

// limits copies limits with defaults filled in; nothing at all is nil.
func (c *checker) limits(l *Limits, rates bool) *Limits {
	if l == nil {
		return nil
	}
	v := Limits{RPM: c.rate("limits.rpm", l.RPM, rpmMax, rates), TPM: c.rate("limits.tpm", l.TPM, tpmMax, rates)}
	c.atMost("limits.spending", len(l.Spending), spendingMax)
	for i, s := range l.Spending {
		s = c.spending(indexed("limits.spending", i), s)
		for k, other := range v.Spending {
			if s.Period == other.Period && s.Hours == other.Hours && s.Zone == other.Zone {
				c.fail(indexed("limits.spending", i), "has the same period as %s", indexed("limits.spending", k))
			}
		}
		v.Spending = append(v.Spending, s)
	}
	v.Budget = c.usd("limits.budget", l.Budget)
	if v.RPM == nil && v.TPM == nil && v.Spending == nil && v.Budget == "" {
		return nil
	}
	return &v
}

func (c *checker) rate(field string, n *int64, high int, allowed bool) *int64 {
	if n == nil {
		return nil
	}
	if !allowed {
		c.fail(field, "only for users and keys")
	}
	c.between(field, int(*n), 1, high, " or null")
	v := *n
	return &v
}

func (c *checker) spending(at string, s Spending) Spending {
	kind, known := s.kind()
	switch {
	case !known:
		c.fail(at+".period", "must be daily, monthly or rolling")
	case kind == limit.Rolling:
		if s.Hours == 0 {
			s.Hours = 24
		}
		c.between(at+".hours", s.Hours, 1, hoursMax, "")
		if s.Zone != "" {
			c.fail(at+".zone", "only for daily and monthly")
		}
	default:
		if s.Hours != 0 {
			c.fail(at+".hours", "only for rolling")
		}
		s.Zone = c.zone(at+".zone", s.Zone)
	}
	if s.Limit == "" {
		c.fail(at+".limit", "is required")
	}
	s.Limit = c.usd(at+".limit", s.Limit)
	return s
}

// zone checks the name of a time zone; UTC becomes "".
func (c *checker) zone(field, name string) string {
	if _, ok := zoneOf(name); !ok {
		c.fail(field, "must be the name of a time zone such as Europe/Berlin")
	}
	if slices.Contains([]string{"UTC", "Etc/UTC", "Z"}, name) {
		return ""
	}
	return name
}

// usd makes an amount canonical; "" stays "".
func (c *checker) usd(field, s string) string {
	if s == "" {
		return ""
	}
	a, err := money.Parse(s)
	if err != nil || a <= 0 || a > usdMax*money.USD {
		c.fail(field, "must be an amount of USD such as \"10.50\", more than 0 and at most %s", grouped(usdMax))
		return s
	}
	return a.String()
}

// budget checks how limits of money are kept.
func (c *checker) budget(mode string) {
	if _, ok := limit.ParseMode(mode); !ok {
		c.fail("budget", "must be strict or postpaid")
	}
}
