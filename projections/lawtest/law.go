package lawtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// Subject is what the laws are held against: a kind of read model, over a kind of store. Each call opens a new empty
// one; what must be closed is registered with t.Cleanup, except shadows, which the replay closes.
type Subject struct {
	Projections []projections.Projection
	Store       func(t testing.TB) events.Store
	Model       func(t testing.TB) projections.ReadModel
	Shadow      func() (projections.ReadModel, error)
	// Reopen closes a model and opens it again, as a restart does; nil when it can not.
	Reopen func(t testing.TB, m projections.ReadModel) projections.ReadModel
	Seeds  int // histories to try (default 5)
}

// requests is the length of the histories of the laws.
const requests = 90

// Run checks all laws.
func Run(t *testing.T, s Subject) {
	if s.Seeds == 0 {
		s.Seeds = 5
	}
	rows := &law{Subject: s}
	t.Run("a commit of unknown fate may be repeated", rows.repeated)
	t.Run("changes of one row do what they say", rows.operations)
	t.Run("bounds move apart and never together", rows.widening)
	t.Run("cuts take away what they name", rows.cutting)
	t.Run("closed books", func(t *testing.T) { Closings(t, s) })
	for seed := range uint64(s.Seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			history, err := History{Seed: seed, Requests: requests, Unended: int(seed % 3), Repriced: true}.Appends()
			must(t, err)
			l := &law{Subject: s, rand: rand.New(rand.NewPCG(seed, 1)), store: s.Store(t)}
			l.batches = Commits(t, l.store, history, l.sizes()...)
			l.want = l.dumps(t, l.plain(t))
			t.Run("applied twice is applied once", l.twice)
			t.Run("any cut into batches gives the same rows", l.cuts)
			t.Run("a restart at any place gives the same rows", l.restarts)
			t.Run("rebuilt equals live", l.rebuilt)
			t.Run("rows that were set back are folded again", l.setBack)
			t.Run("a commit of unknown fate may be followed by another", l.unknownFate)
			t.Run("of two writers one stops", l.ousted)
			t.Run("an interrupted rebuild is gone on with", l.resumed)
			t.Run("a shadow that can not be gone on with is thrown away", l.unusable)
			t.Run("rows of another version are served until new ones take their place", l.superseded)
		})
	}
}

type law struct {
	Subject
	rand    *rand.Rand
	store   events.Store
	batches [][]*events.Committed
	want    map[string][]string
}

func (l *law) sizes() []int {
	sizes := make([]int, 40)
	for i := range sizes {
		sizes[i] = 1 + l.rand.IntN(9)
	}
	return sizes
}

func (l *law) options(m projections.ReadModel) projections.Options {
	return projections.Options{
		Store: l.store, Model: m, Projections: l.Projections, Linger: time.Hour, RowsMax: 1 + l.rand.IntN(200),
	}
}

// plain is a model to which everything was read from the store at once.
func (l *law) plain(t *testing.T) projections.ReadModel {
	m := l.Model(t)
	r := projections.NewRunner(l.options(m))
	must(t, r.Start(context.Background()))
	must(t, r.Stop(context.Background()))
	return m
}

func (l *law) dumps(t testing.TB, m projections.ReadModel) map[string][]string {
	t.Helper()
	head, err := l.store.Head(context.Background())
	must(t, err)
	found := map[string][]string{}
	for _, p := range l.Projections {
		rows, at := Dump(t, m, p)
		if at != head {
			t.Fatalf("%s is at %d, the store at %d", p.Name(), at, head)
		}
		if len(rows) == 0 {
			t.Fatalf("%s has no rows: the law would hold of nothing", p.Name())
		}
		found[p.Name()] = rows
	}
	return found
}

func (l *law) same(t testing.TB, m projections.ReadModel) {
	t.Helper()
	for name, have := range l.dumps(t, m) {
		want := l.want[name]
		if slices.Equal(have, want) {
			continue
		}
		for i := range max(len(have), len(want)) {
			if i >= len(have) || i >= len(want) || have[i] != want[i] {
				t.Fatalf("%s: %d rows, want %d; the first difference is row %d:\nhave %s\nwant %s",
					name, len(have), len(want), i, at(have, i), at(want, i))
			}
		}
	}
}

func at(rows []string, i int) string {
	if i < len(rows) {
		return rows[i]
	}
	return "nothing"
}

func (l *law) twice(t *testing.T) {
	m := l.plain(t)
	r := Start(t, l.options(m))
	for _, b := range l.batches {
		r.Push(b)
	}
	must(t, r.Flush(context.Background()))
	l.same(t, m)
}

func (l *law) cuts(t *testing.T) {
	for range 2 {
		m := l.Model(t)
		o := l.options(m)
		o.Store = upTo(l.store, 0) // what is pushed can not be had from the store
		r := Start(t, o)
		for _, b := range l.batches {
			for len(b) > 0 {
				n := 1 + l.rand.IntN(len(b))
				r.Push(b[:n])
				if l.rand.IntN(4) == 0 {
					must(t, r.WaitFor(context.Background(), b[n-1].Last()))
				}
				b = b[n:]
			}
		}
		must(t, r.Flush(context.Background()))
		l.same(t, m)
	}
}

func (l *law) restarts(t *testing.T) {
	m := l.Model(t)
	for i := 0; i < len(l.batches); {
		o := l.options(m)
		until := events.Position(0)
		if i > 0 {
			last := l.batches[i-1]
			until = last[len(last)-1].Last()
		}
		o.Store = upTo(l.store, until)
		r := projections.NewRunner(o)
		must(t, r.Start(context.Background()))
		for n := 1 + l.rand.IntN(12); n > 0 && i < len(l.batches); n-- {
			r.Push(l.batches[i])
			i++
		}
		must(t, r.Stop(context.Background()))
		if l.Reopen != nil {
			m = l.Reopen(t, m)
		}
	}
	l.same(t, m)
}

func (l *law) rebuilt(t *testing.T) {
	m := l.plain(t)
	for _, p := range l.Projections {
		report, err := projections.Verify(context.Background(), l.store, m, p, l.Shadow)
		must(t, err)
		if !report.Equal || report.DifferingRows != 0 || report.Rows != int64(len(l.want[p.Name()])) {
			t.Errorf("verify %s: %+v", p.Name(), report)
		}
		must(t, m.Reset(context.Background(), p))
		report, err = projections.Rebuild(context.Background(), l.store, m, p, l.Shadow)
		must(t, err)
		if report.Rows != int64(len(l.want[p.Name()])) || report.Events == 0 {
			t.Errorf("rebuild %s: %+v", p.Name(), report)
		}
	}
	l.same(t, m)
}

// sample is a row of a table with a number in each of its numbers.
func sample(t *projections.Table, n int64) []projections.Value {
	row := make([]projections.Value, len(t.Columns))
	for i, c := range t.Columns {
		switch {
		case !c.Number():
			row[i] = projections.Text("{}")
		case i < t.Key:
			row[i] = projections.Int(7)
		default:
			row[i] = projections.Int(n)
		}
	}
	return row
}

// operations changes one row in one commit and in two, which must come to the same.
func (l *law) operations(t *testing.T) {
	ctx := context.Background()
	p := l.Projections[0]
	table := p.Tables()[0]
	number := slices.IndexFunc(table.Columns[table.Key:], projections.Column.Number) + table.Key
	for _, c := range []struct {
		name   string
		first  projections.Op
		second projections.Op
		want   int64
	}{
		{"the last put wins", projections.Put, projections.Put, 20},
		{"the first append stays", projections.Append, projections.Append, 1},
		{"an append leaves what was put", projections.Put, projections.Append, 1},
		{"a put replaces what was appended", projections.Append, projections.Put, 20},
		{"additions are summed", projections.Add, projections.Add, 21},
	} {
		change := map[projections.Op]func(*projections.Changes, *projections.Table, ...projections.Value){
			projections.Put: (*projections.Changes).Put, projections.Append: (*projections.Changes).Append, projections.Add: (*projections.Changes).Add,
		}
		for _, cut := range []bool{false, true} {
			m := l.Model(t)
			var changes projections.Changes
			step := projections.Step{Projection: p.Name(), Version: p.Version(), From: 0, To: 1}
			change[c.first](&changes, table, sample(table, 1)...)
			if cut {
				must(t, m.Commit(ctx, &changes, []projections.Step{step}))
				changes.Reset()
				step.From, step.To = 1, 2
			}
			change[c.second](&changes, table, sample(table, 20)...)
			must(t, m.Commit(ctx, &changes, []projections.Step{step}))
			s, err := m.Snapshot(ctx)
			must(t, err)
			rows, err := s.Scan(ctx, table)
			must(t, err)
			row, _ := rows.Next()
			if len(row) == 0 || row[number].Int() != c.want {
				t.Errorf("%s (in two commits: %v): have %v, want %d", c.name, cut, row, c.want)
			}
			must(t, rows.Close())
			must(t, s.Close())
		}
	}
}

// widening moves bounds in one commit and in several, in every order, which must come to the same.
func (l *law) widening(t *testing.T) {
	ctx := context.Background()
	p, table, dice := requestlog.Projection{}, requestlog.Spans, rand.New(rand.NewPCG(4, 4))
	bounds := [][]int64{{5, 9, -3, -3}, {4, 4, -9, 7}, {6, 8, 0, 0}, {math.MinInt64, 1, 2, math.MaxInt64}}
	want := "[7 7 " + fmt.Sprint(math.MinInt64) + " 9 -9 " + fmt.Sprint(math.MaxInt64) + "]"
	for range 6 {
		m := l.Model(t)
		var changes projections.Changes
		step := projections.Step{Projection: p.Name(), Version: p.Version(), To: 1}
		for i, at := range dice.Perm(len(bounds)) {
			row := sample(table, 0)
			for k := range row[table.Key:] {
				row[table.Key+k] = projections.Int(bounds[at][k])
			}
			changes.Widen(table, row...)
			if i+1 < len(bounds) && dice.IntN(2) == 0 {
				continue
			}
			must(t, m.Commit(ctx, &changes, []projections.Step{step}))
			changes.Reset()
			step.From, step.To = step.To, step.To+1
		}
		if have := rowsOf(t, m, table); len(have) != 1 || have[0] != want {
			t.Errorf("have %v, want %s", have, want)
		}
	}
}

// repeated commits the same changes again, as after a lost answer, and then changes that do not follow.
func (l *law) repeated(t *testing.T) {
	ctx := context.Background()
	p := l.Projections[0]
	table := p.Tables()[0]
	var changes projections.Changes
	changes.Add(table, sample(table, 3)...)
	m := l.Model(t)
	step := projections.Step{Projection: p.Name(), Version: p.Version(), From: 0, To: 3}
	must(t, m.Commit(ctx, &changes, []projections.Step{step}))
	once, _ := Dump(t, m, p)
	must(t, m.Commit(ctx, &changes, []projections.Step{step}))
	if twice, at := Dump(t, m, p); at != 3 || len(once) != 1 || !slices.Equal(once, twice) {
		t.Errorf("after the repetition at %d: %v, want 3: %v", at, twice, once)
	}
	step.From, step.To = 1, 5
	if err := m.Commit(ctx, &changes, []projections.Step{step}); !errors.Is(err, projections.ErrCheckpoint) {
		t.Errorf("a step from elsewhere: %v, want ErrCheckpoint", err)
	}
	if after, at := Dump(t, m, p); at != 3 || !slices.Equal(once, after) {
		t.Errorf("a refused commit has changed rows: %v", after)
	}
}
