package projections_test

import (
	"slices"
	"testing"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

var all = []projections.Projection{requestlog.Projection{}, billing.Projection{}, stats.Projection{}, ledger.Projection{}}

// BenchmarkFold measures the three folds and the coalescing of one settled request, without any write.
func BenchmarkFold(b *testing.B) {
	const n = 1000
	history, err := lawtest.History{Seed: 1, Requests: n, Plain: true, Parallel: 50}.Appends()
	if err != nil {
		b.Fatal(err)
	}
	var out projections.Changes
	b.ReportAllocs()
	for b.Loop() {
		stories := map[string]*request.Story{}
		first := map[string]events.Position{}
		at := events.Position(1)
		out.Reset()
		for i := range history {
			row := &history[i].Rows[0]
			s := stories[row.Stream]
			if s == nil {
				s = &request.Story{ID: row.Request}
				stories[row.Stream], first[row.Stream] = s, at
			}
			for k, fact := range row.Facts {
				s.Evolve(fact, row.At)
				place := projections.Place{
					Position: at, First: first[row.Stream], More: k+1 < len(row.Facts), At: row.At, Stream: row.Stream,
				}
				for _, p := range all {
					p.Fold(s, fact, place, &out)
				}
				at++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/request")
}

func TestARowForLaterTellsOfTheLastFactBeforeItIsRead(t *testing.T) {
	table := &projections.Table{Name: "t", Key: 1, Columns: []projections.Column{
		{Name: "id", Kind: projections.KindInt}, {Name: "n", Kind: projections.KindInt},
	}}
	var out projections.Changes
	told, calls := int64(0), 0
	for i := range int64(3) {
		told = i
		for id := range int64(2) {
			out.PutLater(table, id, func(row []projections.Value) []projections.Value {
				calls++
				return append(row, projections.Int(id), projections.Int(told))
			})
		}
	}
	out.Put(table, projections.Int(1), projections.Int(7))
	for range 2 { // a commit may be tried again
		rows := [][2]int64{}
		for c := range out.All() {
			rows = append(rows, [2]int64{c.Values[0].Int(), c.Values[1].Int()})
		}
		if want := [][2]int64{{0, 2}, {1, 7}}; !slices.Equal(rows, want) {
			t.Errorf("rows %v, want %v", rows, want)
		}
	}
	if calls != 1 || out.Len() != 2 {
		t.Errorf("%d calls, %d rows", calls, out.Len())
	}
}
