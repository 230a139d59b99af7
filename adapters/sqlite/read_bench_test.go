package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

// BenchmarkRunner measures what one settled request costs to project into SQLite with all projections, pushed as
// under load: 1250 requests per transaction, about what 5000 a second bring in one linger.
func BenchmarkRunner(b *testing.B) {
	const n, linger = 25000, 1250
	history, err := lawtest.History{Seed: 1, Requests: n, Plain: true, Parallel: 200, Step: 2 * time.Millisecond}.Appends()
	if err != nil {
		b.Fatal(err)
	}
	batches := lawtest.Commits(b, memory.NewStore(), history, 32)
	for b.Loop() {
		b.StopTimer()
		m := openRead(b, filepath.Join(b.TempDir(), "read.db"), everyProjection...)
		r := lawtest.Start(b, projections.Options{Store: memory.NewStore(), Model: m, Projections: everyProjection, Linger: time.Hour})
		b.StartTimer()
		ended := 0
		for _, batch := range batches {
			r.Push(batch)
			for _, c := range batch {
				if c.Terminal {
					ended++
				}
			}
			if ended >= linger {
				ended = 0
				if err := r.WaitFor(context.Background(), batch[len(batch)-1].Last()); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := r.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/request")
}

// BenchmarkVerify measures a replay with comparison.
func BenchmarkVerify(b *testing.B) {
	history, err := lawtest.History{Seed: 1, Requests: 20000, Plain: true, Parallel: 200}.Appends()
	if err != nil {
		b.Fatal(err)
	}
	store := events.Store(memory.NewStore())
	lawtest.Commits(b, store, history, 64)
	m := openRead(b, filepath.Join(b.TempDir(), "read.db"), everyProjection...)
	settle(b, store, m, everyProjection...)
	for b.Loop() {
		report, err := projections.Verify(context.Background(), store, m, requestlog.Projection{}, func() (projections.ReadModel, error) {
			return sqlite.OpenShadow(b.TempDir(), requestlog.Projection{})
		})
		if err != nil || !report.Equal {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(float64(report.EventsPerSecond), "events/s")
	}
}
