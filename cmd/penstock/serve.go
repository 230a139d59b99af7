package main

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/outbound"
	"github.com/penstock/penstock/adapters/telemetry"
	"github.com/penstock/penstock/cmd/penstock/cli"
	"github.com/penstock/penstock/domain/catalog"
)

// gcPercent lets the heap grow to five times what lives between collections, unless GOGC says otherwise: a gateway's
// heap is small, and collecting it at every doubling costs an eighth of the CPU under load.
const gcPercent = 400

// serve runs a gateway until SIGTERM or SIGINT: then it admits nothing more, lets requests finish, settles them and
// returns nil. A second signal ends the process at once.
func serve(ctx context.Context, s cli.Settings) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log, err := telemetry.NewLogger(os.Stderr, s.LogFormat, s.LogLevel)
	if err != nil {
		return err
	}
	body, err := bodyMax(os.Getenv)
	if err != nil {
		return cli.Usage(err)
	}
	spool, err := spoolMax(s.SpoolMax)
	if err != nil {
		return cli.Usage(err)
	}
	egress, err := outbound.EnvironmentEgress()
	if err != nil {
		return cli.Usage(err)
	}
	start, err := newBootstrap(os.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // from the first signal on, a second one does what it does to any process
	forget := func() {}
	defer func() { forget() }()
	gateway, err := penstock.OpenContext(ctx, penstock.Config{
		DataDir: s.Data, Listen: s.Listen, AdminListen: s.AdminListen, AdminToken: s.AdminToken, SecretKey: s.SecretKey,
		Store: s.Store, Durability: s.Durability, Profile: s.Profile, Version: versionOf(version), BodyMax: body,
		OnStoreDown: s.OnStoreDown, SpoolMax: spool, Logger: log, Bootstrap: start.wishes, Egress: egress,
		Ready: func(g *penstock.Gateway) { forget = announce(log, s.Data, g) },
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		log.Info("stopped before it was ready", "remedy", "the next start goes on from here")
		return nil
	}
	if err != nil {
		return explained(err)
	}
	start.report(log)
	offerPrices(log, gateway.Priced())
	if !loopback(gateway.AdminAddr()) {
		log.Warn("other machines can reach the admin API, which speaks plain HTTP", "admin", gateway.AdminAddr())
	}

	var failed error
	select {
	case <-ctx.Done():
		log.Info("stopping", "at_most", penstock.DrainTime.String())
	case failed = <-gateway.Failed():
	}
	stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), penstock.DrainTime)
	defer cancel()
	if err := errors.CombineErrors(failed, gateway.Close(drain)); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// announce lets commands find the gateway, until it is forgotten. Whoever reads that it is ready may call them at once.
func announce(log *slog.Logger, folder string, g *penstock.Gateway) (forget func()) {
	forget, err := cli.Announce(folder, g.AdminAddr(), g.Instance())
	if err != nil {
		log.Warn("commands must be told where the admin API is", "err", err)
		return func() {}
	}
	return forget
}

// offerPrices says how to get prices where there are none. They are not taken unasked: what a caller is charged is for the
// operator to say.
func offerPrices(log *slog.Logger, priced bool) {
	if !priced {
		log.Info("there are no prices: usage is recorded as unpriced, at no cost", "remedy", "penstock prices import --starter")
	}
}

// loopback says that only this machine reaches an address.
func loopback(address string) bool {
	from, err := netip.ParseAddrPort(address)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// explained says what to do about an error of starting, where that is known.
func explained(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.WithHint(err, "choose other addresses with PENSTOCK_LISTEN and PENSTOCK_ADMIN_LISTEN, or stop the program that listens there")
	case errors.Is(err, penstock.ErrLocked):
		return errors.WithHint(err, "choose another data folder with PENSTOCK_DATA, or stop that gateway")
	}
	var listening *net.OpError
	var address *net.AddrError
	if errors.As(err, &listening) && listening.Op == "listen" && errors.As(listening.Err, &address) {
		return cli.Usage(errors.WithHint(err, "an address to listen on is HOST:PORT, such as 127.0.0.1:8080, or :8080 for all of this machine's"))
	}
	var unopened *actors.UnopenedError
	if errors.As(err, &unopened) {
		return errors.WithHint(err, "set PENSTOCK_SECRET_KEY, or the key file in the data folder, to the key that was in use")
	}
	return err
}

// bodyMax reads ABV_MAX_BODY_SIZE, bytes of a request's body; 0 is the default.
func bodyMax(getenv func(string) string) (int, error) {
	text := getenv("ABV_MAX_BODY_SIZE")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.Newf("ABV_MAX_BODY_SIZE: %q is not a number of bytes", text)
	}
	return n, nil
}

// spoolMax reads the setting spool_max, bytes; 0 is the default.
func spoolMax(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, errors.Newf("spool_max: %q is not a number of bytes", text)
	}
	return n, nil
}

// bootstrap is what an empty catalogue begins with: the providers whose credentials are in the environment.
type bootstrap struct {
	wishes     []actors.Wish
	registered []string
}

func newBootstrap(getenv func(string) string) (*bootstrap, error) {
	found, err := cli.ProvidersFrom(getenv)
	if err != nil {
		return nil, err
	}
	b := &bootstrap{}
	for _, provider := range found {
		for _, document := range provider.Documents {
			resource, extras, err := catalog.DecodeResource("", document)
			if err != nil {
				return nil, errors.Wrapf(err, "upstream for %s", provider.Env)
			}
			wish := actors.Wish{Kind: resource.Kind(), ID: resource.Ident(), Resource: resource, Credential: extras.Credential}
			if wish.Kind == catalog.KindUpstream {
				// Asked only when the catalogue is empty and the wish is about to come true.
				wish.Check = func(int64) error {
					b.registered = append(b.registered, provider.Upstream+" from "+provider.Env)
					return nil
				}
			}
			b.wishes = append(b.wishes, wish)
		}
	}
	return b, nil
}

// report warns of upstreams that nobody asked for by name: they cost money.
func (b *bootstrap) report(log *slog.Logger) {
	if len(b.registered) > 0 {
		log.Warn("the catalogue was empty: upstreams were registered from the environment", "upstreams", strings.Join(b.registered, ", "))
	}
}
