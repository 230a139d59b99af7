package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// A request that ends at the very moment at which its key moves counts at the next user, too: once.
func TestWhatEndsWhileItsKeyMovesIsSpent(t *testing.T) {
	of := func(user string) Layout {
		return Layout{
			Users: []catalog.User{{ID: "u"}, {ID: "v"}},
			Keys:  []catalog.Key{{ID: "k", User: user, Limits: &catalog.Limits{Budget: "9"}}},
		}
	}
	for _, when := range []string{"before it is handed over", "while", "behind it"} {
		h := openHouse(t, of("u"))
		told := &past{}
		h.history = told.read
		p, no := h.Admit("", "k", req("a"), nil)
		if no != nil {
			t.Fatal(no)
		}
		h.hooks.before = func(owner string, msg any) {
			_, handed := msg.(*bequeath)
			_, back := msg.(*inherit)
			if p.pid != nil && (handed && when == "while" || back && when == "behind it") {
				h.settled(p, money.USD, 1)
				p.pid = nil
			}
		}
		told.whileRead(func() error {
			if when == "before it is handed over" {
				h.settled(p, money.USD, 1)
			}
			return nil
		})
		h.Reconfigure(of("v"))
		h.Leave(h.enter(t, "b", "k").ends(""))
		if v := h.viewed(t, "k"); v.Keys[0].Sums[0].Spent != money.USD || v.Open != 0 {
			t.Errorf("%s: %+v", when, v)
		}
	}
}

// A key that was removed while it has a request, and is added again at another user, has spent what that comes to: once, whenever it
// ends.
func TestWhatEndsWhileItsKeyIsAddedElsewhereIsSpent(t *testing.T) {
	of := func(user string) Layout {
		l := Layout{Users: []catalog.User{{ID: "u"}, {ID: "v"}}, Keys: []catalog.Key{{ID: "other", User: "v"}}}
		if user != "none" {
			l.Keys = append(l.Keys, catalog.Key{ID: "k", User: user, Limits: &catalog.Limits{Budget: "9"}})
		}
		return l
	}
	for _, from := range []string{"u", ""} {
		for _, when := range []string{"before", "while its past is read", "behind that"} {
			h := openHouse(t, of(from))
			told := &past{}
			h.history = told.read
			p, no := h.Admit("", "k", req("a"), nil)
			if no != nil {
				t.Fatal(no)
			}
			ends := func(at string) {
				if h.passTime(time.Second); at == when {
					told.ends(h, p, from, money.USD)
				}
			}
			h.Reconfigure(of("none"))
			ends("before")
			h.passTime(time.Second)
			told.whileRead(func() error { ends("while its past is read"); return nil })
			h.Reconfigure(of("v"))
			told.whileRead(nil)
			ends("behind that")
			h.Leave(h.enter(t, "b", "k").ends(""))
			v := h.viewed(t, "k")
			is := slices.IndexFunc(v.Keys, func(k limit.KeyView) bool { return k.ID == "k" })
			if is < 0 || v.Keys[is].Sums[0].Spent != money.USD || v.Open != 0 {
				t.Errorf("from %q, %s: %+v", from, when, v.Keys)
			}
			h.Reconfigure(of("none"))
			for id, r := range h.dir.Load().callers {
				if err := within(h.System, r.ref, func(d *callerDesk) {
					if len(d.late)+len(d.heirs) > 0 {
						t.Errorf("%s keeps %v %v", id, d.late, d.heirs)
					}
				}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
