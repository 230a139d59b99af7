package catalog

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Who is born has no past: it was never there, under its id, before the snapshot that this one follows.
func TestAUserOrKeyIsBornOnce(t *testing.T) {
	s := NewState()
	position := int64(0)
	var prev *Snapshot
	build := func(first bool, facts ...any) string {
		for _, f := range facts {
			position++
			s.Evolve(f, position)
		}
		if first {
			prev = nil
		}
		prev = Build(s, prev)
		var names []string
		for ref := range maps.Keys(prev.Born) {
			names = append(names, ref.String())
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	user := func(id string) any { return &UserRegistered{User{ID: id}} }
	key := func(id string) any {
		return &KeyRegistered{Key{ID: id, Access: "unrestricted", Hash: "sha256:" + strings.Repeat("0", 63) + id}}
	}
	for _, c := range []struct {
		says  string
		first bool
		facts []any
		want  string
	}{
		{"a start", true, []any{user("a"), key("1")}, ""},
		{"nothing", false, nil, ""},
		{"two and a group", false, []any{user("b"), key("2"), &GroupRegistered{Group{ID: "g", Multiplier: "1"}}}, "key 2, user b"},
		{"the same again", false, nil, ""},
		{"a change", false, []any{&UserChanged{User{ID: "b", Name: "B"}}}, ""},
		{"one that goes", false, []any{&UserRemoved{ID: "b"}, &KeyRemoved{ID: "2"}}, ""},
		{"and comes back", false, []any{user("b"), key("2")}, ""},
		{"one that came and was changed at once", false, []any{user("c"), &UserChanged{User{ID: "c", Name: "C"}}}, ""},
		{"one that cannot be read", false, []any{&Unreadable{Ref: Ref{KindUser, "d"}}}, ""},
		{"another start", true, []any{user("e")}, ""},
	} {
		if got := build(c.first, c.facts...); got != c.want {
			t.Errorf("%s: born are %q, want %q", c.says, got, c.want)
		}
	}
}
