package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
)

// cpu is what the process has used of the processors, user and system. Unlike the wall it says the same on a machine
// that does other work, too.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppendCPU measures what a usual row costs the processors, commit and checkpoints included.
func BenchmarkAppendCPU(b *testing.B) {
	const commits = 600
	for _, size := range []int{8, 32} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				s := openStore(b, filepath.Join(b.TempDir(), "events.db"), sqlite.StoreOptions{})
				var w traffic
				for range 20 {
					if _, err := s.Append(context.Background(), w.batch(b, size), 1); err != nil {
						b.Fatal(err)
					}
				}
				batches := make([][]events.Append, commits)
				for i := range batches {
					batches[i] = w.batch(b, size)
				}
				b.StartTimer()
				before := cpu()
				for _, batch := range batches {
					results, err := s.Append(context.Background(), batch, 1)
					if err != nil || results[0].Err != nil {
						b.Fatal(err, results[0].Err)
					}
				}
				used += cpu() - before
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*commits*size), "cpu-ns/row")
		})
	}
}

// BenchmarkRunnerCPU measures what one settled request costs the processors in all projections, folded and written to
// SQLite 2,000 requests at a time; and folded only.
func BenchmarkRunnerCPU(b *testing.B) {
	const n, linger = 20000, 2000
	history, err := lawtest.History{Seed: 1, Requests: n, Plain: true, Parallel: 200, Step: 2 * time.Millisecond}.Appends()
	if err != nil {
		b.Fatal(err)
	}
	batches := lawtest.Commits(b, memory.NewStore(), history, 32)
	run := func(b *testing.B, open func() projections.ReadModel) {
		b.ReportAllocs()
		var used time.Duration
		for b.Loop() {
			b.StopTimer()
			r := lawtest.Start(b, projections.Options{Store: memory.NewStore(), Model: open(), Projections: markedProjections, Linger: time.Hour})
			b.StartTimer()
			before := cpu()
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
			used += cpu() - before
		}
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*n), "cpu-ns/request")
	}
	b.Run("written", func(b *testing.B) {
		run(b, func() projections.ReadModel {
			return openRead(b, filepath.Join(b.TempDir(), "read.db"), markedProjections...)
		})
	})
	b.Run("folded", func(b *testing.B) { run(b, func() projections.ReadModel { return swallow{} }) })
}

// swallow is a read model that keeps nothing.
type swallow struct{ projections.ReadModel }

func (swallow) Commit(context.Context, *projections.Changes, []projections.Step) error { return nil }
func (swallow) Checkpoints(context.Context) ([]projections.Checkpoint, error)          { return nil, nil }
func (swallow) Close() error                                                           { return nil }

// BenchmarkJournalCPU measures the two appends of a usual request at 64 connections: the first is waited for, the last
// is not.
func BenchmarkJournalCPU(b *testing.B) {
	const callers, each = 64, 100
	for what, linger := range map[string]time.Duration{"linger": 0, "at once": -1} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			var used time.Duration
			var commits int64
			for b.Loop() {
				b.StopTimer()
				s := openStore(b, filepath.Join(b.TempDir(), "events.db"), sqlite.StoreOptions{})
				j := events.NewJournal(events.JournalOptions{Store: s, Linger: linger})
				var w traffic
				var begins, ends []events.Append
				for len(ends) < callers*each {
					for _, a := range w.batch(b, 256) {
						if a.Rows[0].Terminal {
							ends = append(ends, a)
						} else {
							begins = append(begins, a)
						}
					}
				}
				b.StartTimer()
				before := cpu()
				var all sync.WaitGroup
				for c := range callers {
					all.Go(func() {
						for i := c; i < callers*each; i += callers {
							if err := j.Commit(begins[i], events.May); err != nil {
								b.Error(err)
							}
							time.Sleep(2 * time.Millisecond) // what the upstream takes
							j.Put(ends[i], events.Must)
							time.Sleep(500 * time.Microsecond) // until the client asks again
						}
					})
				}
				all.Wait()
				if err := j.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				used += cpu() - before
				commits += j.Stats().Commits
			}
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*callers*each), "cpu-ns/request")
			b.ReportMetric(float64(2*b.N*callers*each)/float64(commits), "rows/commit")
		})
	}
}
