// Command mockllm is a simulated LLM upstream for gateway tests and benchmarks; see package simulator for what it
// speaks and for its control surface.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "mockllm:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	addr, procs, o, err := parse(args)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(procs)
	s := simulator.New(o)
	if err := s.Start(addr); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "mockllm on", s.Addr())
	<-ctx.Done()
	return s.Close()
}

// parse reads the flags. The behaviour flags make the default, over which -config and POST /config lay theirs.
func parse(args []string) (addr string, procs int, o simulator.Options, err error) {
	f := flag.NewFlagSet("mockllm", flag.ContinueOnError)
	f.StringVar(&addr, "addr", "127.0.0.1:18080", "listen address (loopback only)")
	f.IntVar(&procs, "procs", 1, "GOMAXPROCS")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of every random decision")
	f.BoolVar(&o.TrackRequests, "track-rid", false, "keep per-request records of [rid:...] markers (GET /rids) and the last request (GET /last)")
	conf := f.String("config", "", "JSON file with the same form as POST /config")
	b := simulator.Healthy()
	behaviorFlags(f, &b)
	if err := f.Parse(args); err != nil {
		return "", 0, o, err
	}
	if f.NArg() > 0 {
		return "", 0, o, errors.Newf("unexpected argument %q", f.Arg(0))
	}
	o.Config.Default, o.Base = b, b
	if *conf != "" {
		j, err := os.ReadFile(*conf)
		if err != nil {
			return "", 0, o, err
		}
		o.Config, err = simulator.ParseConfig(j, b)
		return addr, procs, o, errors.Wrap(err, *conf)
	}
	return addr, procs, o, nil
}

func behaviorFlags(f *flag.FlagSet, b *simulator.Behavior) {
	ms := func(p *float64, name, usage string) { f.Float64Var(p, name, *p, usage) }
	rate := ms
	count := func(p *int, name, usage string) { f.IntVar(p, name, *p, usage) }

	ms(&b.TTFBMs, "ttfb", "ms to the first byte")
	ms(&b.TTFBJitterMs, "ttfb-jitter", "uniform extra ms")
	count(&b.Chunks, "chunks", "content chunks per stream")
	ms(&b.ChunkMs, "chunk-delay", "ms between chunks")
	count(&b.ChunkBytes, "chunk-bytes", "content bytes per chunk")
	count(&b.FlushEvery, "flush-every", "events per write when there is no chunk delay")
	count(&b.RespBytes, "resp-bytes", "content bytes of a non-stream answer")
	f.StringVar(&b.Compress, "compress", "", "content encoding of answers: gzip, deflate, br or zstd")

	count(&b.PromptTokens, "prompt-tokens", "usage: input tokens, caches included (0 = body bytes/4)")
	count(&b.OutTokens, "out-tokens", "usage: output tokens, reasoning included (0 = derived)")
	count(&b.CachedTokens, "cached-tokens", "usage: input tokens read from a cache")
	count(&b.CacheWriteTokens, "cache-write-tokens", "usage: input tokens written to a cache")
	count(&b.CacheWrite1hTokens, "cache-write-1h-tokens", "usage: those of -cache-write-tokens kept for an hour")
	count(&b.ReasoningTokens, "reasoning-tokens", "usage: output tokens that were thought")
	count(&b.AudioInputTokens, "audio-input-tokens", "usage: input tokens of sound")
	count(&b.AudioOutputTokens, "audio-output-tokens", "usage: output tokens of sound")
	count(&b.ImageInputTokens, "image-input-tokens", "usage: input tokens of pictures")
	count(&b.ImageOutputTokens, "image-output-tokens", "usage: output tokens of pictures")
	count(&b.Images, "images", "usage: pictures that were made")
	count(&b.WebSearches, "web-searches", "usage: searches that the provider ran")
	count(&b.FileSearches, "file-searches", "usage: searches in stored files")
	f.StringVar(&b.ServiceTier, "service-tier", "", "usage: tier of service that answers report")
	f.BoolVar(&b.AlwaysUsage, "always-usage", false, "OpenAI streams always end with a usage chunk")

	rate(&b.ErrRate, "err-rate", "share of requests answered with -err-status")
	count(&b.ErrStatus, "err-status", "status of injected errors")
	f.StringVar(&b.ErrType, "err-type", "", "type of injected errors instead of the usual one")
	f.StringVar(&b.ErrBody, "err-body", "", "body of injected errors instead of the dialect's")
	f.StringVar(&b.ErrContentType, "err-content-type", "", "content type of injected errors (default application/json)")
	count(&b.RetryAfter, "retry-after", "Retry-After seconds on injected errors")
	rate(&b.ResetRate, "reset-rate", "share of requests reset")
	rate(&b.ResetAfterHeaders, "reset-after-headers", "share reset after the headers")
	rate(&b.HangRate, "hang-rate", "share that stays silent for -hang-ms before any byte, then is reset")
	ms(&b.HangMs, "hang-ms", "silence of a hang (0 = 60000)")
	rate(&b.WrongTypeRate, "wrong-type-rate", "share answered with 200 text/html")
	rate(&b.EmptyRate, "empty-rate", "share answered with 200 and no body")
	rate(&b.GarbageRate, "garbage-rate", "share answered with JSON that does not parse")
	rate(&b.OversizedRate, "oversized-rate", "share answered with one line that never ends")
	count(&b.OversizedBytes, "oversized-bytes", "its length (0 = 2 MiB)")
	rate(&b.NoContentRate, "nocontent-rate", "share of streams that end before any content")
	rate(&b.StallRate, "stall-rate", "share of requests that stall")
	ms(&b.StallMs, "stall-ms", "silence of a stall before the reset")
	rate(&b.TruncRate, "trunc-rate", "share of requests cut short")
	rate(&b.MidstreamErrRate, "midstream-error-rate", "share of streams with an error event after -fault-after chunks")
	rate(&b.FailedRate, "failed-rate", "share of responses that fail (response.failed)")
	count(&b.FaultAfter, "fault-after", "chunks before a stall, cut or error event")
}
