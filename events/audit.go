package events

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/penstock/penstock/domain/books"
)

// Commit is one link of the chain as it is stored.
type Commit struct {
	First          Position // of the commit's first fact
	N              int64    // facts
	Previous, Hash [32]byte
	Bounds         // zero in an export that was written before they were hashed
}

// Bounds are what a commit says beside its rows: readers find their way by them.
type Bounds struct {
	LowWater Position // see Store.LowWater
	Earliest int64    // time of its earliest row, in microseconds since 1970
	Latest   int64    // time of the latest row of it and of all before it
}

// RawRow is what is stored of a row, column by column. Row.Facts is nil: an audit believes columns, not what they
// decode to. Of a row that retention has removed, Position, N and Hash are left.
type RawRow struct {
	Position Position
	N        int64 // facts
	Archived bool  // removed by retention
	// Lost says why readings of the store do not find the row, though it is there: what the store finds its rows by is not hashed,
	// and is made from them. "" when they do.
	Lost string
	Hash [32]byte
	Row
}

// Chain is a source of links: every Store, and what Export wrote.
type Chain interface {
	// Chain reads the links with their rows in order, from the one that holds the position after+1 on, up to the head
	// of the moment of the call. A row belongs to the last link that begins at or before it, whether or not that says
	// so; rows before the first link come with one that is zero. Of the rows beyond a link's facts only the first must
	// be given. Link and rows are valid until yield returns; false ends the reading.
	Chain(ctx context.Context, after Position, yield func(*Commit, []RawRow) bool) error
}

// Fault is what an audit found wrong.
type Fault string

// The faults.
const (
	Tampered  Fault = "tampered"  // something stored is not what was hashed
	Missing   Fault = "missing"   // a row or a link is gone from the middle
	Reordered Fault = "reordered" // rows or links stand at each other's places
	Truncated Fault = "truncated" // the end is gone
)

// Report is the result of an audit. It ends at the first fault.
type Report struct {
	Positions   Position  `json:"positions"`    // facts that were checked
	FirstBroken *Position `json:"first_broken"` // null: none
	Fault       Fault     `json:"fault"`        // "" when none
	Equal       bool      `json:"equal"`
	Detail      string    `json:"detail,omitempty"` // what does not fit, for people
	Commits     int64     `json:"commits"`
	Rows        int64     `json:"rows"`
	Archived    int64     `json:"archived_rows"` // removed by retention: their hashes are in the chain, they are not here
	Heads       int       `json:"heads"`         // known heads that the chain leads to
	Head        Head      `json:"head"`          // where the chain ends; unsigned
}

// Audit says what a chain is held against. The zero value checks the chain against itself.
type Audit struct {
	// Heads are ends of the chain that were known earlier, in any order, whose signatures the caller has checked. They
	// alone tell a cut-off end, and a chain that was made anew.
	Heads []Head
	// Removed says whether retention may have removed a row at the position; nil: any. See Removals.
	Removed func(Position) bool
	After   Position // only what comes after it; its own link is taken for granted
}

// Verify reads a chain, computes all its hashes again and names the first position that does not fit. Its memory does
// not grow with the chain. The error is about reading; what is wrong with the chain is in the report.
func (a Audit) Verify(ctx context.Context, chain Chain) (Report, error) {
	v := a.verifier()
	err := chain.Chain(ctx, a.After, func(c *Commit, rows []RawRow) bool {
		v.link(c, rows)
		return v.report.Fault == "" || v.seeking
	})
	if err != nil {
		return v.report, err
	}
	v.end()
	v.report.Equal = v.report.Fault == ""
	return v.report, nil
}

func (a Audit) verifier() verifier {
	v := verifier{Audit: a}
	v.Heads = slices.SortedFunc(slices.Values(a.Heads), func(x, y Head) int { return cmp.Compare(x.Position, y.Position) })
	return v
}

// factsMax is more facts than any link has.
const factsMax = 1 << 40

// Removals reads what retention may have removed: it says so before it does.
func Removals(ctx context.Context, store Finder) (func(Position) bool, error) {
	var spans []books.Span // in order of First; Through is the highest so far
	if err := EachRemoved(ctx, store, func(f *books.Removed, _ Position) { spans = append(spans, f.Span) }); err != nil {
		return nil, err
	}
	slices.SortFunc(spans, func(a, b books.Span) int { return cmp.Compare(a.First, b.First) })
	for i := 1; i < len(spans); i++ {
		spans[i].Through = max(spans[i].Through, spans[i-1].Through)
	}
	return func(p Position) bool {
		i := sort.Search(len(spans), func(i int) bool { return spans[i].First > int64(p) })
		return i > 0 && int64(p) <= spans[i-1].Through
	}, nil
}

type verifier struct {
	Audit
	hasher  Hasher
	hashes  [][32]byte
	begun   bool
	next    Position // where the next link must begin
	latest  int64    // of the last link
	hash    [32]byte // of the last link
	vouched Position // the last known head that was met
	seeking bool     // a link is missing; it may stand elsewhere
	hurried bool     // it is not looked for where a row stood before, which takes its time
	report  Report
}

// fault ends the audit.
func (v *verifier) fault(at Position, f Fault, format string, args ...any) {
	v.report.FirstBroken, v.report.Fault, v.report.Detail = &at, f, fmt.Sprintf(format, args...)
}

// link checks one link with its rows.
func (v *verifier) link(c *Commit, rows []RawRow) {
	if v.seeking {
		if v.seeking = c.First != *v.report.FirstBroken; !v.seeking {
			v.fault(c.First, Reordered, "the link stands behind later ones")
		}
		return
	}
	if !v.begun {
		v.begun, v.next = true, 1
		if v.After > 0 && c.N > 0 { // what is before is not looked at
			v.next, v.hash, v.vouched = c.First, c.Previous, c.First-1
			v.Heads = slices.DeleteFunc(v.Heads, func(h Head) bool { return h.Position < c.First })
		}
	}
	switch {
	case c.N == 0 && len(rows) > 0:
		v.fault(min(v.next, rows[0].Position), Missing, "the link of the row at %d is gone", rows[0].Position)
	case c.N < 1 || c.N > factsMax:
		v.fault(v.next, Tampered, "the link at %d says that it has %d facts", c.First, c.N)
	case c.First > v.next:
		v.fault(v.next, Missing, "the next link begins at %d", c.First)
		v.seeking = true
	case c.First < v.next:
		v.fault(c.First, Reordered, "the link stands behind later ones")
	case !v.rows(c, rows):
	case c.Previous != v.hash:
		v.fault(c.First, Tampered, "the link does not follow on the one before")
	case v.hasher.Commit(c.Previous, c.First, c.N, c.Bounds, v.hashes) == c.Hash:
		v.latest = max(v.latest, c.Latest)
		v.passed(c)
	case v.hasher.commit1(c.Previous, c.First, c.N, v.hashes) != c.Hash:
		v.fault(c.First, Tampered, "the hash of the link is not that of its rows and bounds")
	case !v.bounds(c, rows):
		v.fault(c.First, Tampered, "the times of the link are not those of its rows")
	default:
		v.passed(c)
	}
}

// rows checks the rows of a link and gathers their hashes.
func (v *verifier) rows(c *Commit, rows []RawRow) bool {
	v.hashes = v.hashes[:0]
	at, end := c.First, c.First+Position(c.N)
	for i := range rows {
		r := &rows[i]
		switch {
		case r.Position < at:
			v.fault(r.Position, Reordered, "the row stands behind later ones")
		case r.Position > at && slices.ContainsFunc(rows[i:], func(r RawRow) bool { return r.Position == at }):
			v.fault(at, Reordered, "the row stands behind later ones")
		case at == end:
			v.fault(at, Missing, "the link of the row is gone")
		case r.Position > at:
			v.fault(at, Missing, "the next row begins at %d", r.Position)
		case r.Archived && v.Removed != nil && !v.Removed(r.Position):
			v.fault(at, Missing, "the row is gone and no retention has removed it")
		case r.Archived && (r.N < 1 || r.N > factsMax):
			v.fault(at, Tampered, "the row says that it has %d facts", r.N)
		case r.Archived:
			v.report.Archived++
		default:
			v.row(r)
		}
		if v.report.Fault != "" {
			return false
		}
		v.hashes = append(v.hashes, r.Hash)
		at += Position(r.N)
		v.report.Rows++
	}
	if at != end {
		v.fault(min(at, end), Missing, "the link at %d has facts up to %d", c.First, end-1)
	}
	return v.report.Fault == ""
}

// row checks what is stored of one row against its hash.
func (v *verifier) row(r *RawRow) {
	switch sum := v.hasher.Row(r.Position, &r.Row); {
	case sum != r.Hash && !v.hurried && v.elsewhere(r):
		v.fault(r.Position, Reordered, "the row of stream %s was stored at another position", r.Stream)
	case sum != r.Hash:
		v.fault(r.Position, Tampered, "the row of stream %s is not what was hashed", r.Stream)
	case r.Lost != "":
		v.fault(r.Position, Tampered, "the row of stream %s is hidden from readers: %s", r.Stream, r.Lost)
	case r.N != int64(strings.Count(r.Types, " "))+1:
		v.fault(r.Position, Tampered, "the row of stream %s says that it has %d facts, its types are %q", r.Stream, r.N, r.Types)
	}
}

// bounds checks the times of a link whose hash does not cover them, as far as its rows are there to tell. That of all before
// it is taken from the first link that is seen. A low water can only be told to be too high.
func (v *verifier) bounds(c *Commit, rows []RawRow) bool {
	if c.Bounds == (Bounds{}) { // of an export
		return true
	}
	earliest, latest, all := int64(math.MaxInt64), v.latest, v.latest > 0 || c.First == 1
	for i := range rows {
		if rows[i].Archived {
			all = false
			continue
		}
		at := rows[i].At.UnixMicro()
		earliest, latest = min(earliest, at), max(latest, at)
	}
	v.latest = max(latest, c.Latest)
	if !all {
		return c.Earliest <= earliest && c.Latest >= latest
	}
	return c.Earliest == earliest && c.Latest == latest && c.LowWater <= c.First
}

// searched is how many positions on each side of a row its true place is looked for.
const searched = 1 << 19

// elsewhere says that a row is intact but for its position.
func (v *verifier) elsewhere(r *RawRow) bool {
	for d := Position(1); d <= searched; d++ {
		if v.hasher.Row(r.Position+d, &r.Row) == r.Hash || r.Position > d && v.hasher.Row(r.Position-d, &r.Row) == r.Hash {
			return true
		}
	}
	return false
}

// passed takes a link that holds, and compares the known heads that it reaches.
func (v *verifier) passed(c *Commit) {
	v.next, v.hash = c.First+Position(c.N), c.Hash
	for len(v.Heads) > 0 && v.Heads[0].Position < v.next {
		h := v.Heads[0]
		v.Heads = v.Heads[1:]
		if h.Position != v.next-1 || [32]byte(h.Hash) != c.Hash {
			v.fault(v.vouched+1, Tampered, "the chain holds by itself, and is another one than that of the known head at %d", h.Position)
			return
		}
		v.report.Heads++
		v.vouched = h.Position
	}
	v.report.Commits++
	v.report.Positions += Position(c.N)
	v.report.Head = Head{Position: v.next - 1, Hash: c.Hash}
}

// end looks for known heads that the chain has not reached.
func (v *verifier) end() {
	if n := len(v.Heads); n > 0 && v.report.Fault == "" {
		v.fault(max(v.next, v.After+1, 1), Truncated, "the chain ends before the known head at %d", v.Heads[n-1].Position)
	}
}
