package lawtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// told is one append of a history, with the place of its first fact in a store that has nothing else.
type told struct {
	events.Append
	at int64
}

// numbered are the appends of a history with their places.
func numbered(history []events.Append) []told {
	list := make([]told, len(history))
	at := int64(1)
	for i, a := range history {
		list[i] = told{a, at}
		at += int64(len(a.Rows[0].Facts))
	}
	return list
}

// moved knows where the facts of a history have come to lie, and where its requests begin.
type moved struct {
	at    map[int64]events.Position // by place in the history
	first map[string]events.Position
}

// placed is an append with the places where the facts that it names lie here.
func (m *moved) placed(t testing.TB, a told) events.Append {
	row := a.Rows[0]
	if len(row.Facts) != 1 {
		return a.Append
	}
	f, ok := row.Facts[0].(*request.Repriced)
	if !ok {
		return a.Append
	}
	moved := *f
	moved.Changes = slices.Clone(f.Changes)
	for i := range moved.Changes {
		c := &moved.Changes[i]
		at, known := m.at[c.Position]
		if !known {
			t.Fatalf("%s: a change of what lies at %d, which nobody has told", row.Stream, c.Position)
		}
		c.Position = int64(at)
	}
	row.Facts = []events.Fact{&moved}
	must(t, events.Encode(&row))
	return events.Append{Rows: []events.Row{row}}
}

// lies notes where an append has come to lie.
func (m *moved) lies(a told, at events.Position) {
	if m.at == nil {
		m.at, m.first = map[int64]events.Position{}, map[string]events.Position{}
	}
	row := &a.Rows[0]
	for i := range row.Facts {
		m.at[a.at+int64(i)] = at + events.Position(i)
	}
	if row.Version == 0 && strings.HasPrefix(row.Stream, events.RequestStreams) {
		m.first[row.Stream] = at
	}
}

// reprices says that the append tells what an ended request costs now.
func (a *told) reprices() bool {
	_, ok := a.Rows[0].Facts[0].(*request.Repriced)
	return ok
}
