package routing

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
)

// A45: routing and the list of models read the same rules, which were compiled when the snapshot was made: whatever is listed has a
// candidate, by its name and nobody else's, and no plan compiles an expression.
func TestWhatIsListedHasACandidate_A45(t *testing.T) {
	rules := func(rules ...catalog.ModelRule) func(*catalog.Upstream) {
		return func(u *catalog.Upstream) { u.ModelRules = rules }
	}
	snap := snapshot(t,
		up("a", rules(catalog.ModelRule{Type: "exact", Value: "one"}, catalog.ModelRule{Type: "alias", Value: "fast", Target: "two"}), 1),
		up("b", rules(catalog.ModelRule{Type: "regex", Value: "^three-"}, catalog.ModelRule{Type: "exact", Value: "one"}), 1))
	listed := snap.Models(snap.Key("all"))
	if strings.Join(listed, " ") != "fast one" {
		t.Errorf("listed %v", listed)
	}
	for _, model := range append(listed, "three-x", "four") {
		served := map[string]bool{}
		for _, c := range plan(snap, board{}, Query{Model: model}).Candidates {
			served[c.Upstream.ID] = true
		}
		for _, id := range []string{"a", "b"} {
			u := snap.Upstream(id)
			if served[id] != u.Match(model).Matched || snap.Names(u, model) && !served[id] {
				t.Errorf("%s at %s: a candidate %v, matched %v, named %v", model, id, served[id], u.Match(model).Matched, snap.Names(u, model))
			}
		}
	}
	var p Plan
	q := Query{Capability: "openai_chat_compatible", Key: snap.Key("all"), Model: "three-x", Now: now}
	if n := testing.AllocsPerRun(100, func() { Make(&q, snap, board{}, &p) }); n > 0 || ids(&p) != "b" {
		t.Errorf("%v allocations, %s", n, ids(&p))
	}
}
