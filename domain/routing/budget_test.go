package routing

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
)

// E23-E26: one budget for all plans of a request.
func TestTheBudgetOfARequest_E23_E26(t *testing.T) {
	budget := func(values ...string) *Budget {
		resources := [][]catalog.Resource{}
		for i := 0; i < len(values); i += 2 {
			resources = append(resources, setting(values[i], values[i+1]))
		}
		var b Budget
		b.Reset(&snapshot(t, resources...).Settings)
		return &b
	}
	spend := func(b *Budget, calls string) (made string) {
		for _, c := range strings.Fields(calls) {
			if b.Allows(c[:1], c) {
				b.Spend(c[:1], c)
				made += c + " "
			}
		}
		return strings.TrimSpace(made)
	}
	for _, c := range []struct {
		name        string
		b           *Budget
		calls, want string
		left        int
	}{
		{"six by default, repeated ones counted, an account three times", budget(), "a1 a1 a1 a1 a2 b1 c1 d1", "a1 a1 a1 a2 b1 c1", 0},
		{"an upstream", budget("failover.per_upstream", "2"), "a1 a2 a3 b1", "a1 a2 b1", 3},
		{"an account once", budget("failover.per_account", "1"), "a1 a1 a2", "a1 a2", 4},
		{"until exhausted", budget("failover.max_attempts", "0", "failover.per_account", "1"), "a1 a2 a3 a4 a5 a6 a7 a8 a8", "a1 a2 a3 a4 a5 a6 a7 a8", callsMax - 8},
	} {
		if got := spend(c.b, c.calls); got != c.want || c.b.Left() != c.left {
			t.Errorf("%s: %s, %d left", c.name, got, c.b.Left())
		}
	}
	var none Budget
	if none.Allows("a", "a1") {
		t.Error("the zero budget allows a call")
	}
}
