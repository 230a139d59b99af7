package requestlog

import (
	"slices"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// MarkSize is the number of positions of a block of lines: those of requests whose first facts lie in it.
const MarkSize = 256

// MarksMax bounds the blocks whose lines a page looks at. A value that stands in more of them is met soon enough on the way
// from the newest line.
const MarksMax = 600

// Marks say in which blocks of lines an outcome, an upstream or a model occurs or has occurred, so that a page of rare
// ones looks at few lines. They are few rows for many lines, where an index on each column would cost every line.
var Marks = &projections.Table{
	Name: "request_marks",
	Key:  3,
	Columns: []projections.Column{
		{Name: "kind", Kind: projections.KindInt}, // see MarkKind
		{Name: "value", Kind: projections.KindText},
		{Name: "block", Kind: projections.KindInt}, // position / 256
	},
}

// MarkKind says what the value of a mark is. The numbers are stored.
type MarkKind int64

// The kinds. MarkUnsure, without a value, says: look at the lines of this block, whatever you seek. Two names are a value of
// both, with a space between them.
const (
	MarkUnsure MarkKind = iota
	markOutcome
	markUpstream
	markModel
	markUpstreamModel
	markOutcomeUpstream
	markOutcomeModel
	markKinds // so many
)

// Mark is what a block is marked with.
type Mark struct {
	Kind  MarkKind
	Value string
}

// Marks are those that every line which matches has; none: the query asks for nothing that is marked.
func (q *Query) Marks() []Mark {
	list := []Mark{
		{markOutcome, q.Outcome}, {markUpstream, q.Upstream}, {markModel, q.Model}, pair(markUpstreamModel, q.Upstream, q.Model),
	}
	if q.Outcome != completed {
		list = append(list, pair(markOutcomeUpstream, q.Outcome, q.Upstream), pair(markOutcomeModel, q.Outcome, q.Model))
	}
	return slices.DeleteFunc(list, func(m Mark) bool { return m.Value == "" })
}

// completed is the outcome that most lines have: its pairs with others are not marked.
const completed = string(request.Completed)

// pair is the mark of two values that stand in one line: each may be frequent where both together are not.
func pair(kind MarkKind, a, b string) Mark {
	if a == "" || b == "" {
		return Mark{}
	}
	return Mark{kind, a + " " + b}
}

// Marker is the fold of the marks, a projection beside that of the lines: a read model that has it, and has it as far as the
// lines, looks for rare lines through them. The zero value is ready.
type Marker struct{}

// Name implements projections.Projection.
func (Marker) Name() string { return "logmarks" }

// Version implements projections.Projection.
func (Marker) Version() int { return 1 }

// Tables implements projections.Projection.
func (Marker) Tables() []*projections.Table { return []*projections.Table{Marks} }

// Needs implements projections.Selective.
func (Marker) Needs() []string { return Projection{}.Needs() }

// Open implements projections.Opener: marks go with their lines.
func (Marker) Open(*books.Closed, *projections.Changes) error { return nil }

// Fold marks the block of the request's line with all that the line says.
func (Marker) Fold(story *request.Story, fact events.Fact, at projections.Place, out *projections.Changes) {
	switch f := fact.(type) {
	case *books.Removed:
		unmark(f.First, f.Last, out)
	case *books.Trimmed:
		unmark(0, f.Last, out)
	case *request.Repriced: // nothing that is marked
		return
	}
	if story != nil && !at.More && at.First > 0 {
		mark(story, int64(at.First), out)
	}
}

// put marks a block.
func (m Mark) put(block int64, out *projections.Changes) {
	out.Append(Marks, projections.Int(int64(m.Kind)), projections.Text(m.Value), projections.Int(block))
}

// mark marks the block of a line with what a fact has brought to it. Most lines of a block say the same.
func mark(story *request.Story, first int64, out *projections.Changes) {
	model, resolved, upstream, outcome := ask(story).Model, "", "", ""
	if final := story.Final(); final != nil {
		upstream, resolved = final.Dispatched.Upstream, final.Dispatched.ResolvedModel
	}
	switch {
	case story.Settled != nil:
		outcome = string(story.Settled.Outcome)
	case story.Rejected != nil:
		outcome = string(story.Rejected.Outcome())
	}
	block := first / MarkSize
	if out.Again(Marks, projections.Told{N: block, Texts: [4]string{model, resolved, upstream, outcome}}) {
		return
	}
	set := func(m Mark) {
		if m.Value != "" {
			m.put(block, out)
		}
	}
	set(Mark{markUpstream, upstream})
	set(Mark{markOutcome, outcome})
	if outcome != completed {
		set(pair(markOutcomeUpstream, outcome, upstream))
	}
	for _, model := range []string{model, resolved} {
		set(Mark{markModel, model})
		set(pair(markUpstreamModel, upstream, model))
		if outcome != completed {
			set(pair(markOutcomeModel, outcome, model))
		}
	}
}

// unmark takes the marks of lines away that are gone. Of the blocks at both ends it is no more known what the lines that stay
// have: a rebuilding, which meets these only, must come to the same marks.
func unmark(from, to int64, out *projections.Changes) {
	out.Cut(projections.Cut{Table: Marks, To: int64(markKinds) - 1, Column: "block", Low: from / MarkSize, High: to / MarkSize})
	for _, at := range []int64{from, to} {
		Mark{Kind: MarkUnsure}.put(at/MarkSize, out)
	}
}
