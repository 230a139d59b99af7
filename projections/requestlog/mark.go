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

// AreaSize is the number of blocks of an area.
const AreaSize = 2048

// MarksMax bounds the blocks that are listed before a page looks at the newest of them. A value that stands in more of them is
// met soon enough on the way through the spans, from the newest one.
const MarksMax = 600

// Marks say in which blocks of lines a key, an outcome, an upstream or a model occurs or has occurred, so that a page of rare
// ones looks at few lines. They are few rows for many lines, where an index on each column would cost every line.
var Marks = &projections.Table{
	Name: "request_marks",
	Key:  3,
	Columns: []projections.Column{
		{Name: "kind", Kind: projections.KindInt}, // see MarkKind
		{Name: "value", Kind: projections.KindText},
		{Name: "block", Kind: projections.KindInt}, // position / 256; of an area its first one
	},
}

// MarkKind says what the value of a mark is. The numbers are stored.
type MarkKind int64

// The kinds. MarkUnsure, without a value, says: look at the lines of this block, whatever you seek. Two names are a value of
// both, with a space between them. Marks of areas are for pairs that may be in every block and yet in no line together, and of
// which there are too many to mark each block.
const (
	MarkUnsure MarkKind = iota
	markOutcome
	markUpstream
	markModel
	markUpstreamModel
	markOutcomeUpstream
	markOutcomeModel
	markKey
	markOutcomeKey
	MarkUnsureArea
	areaKeyModel
	areaKeyUpstream
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
		{markKey, q.Key}, {markOutcome, q.Outcome}, {markUpstream, q.Upstream}, {markModel, q.Model},
		pair(markUpstreamModel, q.Upstream, q.Model),
	}
	if q.Outcome != completed {
		list = append(list, pair(markOutcomeUpstream, q.Outcome, q.Upstream), pair(markOutcomeModel, q.Outcome, q.Model),
			pair(markOutcomeKey, q.Outcome, q.Key))
	}
	return slices.DeleteFunc(list, Mark.none)
}

// AreaMarks are those of areas that every line which matches has.
func (q *Query) AreaMarks() []Mark {
	return slices.DeleteFunc([]Mark{pair(areaKeyModel, q.Key, q.Model), pair(areaKeyUpstream, q.Key, q.Upstream)}, Mark.none)
}

func (m Mark) none() bool { return m.Value == "" }

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
func (Marker) Version() int { return 2 } // 2: keys

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

// mark marks the block of a line with what a fact has brought to it. Most lines of a block say the same; of those that do not, many
// say so but for the key, and many pairs have been said of the area.
func mark(story *request.Story, first int64, out *projections.Changes) {
	asked, resolved, upstream, outcome := ask(story), "", "", ""
	if final := story.Final(); final != nil {
		upstream, resolved = final.Dispatched.Upstream, final.Dispatched.ResolvedModel
	}
	switch {
	case story.Settled != nil:
		outcome = string(story.Settled.Outcome)
	case story.Rejected != nil:
		outcome = string(story.Rejected.Outcome())
	}
	m := marking{first / MarkSize, out}
	models := [...]string{asked.Model, resolved}
	told := projections.Told{N: m.block, Texts: [5]string{models[0], models[1], upstream, outcome, asked.Key}}
	if out.Again(Marks, told) {
		return
	}
	if told.Texts[4] = ""; asked.Key == "" || !out.Again(Marks, told) {
		m.line(models, upstream, outcome)
	}
	if asked.Key != "" {
		m.key(models, upstream, outcome, asked.Key)
	}
}

// marking marks a block.
type marking struct {
	block int64
	out   *projections.Changes
}

func (m marking) set(mark Mark) {
	if mark.Value != "" {
		m.put(mark.Kind, mark.Value)
	}
}

func (m marking) put(kind MarkKind, value string) {
	m.out.Append(Marks, projections.Int(int64(kind)), projections.Text(value), projections.Int(m.block))
}

func (m marking) line(models [2]string, upstream, outcome string) {
	m.set(Mark{markUpstream, upstream})
	m.set(Mark{markOutcome, outcome})
	if outcome != completed {
		m.set(pair(markOutcomeUpstream, outcome, upstream))
	}
	for _, model := range models {
		m.set(Mark{markModel, model})
		m.set(pair(markUpstreamModel, upstream, model))
		if outcome != completed {
			m.set(pair(markOutcomeModel, outcome, model))
		}
	}
}

func (m marking) key(models [2]string, upstream, outcome, key string) {
	m.set(Mark{markKey, key})
	if outcome != completed {
		m.set(pair(markOutcomeKey, outcome, key))
	}
	m.block = areaOf(m.block)
	// Its number is that of no block.
	if m.out.Again(Marks, projections.Told{N: -m.block - 1, Texts: [5]string{models[0], models[1], upstream, "", key}}) {
		return
	}
	m.set(pair(areaKeyUpstream, key, upstream))
	for _, model := range models {
		m.set(pair(areaKeyModel, key, model))
	}
}

// areaOf is the first block of a block's area.
func areaOf(block int64) int64 { return block - block%AreaSize }

// unmark takes the marks of lines away that are gone. Of the blocks at both ends it is no more known what the lines that stay
// have: a rebuilding, which meets these only, must come to the same marks.
func unmark(from, to int64, out *projections.Changes) {
	from, to = from/MarkSize, to/MarkSize
	out.Cut(projections.Cut{Table: Marks, To: int64(MarkUnsureArea) - 1, Column: "block", Low: from, High: to})
	out.Cut(projections.Cut{
		Table: Marks, From: int64(MarkUnsureArea), To: int64(markKinds) - 1, Column: "block", Low: areaOf(from), High: areaOf(to),
	})
	for _, block := range []int64{from, to} {
		marking{block, out}.put(MarkUnsure, "")
		marking{areaOf(block), out}.put(MarkUnsureArea, "")
	}
}
