package pricelist

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
)

// Field is one price of a resource under its path, with its value before and after; "" is none.
type Field struct{ Path, Was, Is string }

// values are all that a price says of costs and limits, by path.
func values(p *catalog.Price) map[string]string {
	m := map[string]string{}
	put := func(path, v string) {
		if v != "" && v != "0" || path == "input" || path == "output" {
			m[path] = v
		}
	}
	rates := func(at string, r catalog.PriceRates) {
		for _, v := range r.Named() {
			put(at+v.Name, v.Value)
		}
	}
	tiers := func(at string, list []catalog.PriceTier) {
		for _, t := range list {
			under := at + "tiers[" + strconv.FormatInt(t.AboveInputTokens, 10) + "]."
			rates(under, t.PriceRates)
			if t.Inclusive {
				m[under+"inclusive"] = "true"
			}
		}
	}
	rates("", p.FlatRates())
	tiers("", p.Tiers)
	for name, s := range p.ServiceTiers {
		rates("service_tiers."+name+".", s.PriceRates)
		tiers("service_tiers."+name+".", s.Tiers)
	}
	put("max_input_tokens", strconv.FormatInt(p.MaxInputTokens, 10))
	put("max_output_tokens", strconv.FormatInt(p.MaxOutputTokens, 10))
	return m
}

// Differences are the prices and limits in which two values of a price differ, by path; ids, dates and where they were
// read are none.
func Differences(was, is *catalog.Price) []Field {
	a, b := values(was), values(is)
	var list []Field
	for path, v := range a {
		if b[path] != v {
			list = append(list, Field{path, v, b[path]})
		}
	}
	for path, v := range b {
		if _, known := a[path]; !known {
			list = append(list, Field{path, "", v})
		}
	}
	slices.SortFunc(list, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// Change is what a list does to the price of one model.
type Change struct {
	Model    string
	Upstream string         // "" for all
	Price    *catalog.Price // to be stored; nil when the list has the model no more
	Fields   []Field        // of a changed price
	Gone     []string       // ids of the synced prices of a model that the list has no more
}

// Changes are the difference between a list and the synced prices of a catalogue, each part by upstream and model.
type Changes struct {
	Added     []Change
	Changed   []Change
	Removed   []Change
	Unchanged int
	Shadowed  int // models of the list for which people have set a price: theirs holds
}

// IsEmpty says that the list changes nothing, apart from models that it has no more.
func (c *Changes) IsEmpty() bool { return len(c.Added)+len(c.Changed) == 0 }

type modelAt struct{ upstream, model string }

// Compare says what a list changes in the prices of a catalogue at a time. A model that has no synced price gets one
// that always held. A price that differs gets a new value that holds from the time on, under an id with that time, and
// the old one stays: what was used before keeps its price. Models that the list has no more are Removed only if their
// prices are general or bound to an upstream that the list is read for. Prices that people set are left alone. Reading
// the same list again changes nothing.
func Compare(current []*catalog.Price, l List, from time.Time, o Options) Changes {
	from = from.UTC().Truncate(time.Second)
	synced := map[modelAt][]*catalog.Price{}
	manual := map[modelAt]bool{}
	for _, p := range current {
		at := modelAt{p.Upstream, p.Model}
		if p.Source == string(pricing.Synced) {
			synced[at] = append(synced[at], p)
		} else {
			manual[at] = true
		}
	}
	var c Changes
	listed := map[modelAt]bool{}
	for _, p := range l.Prices {
		at := modelAt{p.Upstream, p.Model}
		listed[at] = true
		if manual[at] {
			c.Shadowed++
		}
		change := Change{Model: p.Model, Upstream: p.Upstream, Price: p}
		last := newest(synced[at])
		if last == nil {
			c.Added = append(c.Added, change)
			continue
		}
		if change.Fields = Differences(last, p); len(change.Fields) == 0 {
			c.Unchanged++
			continue
		}
		change.Price = dated(p, last, from)
		c.Changed = append(c.Changed, change)
	}
	scope := map[string]bool{"": true}
	for _, upstream := range o.Upstreams {
		scope[upstream] = true
	}
	for at, list := range synced {
		if listed[at] || !scope[at.upstream] {
			continue
		}
		change := Change{Model: at.model, Upstream: at.upstream}
		for _, p := range list {
			change.Gone = append(change.Gone, p.ID)
		}
		slices.Sort(change.Gone)
		c.Removed = append(c.Removed, change)
	}
	for _, list := range [][]Change{c.Added, c.Changed, c.Removed} {
		slices.SortFunc(list, func(a, b Change) int {
			return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Model, b.Model))
		})
	}
	return c
}

// newest is the value that holds last; nil if there is none.
func newest(list []*catalog.Price) *catalog.Price {
	var last *catalog.Price
	for _, p := range list {
		if last == nil || start(p).After(start(last)) {
			last = p
		}
	}
	return last
}

// start is when a price begins; the zero time for always.
func start(p *catalog.Price) time.Time {
	if p.EffectiveFrom == nil {
		return time.Time{}
	}
	return *p.EffectiveFrom
}

// dated is p as the value that follows last. One that is to begin no earlier is replaced in place.
func dated(p, last *catalog.Price, from time.Time) *catalog.Price {
	v := *p
	if !start(last).Before(from) {
		v.ID, v.EffectiveFrom = last.ID, last.EffectiveFrom
		return &v
	}
	v.ID, v.EffectiveFrom = p.ID+"@"+from.Format("20060102T150405Z"), &from
	return &v
}

// Line is a price for people: its paths and values in order.
func Line(p *catalog.Price) string {
	m := values(p)
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, path+" "+m[path])
	}
	return strings.Join(parts, ", ")
}
