// Command fastproxy is a bare fasthttp reverse proxy: it swaps the credential and passes bytes, nothing else. It is
// the baseline of the benchmarks, the physical limit of a gateway built on fasthttp.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/cockroachdb/errors"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "fastproxy:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("fastproxy", flag.ContinueOnError)
	addr := f.String("addr", "127.0.0.1:18102", "listen address")
	up := f.String("up", "127.0.0.1:18080", "upstream host:port")
	key := f.String("key", "sk-upstream", "credential sent upstream")
	procs := f.Int("procs", 0, "GOMAXPROCS (0 = all)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return errors.Newf("unexpected argument %q", f.Arg(0))
	}
	if _, _, err := net.SplitHostPort(*up); err != nil {
		return errors.Wrapf(err, "upstream %q", *up)
	}
	runtime.GOMAXPROCS(*procs)
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return errors.Wrapf(err, "address %q", *addr)
	}
	fmt.Fprintln(os.Stderr, "fastproxy on", ln.Addr(), "to", *up)
	return newProxy(*up, *key).serve(ctx, ln)
}
