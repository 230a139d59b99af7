package requestlog_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// log is a read model of lines in lists.
type log struct {
	q     *requestlog.Query
	lines [][]projections.Value
	spans [][]projections.Value // block, minute, low, high
	reads int                   // of lines
}

func (l *log) Marked() (bool, error) { return false, nil }

func (l *log) Having([]requestlog.Mark, int) ([]int64, error) { return nil, nil }

func (l *log) Spans(_ requestlog.Sought, behind requestlog.Span, from, to int64, n int) (list []requestlog.Span, err error) {
	newest := func(a, b requestlog.Span) int {
		return cmp.Or(cmp.Compare(b.High, a.High), cmp.Compare(b.Block, a.Block), cmp.Compare(b.Minute, a.Minute))
	}
	for _, row := range l.spans {
		s := requestlog.Span{Block: row[0].Int(), Minute: row[1].Int(), High: row[3].Int()}
		if s.High >= from && row[2].Int() <= to && newest(behind, s) < 0 {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, newest)
	return list[:min(n, len(list))], nil
}

func (l *log) Newest(blocks []int64, yield func([]projections.Value) error) error {
	rows := l.newest(func(row []projections.Value) bool { return slices.Contains(blocks, row[0].Int()/requestlog.MarkSize) })
	l.reads += len(blocks)
	for _, row := range rows {
		if err := yield(row); err != nil {
			return err
		}
	}
	return nil
}

// newest are the lines of a page over some of them.
func (l *log) newest(in func([]projections.Value) bool) (rows [][]projections.Value) {
	at := func(row []projections.Value) (us, position int64) { return row[2].Int(), row[0].Int() }
	compare := func(a, b []projections.Value) int {
		x, i := at(a)
		y, k := at(b)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(k, i))
	}
	before := l.q.Before
	for _, row := range l.lines {
		us, _ := at(row)
		older := before.IsZero() || compare([]projections.Value{projections.Int(int64(before.Position)), {}, projections.Micros(before.At)}, row) < 0
		since := l.q.Since.IsZero() || !time.UnixMicro(us).Before(l.q.Since)
		until := l.q.Until.IsZero() || time.UnixMicro(us).Before(l.q.Until)
		if in(row) && older && since && until {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, compare)
	return rows[:min(l.q.Limit, len(rows))]
}

// scattered is a log whose lines have few times, mostly in the order of their positions.
func scattered(dice *rand.Rand, lines int) *log {
	var out projections.Changes
	l := &log{}
	position := events.Position(1000)
	for i := range lines {
		position += events.Position(1 + dice.IntN(90))
		at := noon.Truncate(time.Minute).Add(time.Duration(i/9) * 15 * time.Second)
		switch dice.IntN(12) {
		case 0, 1, 2:
			at = at.Add(-15 * time.Second)
		case 3:
			at = at.Add(time.Duration(dice.IntN(4000)-2000) * 15 * time.Second)
		}
		story := request.Story{ID: fmt.Sprint(i)}
		story.Evolve(admitted, at)
		requestlog.Projection{}.Fold(&story, admitted, projections.Place{Position: position, First: position, At: at}, &out)
	}
	for c := range out.All() {
		if c.Table == requestlog.Spans {
			l.spans = append(l.spans, slices.Clone(c.Values))
		} else {
			l.lines = append(l.lines, slices.Clone(c.Values))
		}
	}
	return l
}

func TestAPageHasTheNewestLinesInWhateverOrderTheyCame(t *testing.T) {
	for seed := range uint64(120) {
		dice := rand.New(rand.NewPCG(seed, 1))
		l := scattered(dice, 20+dice.IntN(600))
		when := func() time.Time { return time.UnixMicro(l.lines[dice.IntN(len(l.lines))][2].Int()).UTC() }
		q := requestlog.Query{Limit: 1 + dice.IntN(30)}
		if dice.IntN(3) == 0 {
			q.Until = when().Add(time.Nanosecond)
		}
		if dice.IntN(3) == 0 {
			if q.Since = when(); !q.Until.IsZero() && !q.Since.Before(q.Until) {
				q.Since = time.Time{}
			}
		}
		for more := true; more; {
			l.q = &q
			want := l.newest(func([]projections.Value) bool { return true })
			have, err := requestlog.Page(&q, l)
			if err != nil || len(have) != len(want) {
				t.Fatalf("seed %d, %+v: %d lines, want %d, %v", seed, q, len(have), len(want), err)
			}
			for i := range have {
				if int64(have[i].Position) != want[i][0].Int() {
					t.Fatalf("seed %d, %+v: line %d is %d, want %v", seed, q, i, have[i].Position, want[i][0])
				}
			}
			if more = len(have) == q.Limit; more {
				q.Before = have[len(have)-1].Cursor()
			}
		}
	}
}

func TestAPageLooksAtFewBlocksHoweverDeepItIs(t *testing.T) {
	l := scattered(rand.New(rand.NewPCG(1, 1)), 6000)
	l.q = &requestlog.Query{Limit: 20}
	for range 50 {
		l.reads = 0
		page, err := requestlog.Page(l.q, l)
		if err != nil || len(page) != 20 {
			t.Fatalf("%d lines, %v", len(page), err)
		}
		if l.reads > 60 { // of some 1,000
			t.Errorf("%d blocks for the page before %+v", l.reads, l.q.Before)
		}
		l.q.Before = page[len(page)-1].Cursor()
	}
}

func TestTheNumberOfAnIdRisesWithItsTime(t *testing.T) {
	rising := []string{
		"00000000-0000-7000-8000-000000000000", "019ed8f0-0000-7000-8000-ffffffffffff", "019ed8f0-0000-7fff-8000-000000000000",
		"019ed8f0-0001-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff",
	}
	for i, id := range rising[1:] {
		if a, b := requestlog.NumberOf(rising[i]), requestlog.NumberOf(id); a >= b || a < 0 {
			t.Errorf("%s is %d, %s is %d", rising[i], a, id, b)
		}
	}
	for _, odd := range []string{"", "req-1", "019ed8f0", "019ED8F0-0000-7000-8000-000000000000", "ünï", "019ed8f0-0000-700"} {
		if n := requestlog.NumberOf(odd); n < 0 || n != requestlog.NumberOf(odd) {
			t.Errorf("%q is %d", odd, n)
		}
	}
}
