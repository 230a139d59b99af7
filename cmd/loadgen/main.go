// Command loadgen loads an LLM gateway over loopback and prints what it measured as one JSON line; see package load.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/cmd/loadgen/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}

// run sends the load and writes the result to out. Failed requests are part of the result, not an error.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, procs, err := parse(args)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(procs)
	res, err := load.Run(ctx, o)
	if err != nil {
		return err
	}
	j, err := json.Marshal(res)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(j))
	return err
}

func parse(args []string) (o load.Options, procs int, err error) {
	f := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	f.StringVar(&o.URL, "url", "http://127.0.0.1:18080", "base URL (http, loopback)")
	f.StringVar(&o.Path, "path", "", "request path (default: that of -api)")
	f.StringVar(&o.API, "api", "openai", "openai | responses | anthropic | gemini")
	f.StringVar(&o.Model, "model", "mock-model", "model name")
	keys := f.String("keys", "sk-test", "API keys, comma-separated, used round-robin over connections")
	f.BoolVar(&o.Stream, "stream", false, "ask for an SSE stream")
	f.IntVar(&o.ReqBytes, "req-bytes", 1024, "request body size")
	bodyFile := f.String("body", "", "file with the request body instead of a generated one")
	f.BoolVar(&o.RID, "rid", false, "put a unique [rid:...] into each prompt (see mockllm -track-rid)")
	f.StringVar(&o.RIDPrefix, "rid-prefix", "r", "prefix of the rid")
	f.IntVar(&o.Connections, "c", 16, "connections (open loop: the most at once)")
	f.Float64Var(&o.Rate, "rate", 0, "open loop: requests per second, all connections together")
	f.BoolVar(&o.Poisson, "poisson", false, "open loop: exponential gaps instead of constant ones")
	f.DurationVar(&o.Duration, "d", 5*time.Second, "measured time")
	f.DurationVar(&o.Warmup, "warmup", time.Second, "time before it, not measured")
	f.Int64Var(&o.Total, "n", 0, "stop after this many requests (no warm-up, overrides -d)")
	f.Float64Var(&o.AbortRate, "abort-rate", 0, "share of requests the client abandons")
	f.IntVar(&o.AbortAfterEvents, "abort-after-events", -1, "abandon after this many SSE events (0 = at the headers)")
	abortMs := f.Float64("abort-after-ms", 0, "abandon this long after sending (before or during the answer)")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "per-request timeout (coarse)")
	f.DurationVar(&o.Ramp, "ramp", 0, "spread the connection starts over this time")
	f.IntVar(&procs, "procs", 1, "GOMAXPROCS")
	f.Uint64Var(&o.Seed, "seed", 1, "random seed")
	f.StringVar(&o.Label, "label", "", "free text copied to the output")
	f.StringVar(&o.Expect, "expect", "", "a 200 answer without this substring counts as bad_body")
	f.BoolVar(&o.NewConnections, "no-keepalive", false, "a new connection per request")
	f.Func("H", "extra header 'Name: value' (repeatable)", func(s string) error { o.Headers = append(o.Headers, s); return nil })
	f.Func("proc", "NAME=PID to account (repeatable)", func(s string) error {
		name, text, _ := strings.Cut(s, "=")
		pid, err := strconv.Atoi(text)
		o.Processes = append(o.Processes, load.Process{Name: name, PID: pid})
		return err
	})
	if err := f.Parse(args); err != nil {
		return o, 0, err
	}
	if f.NArg() > 0 {
		return o, 0, errors.Newf("unexpected argument %q", f.Arg(0))
	}
	o.Keys = strings.Split(*keys, ",")
	o.AbortAfter = time.Duration(*abortMs * float64(time.Millisecond))
	if *bodyFile != "" {
		if o.Body, err = os.ReadFile(*bodyFile); err != nil {
			return o, 0, err
		}
	}
	return o, procs, nil
}
