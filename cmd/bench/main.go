// Command bench measures the gateway against a bare proxy and against no proxy at all, and prints the ratios.
//
// It builds mockllm and fastproxy, starts them and a gateway (this program once more, with -serve) as processes of
// their own, so that the kernel accounts their CPU apart, configures the gateway over its admin API, and sends the
// load itself. Rounds are interleaved, one target after the other at each point and every other round backwards, so
// that what else the machine does falls on all alike. While it goes a table grows on standard error; in the end one
// line of JSON goes to standard output (Report says what is in it). It exits with 1 if any request failed.
//
// With -store postgres the gateway keeps its events in a private PostgreSQL server, which the benchmark makes, starts and
// removes; with -store both there are two gateways. The server's CPU is not counted as the gateway's, but as that of others.
//
// Rates and times depend on the machine and its other load; believe the ratios, and among them those of CPU most.
// Where others share the cores, run it with nice -n -10: its processes inherit that.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	rounds     int
	seconds    float64 // of one measurement
	durability string
	store      string // sqlite, postgres or both; of a gateway's process "" for SQLite, or the address of a database
	points     []point
	profile    string // file; "" = none
	at         point  // where it is taken
	serve      string // data folder of the gateway that this process shall be; "" = it is the benchmark
}

const (
	roundsMax  = 1000
	secondsMax = 3600
)

func parse(args []string) (s settings, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&s.rounds, "rounds", 2, "times that everything is measured; figures are medians over them")
	f.Float64Var(&s.seconds, "seconds", 3, "length of each measurement, after a quarter of it as warm-up")
	f.StringVar(&s.durability, "durability", "dispatched", "of the gateway: settled, dispatched, overlapped or relaxed")
	f.StringVar(&s.store, "store", "sqlite", "of the gateway: sqlite, postgres (a private server is started) or both, in gateways of their own")
	only := f.String("points", "", "`points` to be measured, with commas between them; default "+pointNames())
	f.StringVar(&s.profile, "profile", "", "`file` for a CPU profile of the gateway, taken in one more pass (with the first store) that is not part of the figures")
	at := f.String("profile-at", "c64", "`point` of that pass: "+pointNames())
	f.StringVar(&s.serve, "serve", "", "for bench itself: be the gateway over this data `folder`, told what to do on standard input")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	var ok bool
	if s.points, ok = pointsNamed(*only); !ok {
		return s, errors.Newf("points: %q names others than %s", *only, pointNames())
	}
	s.at, ok = pointNamed(*at)
	switch {
	case f.NArg() > 0:
		return s, errors.Newf("unexpected argument %q", f.Arg(0))
	case s.rounds < 1 || s.rounds > roundsMax:
		return s, errors.Newf("rounds: %d is not within 1..%d", s.rounds, roundsMax)
	case !(s.seconds >= 0.1 && s.seconds <= secondsMax):
		return s, errors.Newf("seconds: %g is not within 0.1..%d", s.seconds, secondsMax)
	case s.serve == "" && stores[s.store] == nil:
		return s, errors.Newf("store: %q is none of sqlite, postgres, both", s.store)
	case !ok:
		return s, errors.Newf("profile-at: %q is none of %s", *at, pointNames())
	}
	return s, nil
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if s.serve != "" {
		return serve(ctx, s, os.Stdin, os.Stdout)
	}
	return bench(ctx, s, os.Stdout, os.Stderr)
}

// bench measures, writes the table to progress and the report to out. The error is that nothing could be measured,
// or that requests failed; in the latter case the report has been written.
func bench(ctx context.Context, s settings, out, progress io.Writer) (err error) {
	if s.profile != "" { // better now than after minutes
		f, err := os.Create(s.profile)
		if err != nil {
			return errors.Wrap(err, "profile")
		}
		f.Close()
	}
	cpus := runtime.NumCPU()
	// The load generator is this process, and one core of it must do.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))

	started := time.Now()
	l, err := openLab(ctx, s, progress)
	if l != nil {
		defer func() { err = errors.CombineErrors(err, l.close()) }()
	}
	if err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(progress, "ready after %.0f s; %d rounds of %d measurements of %g s each, durability %s\n\n",
		time.Since(started).Seconds(), s.rounds, len(s.points)*len(l.targets), s.seconds, s.durability)
	runs, err := l.rounds(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	if s.profile != "" {
		if err := l.profile(ctx); err != nil {
			return interrupted(ctx, err)
		}
	}
	r := newReport(runs)
	r.Go, r.CPUs, r.Rounds, r.Seconds, r.Durability = runtime.Version(), cpus, s.rounds, s.seconds, s.durability
	r.table(progress)
	line, err := json.Marshal(r)
	if err != nil {
		return errors.Wrap(err, "report")
	}
	if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
		return errors.Wrap(err, "report")
	}
	return r.failure()
}

// interrupted tells an end that was asked for from one that was not.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
