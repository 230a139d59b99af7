package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Bounds of what can be configured.
const (
	idMax       = 128
	textMax     = 2000
	listMax     = 10_000
	slotsMax    = 1_000_000
	failuresMax = 1_000_000
	priceMax    = 1_000_000 // USD per 1M tokens
	week        = 7 * 24 * time.Hour

	yearMin = 1 // of a time
)

// YearMax is the last year of a time, in UTC: one of five digits could be stored and never read again.
const YearMax = 9999

// checker collects what is wrong with one resource.
type checker struct {
	ref    Ref
	faults []error
}

func (c *checker) fail(field, format string, args ...any) {
	c.faults = append(c.faults, &InvalidError{c.ref, field, fmt.Sprintf(format, args...)})
}

// normalize returns a copy with defaults filled in and spellings made canonical, or what is wrong with it, fields in
// the order of the resource.
func normalize(s *State, given Resource) (Resource, error) {
	c := &checker{ref: Ref{given.Kind(), given.Ident()}}
	var r Resource
	switch g := given.(type) {
	case *Upstream:
		r = c.upstream(*g)
	case *Account:
		r = c.account(*g, s)
	case *Group:
		r = c.group(*g)
	case *User:
		r = c.user(*g)
	case *Key:
		r = c.key(*g, s)
	case *Price:
		r = c.price(*g)
	case *Rule:
		r = c.rule(*g)
	case *Setting:
		r = c.setting(*g)
	case *Webhook:
		r = c.webhook(*g, s)
	default:
		return nil, &InvalidError{Ref: c.ref, Reason: "is of an unknown kind"}
	}
	for _, ref := range references(r) {
		if !s.has(ref.to) {
			c.fail(ref.field, "%s does not exist", ref.to)
		}
	}
	return r, errors.Join(c.faults...)
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// id checks the name of a resource: it stands in paths, streams and command lines. Prices may also use the signs of
// model names.
func (c *checker) id(id, more string) {
	if len(id) > idMax {
		c.fail("id", "is longer than %d bytes", idMax)
	}
	if fault := signFault(id, more); fault != "" {
		c.fail("id", "%s", fault)
	}
}

// IDFault is what is wrong with an id that is made as those of resources are; "" when nothing is.
func IDFault(id string) string {
	if len(id) > idMax {
		return fmt.Sprintf("is longer than %d bytes", idMax)
	}
	return signFault(id, "")
}

func signFault(id, more string) string {
	if id == "" {
		return "is required"
	}
	for i := range len(id) {
		b := id[i]
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		if letter || i > 0 && strings.IndexByte("._-:@+", b) >= 0 || strings.IndexByte(more, b) >= 0 {
			continue
		}
		return "must be letters, digits and ._-:@+" + more + ", with a letter or digit first"
	}
	return ""
}

func (c *checker) slots(slots *int) *int {
	if slots == nil {
		return nil
	}
	c.between("slots", *slots, 1, slotsMax, " or null")
	v := *slots
	return &v
}

func (c *checker) between(field string, n, low, high int, or string) {
	if n < low || n > high {
		c.fail(field, "must be %s..%s%s", grouped(low), grouped(high), or)
	}
}

// grouped writes 1000000 as 1,000,000.
func grouped(n int) string {
	s := strconv.Itoa(max(n, -n))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n < 0 {
		return "-" + s
	}
	return s
}

// atMost bounds the length of a list.
func (c *checker) atMost(field string, n, most int) (ok bool) {
	if n > most {
		c.fail(field, "has more than %s entries", grouped(most))
	}
	return n <= most
}

func (c *checker) duration(field string, d Duration, high time.Duration) {
	if d.Std() < time.Millisecond || d.Std() > high {
		c.fail(field, "must be 1ms..%s", Duration(high))
	}
}

// decimal makes a decimal from 0 to high canonical; "" stays "".
func (c *checker) decimal(field, s string, places int, high int64) string {
	if s == "" {
		return ""
	}
	n, err := money.ParseDecimal(s, places)
	if err != nil {
		c.fail(field, "must be a decimal such as \"2.5\" with at most %d decimals: %v", places, err)
		return s
	}
	for range places {
		high *= 10
	}
	if n < 0 || n > high {
		c.fail(field, "must be 0..%s", money.AppendDecimal(nil, high, places))
	}
	return string(money.AppendDecimal(nil, n, places))
}

// multiplier is canonical with "" for one.
func (c *checker) multiplier(field, s string) string {
	if s = c.decimal(field, s, pricing.MultiplierPlaces, int64(pricing.MultiplierMax/pricing.One)); s == "1" {
		return ""
	}
	return s
}

// text bounds a free text and keeps control characters out of it.
func (c *checker) text(field, s string, required bool) {
	switch {
	case s == "" && required:
		c.fail(field, "is required")
	case len(s) > textMax:
		c.fail(field, "is longer than %s bytes", grouped(textMax))
	case strings.ContainsFunc(s, isControl):
		c.fail(field, "has control characters")
	}
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// ids copies a list of references; each may stand in it once.
func (c *checker) ids(field string, list []string) []string {
	if !c.atMost(field, len(list), listMax) {
		return nil
	}
	seen := make(map[string]bool, len(list))
	for i, id := range list {
		switch {
		case id == "":
			c.fail(indexed(field, i), "is empty")
		case seen[id]:
			c.fail(indexed(field, i), "%s is named twice", id)
		}
		seen[id] = true
	}
	return emptyIsNil(slices.Clone(list))
}

func emptyIsNil[S ~[]E, E any](s S) S {
	if len(s) == 0 {
		return nil
	}
	return s
}

func (c *checker) account(r Account, s *State) Resource {
	c.id(r.ID, "")
	if r.Upstream == "" {
		c.fail("upstream", "is required")
	}
	c.sealed(&r, s)
	r.Slots = c.slots(r.Slots)
	c.between("priority", r.Priority, -1_000_000, 1_000_000, "")
	r.ExpiresAt = c.moment("expires_at", r.ExpiresAt)
	return &r
}

func (c *checker) group(r Group) Resource {
	c.id(r.ID, "")
	r.Upstreams = c.ids("upstreams", r.Upstreams)
	r.Accounts = c.ids("accounts", r.Accounts)
	r.Multiplier = c.multiplier("multiplier", r.Multiplier)
	c.oneOf("strategy", r.Strategy, strategies[:])
	c.oneOf("affinity", r.Affinity, affinities[:])
	r.Clients = c.clients(r.Clients)
	r.Limits = c.limits(r.Limits, false)
	c.budget(r.Budget)
	return &r
}

func (c *checker) user(r User) Resource {
	c.id(r.ID, "")
	c.text("name", r.Name, false)
	r.Slots = c.slots(r.Slots)
	r.Limits = c.limits(r.Limits, true)
	c.budget(r.Budget)
	r.Overdraft = c.usd("overdraft", r.Overdraft)
	return &r
}

// moment copies a time with the precision of the event store. In UTC its year may be one more than was written.
func (c *checker) moment(field string, t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	v := t.UTC().Truncate(time.Microsecond)
	if y := v.Year(); y < yearMin || y > YearMax {
		c.fail(field, "must be between the years %d and %d", yearMin, YearMax)
	}
	return &v
}

// copyMap copies a map; an empty one is nil.
func copyMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
