package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// measure folds all events into a shadow of each projection and prints what that took.
func measure(ctx context.Context, out io.Writer, store events.Store, data, dsn string) error {
	list := []projections.Projection{billing.Projection{}, stats.Projection{}, ledger.Projection{}, requestlog.Projection{}, requestlog.Marker{}}
	for _, p := range list {
		if err := measureOne(ctx, out, store, p, data, dsn); err != nil {
			return err
		}
	}
	return nil
}

func measureOne(ctx context.Context, out io.Writer, store events.Store, p projections.Projection, data, dsn string) (err error) {
	shadow, err := openShadow(ctx, p, data, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.CombineErrors(err, shadow.Close()) }()
	runtime.GC()
	peak := watchHeap()
	before := processorTime()
	report, err := projections.Fold(ctx, store, p, shadow, 0)
	if err != nil {
		return err
	}
	used := processorTime() - before
	_, err = fmt.Fprintf(out, "%-10s %8d events %6.2fs %8d events/s, %.2f µs of processor per event, heap at most %d MiB\n",
		p.Name(), report.Events, report.Seconds, report.EventsPerSecond,
		float64(used.Nanoseconds())/1000/float64(report.Events), peak()>>20)
	return err
}

func openShadow(ctx context.Context, p projections.Projection, data, dsn string) (projections.ReadModel, error) {
	if dsn != "" {
		return postgres.OpenShadow(ctx, dsn, p)
	}
	return sqlite.OpenShadow(data, p)
}

// processorTime is what this process has used, user and system. A database server's is not in it.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, "seed: processor time:", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// watchHeap looks at the heap until the function that it returns is called, which says how large it was.
func watchHeap() func() uint64 {
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most.Load()
	}
}
