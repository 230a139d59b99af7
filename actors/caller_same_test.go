package actors

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
)

// A change is told to those whom it concerns, however many others there are; who failed to take it is told again with the next.
func TestAChangeOfOneKeyIsToldToItsOwnCallerOnly(t *testing.T) {
	var mu sync.Mutex
	told, failing := map[string]bool{}, ""
	h := &house{t: t}
	h.System = NewSystem(Options{Now: h.now, History: func(limit.Past, func(*Used)) error { return nil }})
	t.Cleanup(func() { _ = h.Stop(t.Context()) })
	h.hooks.before = func(owner string, msg any) {
		if _, ok := msg.(*reconfigureCaller); ok {
			mu.Lock()
			defer mu.Unlock()
			told[owner] = true
			if owner == failing {
				panic("scripted")
			}
		}
	}
	limits := func(rpm int64) *catalog.Limits { return &catalog.Limits{RPM: whole(rpm), Budget: "5"} }
	first := Layout{
		Users: []catalog.User{{ID: "u", Limits: limits(9)}, {ID: "v"}},
		Keys:  []catalog.Key{{ID: "a", Limits: limits(1)}, {ID: "b", Slots: count(2)}, {ID: "c", User: "u", Limits: limits(3)}, {ID: "d", User: "v"}},
	}
	change := func(do func(l *Layout)) Layout {
		l := Layout{Users: slices.Clone(first.Users), Keys: slices.Clone(first.Keys)}
		do(&l)
		return l
	}
	h.Reconfigure(first)
	h.Reconfigure(first)
	for _, c := range []struct {
		says string
		to   Layout
		fail string
		told string // and again, when the first layout is back
	}{
		{"nothing", first, "", ""},
		{"another limit of a key", change(func(l *Layout) { l.Keys[0].Limits = limits(2) }), "", "key/a"},
		{"other slots of a key", change(func(l *Layout) { l.Keys[1].Slots = count(3) }), "", "key/b"},
		{"another mode of a user's key", change(func(l *Layout) { l.Keys[2].Budget = "strict" }), "", "user/u"},
		{"addresses of a key", change(func(l *Layout) { l.Keys[3].MaxIPs = count(3) }), "", "user/v"},
		{"another group of a key", change(func(l *Layout) { l.Keys[0].Group = "g" }), "", "key/a"},
		{"another limit of a user", change(func(l *Layout) { l.Users[0].Limits = limits(2) }), "", "user/u"},
		{"an overdraft of a user", change(func(l *Layout) { l.Users[1].Overdraft = "2" }), "", "user/v"},
		{"a key more of a user", change(func(l *Layout) { l.Keys = append(l.Keys, catalog.Key{ID: "e", User: "v"}) }), "", "user/v"},
		{"a name", change(func(l *Layout) { l.Users[0].Name, l.Keys[0].Models = "other", []string{"m"} }), "", ""},
		{"one that fails to take it", change(func(l *Layout) { l.Keys[0].Limits = limits(7) }), "key/a", "key/a"},
	} {
		for _, l := range []Layout{c.to, first} {
			mu.Lock()
			clear(told)
			failing = c.fail
			mu.Unlock()
			h.Reconfigure(l)
			mu.Lock()
			failing = ""
			mu.Unlock()
			if got := strings.Join(slices.Sorted(maps.Keys(told)), " "); got != c.told {
				t.Errorf("%s: %q was told, want %q", c.says, got, c.told)
			}
		}
	}
	if v := h.viewed(t, "a"); v.Keys[0].Rate.RPM.Limit != 7 && v.Keys[0].Rate.RPM.Limit != 1 {
		t.Errorf("%+v", v.Keys[0].Rate)
	}
	mu.Lock()
	clear(told)
	mu.Unlock()
	h.Reconfigure(first)
	if v := h.viewed(t, "a"); !told["key/a"] || v.Keys[0].Rate.RPM.Limit != 1 {
		t.Errorf("who failed was not told again: %v, %+v", told, v.Keys[0].Rate)
	}
}
