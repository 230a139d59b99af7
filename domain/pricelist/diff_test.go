package pricelist

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 500, time.UTC)

func synced(model, in string) *catalog.Price {
	return &catalog.Price{ID: catalog.SyncedID("", model), Model: model, Source: "synced", Input: in, Output: "1"}
}

// stored is a catalogue after changes, as the gateway keeps it.
func stored(current []*catalog.Price, c Changes, prune bool) []*catalog.Price {
	byID := map[string]*catalog.Price{}
	var ids []string
	put := func(p *catalog.Price) {
		if byID[p.ID] == nil {
			ids = append(ids, p.ID)
		}
		byID[p.ID] = p
	}
	for _, p := range current {
		put(p)
	}
	for _, change := range slices.Concat(c.Added, c.Changed) {
		put(change.Price)
	}
	var list []*catalog.Price
	for _, id := range ids {
		gone := prune && slices.ContainsFunc(c.Removed, func(r Change) bool { return slices.Contains(r.Gone, id) })
		if !gone {
			list = append(list, byID[id])
		}
	}
	return list
}

func TestTheDifferenceIsShownAndTheSecondReadingChangesNothing(t *testing.T) {
	manual := &catalog.Price{ID: "b", Model: "b", Input: "7", Output: "7"}
	current := []*catalog.Price{synced("same", "1"), synced("b", "1"), synced("gone", "1"), manual}
	list := List{Prices: []*catalog.Price{synced("b", "2"), synced("new", "3"), synced("same", "1")}}
	c := Compare(current, list, noon, Options{})
	if len(c.Added) != 1 || c.Added[0].Model != "new" || c.Added[0].Price.ID != "synced/new" || c.Added[0].Price.EffectiveFrom != nil {
		t.Errorf("added %+v", c.Added)
	}
	if len(c.Changed) != 1 || !slices.Equal(c.Changed[0].Fields, []Field{{"input", "1", "2"}}) {
		t.Fatalf("changed %+v", c.Changed)
	}
	if p := c.Changed[0].Price; p.ID != "synced/b@20261129T120000Z" || !p.EffectiveFrom.Equal(noon.Truncate(time.Second)) {
		t.Errorf("a changed price holds from now on, beside the old one: %+v", p)
	}
	if len(c.Removed) != 1 || !slices.Equal(c.Removed[0].Gone, []string{"synced/gone"}) || c.Unchanged != 1 || c.Shadowed != 1 {
		t.Errorf("got %+v", c)
	}
	after := stored(current, c, false)
	if again := Compare(after, list, noon.Add(time.Hour), Options{}); !again.IsEmpty() || again.Unchanged != 3 || len(again.Removed) != 1 {
		t.Errorf("again: %+v", again)
	}
	if pruned := Compare(stored(current, c, true), list, noon, Options{}); len(pruned.Removed) != 0 {
		t.Errorf("pruned: %+v", pruned)
	}
	if manual.Input != "7" || !slices.Contains(after, manual) {
		t.Error("a price that people set was touched")
	}
	// Later the price changes again, and once more within the same second: corrected in place.
	list.Prices[0] = synced("b", "4")
	c = Compare(after, list, noon.Add(time.Hour), Options{})
	after = stored(after, c, false)
	list.Prices[0] = synced("b", "5")
	c = Compare(after, list, noon.Add(time.Hour), Options{})
	if len(c.Changed) != 1 || c.Changed[0].Price.ID != "synced/b@20261129T130000Z" || len(stored(after, c, false)) != len(after) {
		t.Errorf("in place: %+v", c.Changed)
	}
}

func TestPricesOfUpstreamsThatTheListIsNotReadForStay(t *testing.T) {
	bound := &catalog.Price{ID: "synced/groq-main/x", Model: "x", Upstream: "groq-main", Source: "synced", Input: "1", Output: "1"}
	list := List{Prices: []*catalog.Price{synced("a", "1")}}
	if c := Compare([]*catalog.Price{bound}, list, noon, Options{}); len(c.Removed) != 0 {
		t.Errorf("got %+v", c.Removed)
	}
	if c := Compare([]*catalog.Price{bound}, list, noon, Options{Upstreams: map[string]string{"groq": "groq-main"}}); len(c.Removed) != 1 || c.Removed[0].Upstream != "groq-main" {
		t.Errorf("got %+v", c.Removed)
	}
}

func TestTheWholeListIsIdempotent(t *testing.T) {
	o := Options{Upstreams: map[string]string{"groq": "g", "vertex_ai": "v"}}
	l := read(t, o)
	c := Compare(nil, l, noon, o)
	if len(c.Added) != len(l.Prices) || len(c.Changed) != 0 {
		t.Fatalf("got %+v", c)
	}
	if again := Compare(stored(nil, c, false), read(t, o), noon.Add(time.Hour), o); !again.IsEmpty() || len(again.Removed) != 0 || again.Unchanged != len(l.Prices) {
		t.Errorf("again: %+v", again)
	}
}

func TestABookThatIsWrongNamesEntryAndField(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "is not a price book",
		`[{"model":"a","input":"1","output":"1"},{"model":"b","inptu":"1"}]`: "entry 2: price: inptu: unknown field",
		`[{"model":"a","input":"-1","output":"1"}]`:                          "entry 1: price synced/a: input: must be 0..1,000,000",
	} {
		if _, err := ReadBook([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
