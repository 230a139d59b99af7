// Command seed fills an empty event store with plausible requests, to measure replays and queries on: in a data folder
// (SQLite) or in a PostgreSQL database. The same flags make the same events.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

// run fills the store and says on out what it has stored.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var to traffic
	f := flag.NewFlagSet("seed", flag.ContinueOnError)
	data := f.String("data", "", "data folder of a gateway that does not run; its events.db is made")
	dsn := f.String("store", "", "postgres://… instead of a data folder")
	f.Int64Var(&to.facts, "events", 1_000_000, "at least so many facts; the last requests are brought to their end")
	f.Uint64Var(&to.seed, "seed", 1, "other numbers make other events")
	f.IntVar(&to.keys, "keys", 200, "API keys that the requests are made with")
	f.IntVar(&to.days, "days", 10, "how many days the events are spread over; the last one is 2026-03-31")
	replay := f.Bool("replay", false, "store nothing: fold what is there into a shadow of each projection, and say how long that takes")
	profile := f.String("cpuprofile", "", "with -replay: file for a profile of the processor")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return errors.Newf("unexpected argument %q", f.Arg(0))
	case (*data == "") == (*dsn == ""):
		return errors.New("say -data FOLDER or -store postgres://…")
	case to.facts < 1 || to.keys < 1 || to.days < 1:
		return errors.New("-events, -keys and -days must be at least 1")
	}
	store, err := open(ctx, *data, *dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.CombineErrors(err, store.Close()) }()
	if *replay {
		return profiled(*profile, func() error { return measure(ctx, out, store, *data, *dsn) })
	}
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	if head > 0 {
		return errors.Newf("the store is not empty: it holds events up to position %d", head)
	}
	begun := time.Now()
	stored, err := to.fill(ctx, store)
	if err != nil {
		return err
	}
	seconds := time.Since(begun).Seconds()
	_, err = fmt.Fprintf(out, "%d events of %d requests in %.1fs (%.0f events/s)\n", stored.facts, stored.requests, seconds, float64(stored.facts)/seconds)
	return err
}

// profiled runs f under a profile, when a file is named.
func profiled(file string, f func() error) (err error) {
	if file == "" {
		return f()
	}
	to, err := os.Create(file)
	if err != nil {
		return errors.Wrap(err, "cpuprofile")
	}
	defer func() { err = errors.CombineErrors(err, to.Close()) }()
	if err := pprof.StartCPUProfile(to); err != nil {
		return errors.Wrap(err, "cpuprofile")
	}
	defer pprof.StopCPUProfile()
	return f()
}

func open(ctx context.Context, data, dsn string) (events.Store, error) {
	if dsn != "" {
		s, err := postgres.OpenStore(ctx, dsn, postgres.StoreOptions{})
		if err != nil {
			return nil, err // not s: a nil pointer in the interface would not be nil
		}
		return s, nil
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, errors.Wrap(err, "data folder")
	}
	s, err := sqlite.OpenStore(filepath.Join(data, "events.db"), sqlite.StoreOptions{})
	if err != nil {
		return nil, err
	}
	return s, nil
}
