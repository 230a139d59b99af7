package projections_test

import (
	"testing"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

var all = []projections.Projection{requestlog.Projection{}, billing.Projection{}, stats.Projection{}}

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
