package cli

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/adapters/telemetry"
	"github.com/penstock/penstock/domain/catalog"
)

// finding is one thing that doctor looked at.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

func (p *Program) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "Look whether a gateway can work here", Args: cobra.NoArgs, RunE: p.doctor}
	cmd.Flags().String("server", "", "address of the admin API of a running gateway (PENSTOCK_ADMIN_URL)")
	AddSettings(cmd, settingNames()...)
	jsonFlag(cmd)
	return cmd
}

func (p *Program) doctor(cmd *cobra.Command, _ []string) error {
	c, from, s, err := p.connect(cmd)
	if errors.Is(err, errToken) {
		return p.report([]finding{{Check: "admin token", Detail: err.Error(), Remedy: errors.FlattenHints(err)}}, on(cmd, "json"))
	}
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	health, err := c.running(cmd, from)
	if err != nil && from == named {
		return err
	}
	var all []finding
	var upstreams []*catalog.Upstream
	if err == nil {
		all = append(all, storeOf(health.Store.Kind, health.Status, c.base))
		upstreams, err = c.upstreams(ctx)
		if err != nil {
			all = append(all, finding{Check: "admin token", Detail: err.Error(), Remedy: "set PENSTOCK_ADMIN_TOKEN or --data to those of the gateway"})
		} else {
			all = append(all, finding{Check: "keys", OK: true, Detail: "the running gateway has opened all credentials"})
		}
		if f, ok := c.priceCheck(ctx); ok {
			all = append(all, f)
		}
		all = append(all, finding{Check: "ports", OK: true, Detail: "in use by the running gateway at " + c.base})
	} else {
		var found []finding
		found, upstreams = p.stoppedChecks(ctx, s)
		all = append(append(all, found...), portCheck("listen", s.Listen), portCheck("admin_listen", s.AdminListen))
	}
	for _, u := range upstreams {
		if u.Active {
			all = append(all, upstreamCheck(ctx, u))
		}
	}
	return p.report(all, on(cmd, "json"))
}

func (p *Program) report(all []finding, asJSON bool) error {
	var failed error
	for _, f := range all {
		if !f.OK {
			failed = &silentError{}
		}
	}
	if asJSON {
		return errors.CombineErrors(jsonLines(p.Stdout, all), failed)
	}
	for _, f := range all {
		verdict := map[bool]string{true: "ok    ", false: "failed"}[f.OK]
		fmt.Fprintf(p.Stdout, "%s  %s: %s\n", verdict, f.Check, plain(f.Detail))
		if f.Remedy != "" {
			fmt.Fprintf(p.Stdout, "        %s\n", f.Remedy)
		}
	}
	return failed
}

func storeOf(kind, status, base string) finding {
	f := finding{Check: "store", OK: status == "ok", Detail: fmt.Sprintf("%s, the gateway at %s is %s", kind, base, status)}
	if !f.OK {
		f.Remedy = "see the gateway's log and " + base + "/health"
	}
	return f
}

// priceCheck tells of a catalogue without any price; ok is false for one that has some or can not be read.
func (c *client) priceCheck(ctx context.Context) (_ finding, ok bool) {
	prices, err := c.list(ctx, catalog.KindPrice)
	if err != nil || len(prices) > 0 {
		return finding{}, false
	}
	return finding{Check: "prices", OK: true, Detail: "there are none: usage is recorded as unpriced, at no cost",
		Remedy: "penstock prices import --starter takes those that ship with this program"}, true
}

func (c *client) upstreams(ctx context.Context) ([]*catalog.Upstream, error) {
	documents, err := c.list(ctx, catalog.KindUpstream)
	if err != nil {
		return nil, err
	}
	var all []*catalog.Upstream
	for _, document := range documents {
		resource, _, err := catalog.DecodeResource(catalog.KindUpstream, document)
		if err != nil {
			return nil, errors.Wrap(err, "read upstream")
		}
		all = append(all, resource.(*catalog.Upstream))
	}
	return all, nil
}

// stoppedChecks look at the data folder itself. A folder that is not there yet is fine if it can be made.
func (p *Program) stoppedChecks(ctx context.Context, s Settings) ([]finding, []*catalog.Upstream) {
	_, err := os.Stat(s.Data)
	if err != nil {
		return p.newChecks(ctx, s), nil
	}
	data, err := p.OpenOffline(ctx, s)
	if errors.Is(err, fs.ErrNotExist) { // a folder that was prepared and never used
		return p.newChecks(ctx, s), nil
	}
	if err != nil {
		return []finding{{Check: "store", Detail: err.Error(), Remedy: openRemedy(s)}}, nil
	}
	defer func() { _ = data.Close() }()
	all := []finding{{Check: "store", OK: true, Detail: storeName(s.Store) + " in " + s.Data + " opens and takes writes"}}
	if err := data.Probe(ctx); err != nil {
		all[0] = finding{Check: "store", Detail: "takes no writes: " + err.Error(), Remedy: "look at free space and permissions of " + s.Data}
		if s.Store != embeddedStore {
			all[0].Remedy = "look at the log, the free space and the permissions of the database"
		}
	}
	all = append(all, keyCheck(ctx, data, s))
	upstreams, err := data.Upstreams(ctx)
	if err != nil {
		all = append(all, finding{Check: "catalogue", Detail: err.Error(), Remedy: "penstock replay --verify shows what differs"})
	}
	return all, upstreams
}

// embeddedStore is the setting of the store that is in the data folder.
const embeddedStore = "sqlite"

// newChecks are those of a data folder that holds no data yet: the database may all the same.
func (p *Program) newChecks(ctx context.Context, s Settings) []finding {
	all := []finding{folderCheck(s.Data), newKeyCheck(s)}
	if s.Store == embeddedStore {
		return all
	}
	if _, err := p.Migrate(ctx, s, true); err != nil {
		return append(all, finding{Check: "database", Detail: err.Error(), Remedy: openRemedy(s)})
	}
	return append(all, finding{Check: "database", OK: true, Detail: storeName(s.Store) + " answers"})
}

// openRemedy says what to look at when a store does not open.
func openRemedy(s Settings) string {
	if s.Store == embeddedStore {
		return "the data folder " + s.Data + " must belong to the user who runs the gateway, and no other gateway may use it; a damaged events.db comes from a copy of the whole folder"
	}
	return "the database must answer under --store or PENSTOCK_STORE, and no other gateway may use it or the data folder " + s.Data
}

// storeName is the setting of a store without its password.
func storeName(store string) string {
	u, err := url.Parse(store)
	if err != nil || u.Host == "" && u.RawQuery == "" {
		return telemetry.Redact(store)
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = "" // may hold a password, too
	return u.String()
}

// folderCheck looks whether a data folder that is not there, or empty, can be used: whether the nearest folder above it that is
// there takes a file.
func folderCheck(folder string) finding {
	above := filepath.Clean(folder)
	for {
		if _, err := os.Stat(above); err == nil || above == filepath.Dir(above) {
			break
		}
		above = filepath.Dir(above)
	}
	probe, err := os.CreateTemp(above, ".penstock-*")
	if err != nil {
		return finding{Check: "store", Detail: "data folder " + folder + " cannot be made: " + err.Error(),
			Remedy: "choose another with --data or PENSTOCK_DATA"}
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return finding{Check: "store", OK: true, Detail: folder + " holds no data yet; serve makes it"}
}

func newKeyCheck(s Settings) finding {
	if s.SecretKey == "" {
		return finding{Check: "keys", OK: true, Detail: "serve makes a secret key in the data folder"}
	}
	if _, err := secrets.ParseKey(s.SecretKey); err != nil {
		return finding{Check: "keys", Detail: err.Error(), Remedy: "set PENSTOCK_SECRET_KEY to 64 hex digits: openssl rand -hex 32"}
	}
	return finding{Check: "keys", OK: true, Detail: "the secret key is usable"}
}

func keyCheck(ctx context.Context, data Offline, s Settings) finding {
	unopened, err := data.Unopened(ctx)
	const remedy = "set PENSTOCK_SECRET_KEY (or the key file in the data folder) to the key that was in use"
	switch {
	case err != nil:
		return finding{Check: "keys", Detail: err.Error(), Remedy: remedy}
	case len(unopened) > 0:
		return finding{Check: "keys", Detail: "the secret key does not open the credentials of " + strings.Join(unopened, ", "), Remedy: remedy}
	}
	return finding{Check: "keys", OK: true, Detail: "the secret key opens all credentials"}
}

// portCheck tries to listen where serve would.
func portCheck(name, address string) finding {
	l, err := net.Listen("tcp", address)
	if err != nil {
		env := "PENSTOCK_" + strings.ToUpper(name)
		f := finding{Check: "ports", Detail: fmt.Sprintf("%s %s: %v", name, address, err), Remedy: "choose another with " + env}
		if errors.Is(err, syscall.EADDRINUSE) {
			f.Detail = fmt.Sprintf("%s %s is in use by another program", name, address)
			f.Remedy = "stop that program, or choose another address with " + env
		}
		return f
	}
	_ = l.Close()
	return finding{Check: "ports", OK: true, Detail: name + " " + address + " is free"}
}

// upstreamTimeout bounds the look at one upstream.
const upstreamTimeout = 5 * time.Second

// upstreamCheck asks an upstream without a credential: any answer will do.
func upstreamCheck(ctx context.Context, u *catalog.Upstream) finding {
	f := finding{Check: "upstream " + u.ID, Remedy: "look at base_url, the network and, behind a proxy, its settings"}
	target, err := url.Parse(u.BaseURL)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	asker := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := asker.Do(r)
	if err != nil {
		f.Detail = telemetry.Redact(err.Error())
		return f
	}
	_ = answer.Body.Close()
	return finding{Check: f.Check, OK: true, Detail: fmt.Sprintf("%s answers (%d)", target.Host, answer.StatusCode)}
}
