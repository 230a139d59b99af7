package postgres_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

// BenchmarkRunner measures what one settled request costs to project into PostgreSQL with all projections, pushed as
// under load: 1250 requests per transaction, about what 5000 a second bring in one linger.
func BenchmarkRunner(b *testing.B) {
	const n, linger = 25000, 1250
	history, err := lawtest.History{Seed: 1, Requests: n, Plain: true, Parallel: 200, Step: 2 * time.Millisecond}.Appends()
	if err != nil {
		b.Fatal(err)
	}
	batches := lawtest.Commits(b, memory.NewStore(), history, 32)
	var client, backend time.Duration
	for b.Loop() {
		b.StopTimer()
		dsn := readDatabase(b)
		m := openRead(b, dsn, everyProjection...)
		r := lawtest.Start(b, projections.Options{Store: memory.NewStore(), Model: m, Projections: everyProjection, Linger: time.Hour})
		server := backends(b, dsn)
		beforeClient, beforeServer := processorTime("self"), processorTime(server...)
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
		b.StopTimer()
		client += processorTime("self") - beforeClient
		backend += processorTime(server...) - beforeServer
		b.StartTimer()
	}
	requests := float64(b.N) * n
	b.ReportMetric(float64(b.Elapsed().Microseconds())/requests, "µs/request")
	b.ReportMetric(float64(client.Microseconds())/requests, "client-cpu-µs/request")
	b.ReportMetric(float64(backend.Microseconds())/requests, "server-cpu-µs/request")
}

// backends are the processes that serve a read model.
func backends(b *testing.B, dsn string) []string {
	return lines(b, auditor(b, dsn), `SELECT pid::text FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
}

// processorTime is what processes have used, as Linux counts it, in hundredths of a second.
func processorTime(processes ...string) (sum time.Duration) {
	for _, pid := range processes {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue // it has ended, or this is no Linux
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		for _, field := range fields[11:13] { // user and system
			ticks, _ := strconv.Atoi(field)
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}

// BenchmarkVerify measures a replay with comparison.
func BenchmarkVerify(b *testing.B) {
	history, err := lawtest.History{Seed: 1, Requests: 20000, Plain: true, Parallel: 200}.Appends()
	if err != nil {
		b.Fatal(err)
	}
	store := memory.NewStore()
	lawtest.Commits(b, store, history, 64)
	dsn := readDatabase(b)
	m := openRead(b, dsn, everyProjection...)
	settle(b, store, m, everyProjection...)
	for b.Loop() {
		report, err := projections.Verify(context.Background(), store, m, requestlog.Projection{}, func() (projections.ReadModel, error) {
			return postgres.OpenShadow(context.Background(), dsn, requestlog.Projection{})
		})
		if err != nil || !report.Equal {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(float64(report.EventsPerSecond), "events/s")
	}
}
