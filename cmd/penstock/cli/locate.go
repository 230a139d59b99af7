package cli

import (
	"context"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/projections"
)

// errToken marks that a data folder has an admin token which can not be read.
var errToken = errors.New("admin token")

// addressFile in the data folder holds the address of the running gateway's admin API, and below it the instance that
// answers there.
const addressFile = "admin.url"

// Announce writes where the admin API of a data folder's gateway is, so that --data is all that commands need to be
// told. forget removes it again. One that is killed leaves it behind; by the instance another gateway, which has come to
// listen at that address, is not taken for it.
func Announce(folder, adminAddr, instance string) (forget func(), err error) {
	path := filepath.Join(folder, addressFile)
	if err := os.WriteFile(path, []byte("http://"+dialable(adminAddr)+"\n"+instance+"\n"), 0o600); err != nil {
		return nil, errors.Wrap(err, "announce admin address")
	}
	return func() { _ = os.Remove(path) }, nil
}

// dialable turns an address to listen on into one to call.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// origin is where the address of the server comes from.
type origin int

const (
	named     origin = iota // --server or PENSTOCK_ADMIN_URL
	announced               // by the gateway of the data folder
	assumed                 // the address that serve would listen on
)

func addServer(cmd *cobra.Command) {
	cmd.Flags().String("server", "", "address of the admin API, such as http://127.0.0.1:8081 (PENSTOCK_ADMIN_URL)")
	AddSettings(cmd, "data", "store")
}

// connect finds the server of a command and the token for it. It sends nothing.
func (p *Program) connect(cmd *cobra.Command) (*client, origin, Settings, error) {
	s, err := LoadSettings(cmd, p.Getenv)
	if err != nil {
		return nil, 0, s, err
	}
	base, instance, from := p.address(cmd, s)
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	token := secrets.Secret(strings.TrimSpace(s.AdminToken)) // as the gateway reads it
	if token.Reveal() == "" {
		token, err = secrets.ReadToken(s.Data)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			if errors.Is(err, fs.ErrPermission) {
				err = errors.WithHint(err, "run it as the user that the gateway runs as, or set PENSTOCK_ADMIN_TOKEN and PENSTOCK_ADMIN_URL")
			}
			return nil, 0, s, errors.Mark(err, errToken)
		}
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}
	return &client{base: strings.TrimRight(base, "/"), instance: instance, token: token, http: &http.Client{Transport: transport}}, from, s, nil
}

// address is where the gateway is, and which one it is where that is known.
func (p *Program) address(cmd *cobra.Command, s Settings) (base, instance string, from origin) {
	if f := cmd.Flags().Lookup("server"); f != nil && f.Changed {
		return f.Value.String(), "", named
	}
	if base := p.Getenv("PENSTOCK_ADMIN_URL"); base != "" {
		return base, "", named
	}
	if b, err := os.ReadFile(filepath.Join(s.Data, addressFile)); err == nil {
		base, instance, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		return base, instance, announced
	}
	return dialable(s.AdminListen), "", assumed
}

// server connects a command that needs a running gateway.
func (p *Program) server(cmd *cobra.Command) (*client, error) {
	c, from, s, err := p.connect(cmd)
	if err != nil {
		return nil, err
	}
	other := elsewhere(cmd, from)
	if !other && c.instance != "" {
		_, err := c.health(cmd.Context())
		other = errors.Is(err, errOther)
	}
	if other {
		return nil, errors.WithHint(errors.Newf("no gateway of the data folder %s is running", s.Data), startOne)
	}
	return c, nil
}

// gateway finds the running gateway of a command that can also do with the data of a stopped one: nil then.
func (p *Program) gateway(cmd *cobra.Command) (*client, Settings, error) {
	c, from, s, err := p.connect(cmd)
	if err != nil {
		return nil, s, err
	}
	if from == named {
		return c, s, nil
	}
	if health, _ := c.running(cmd, from); health != nil {
		return c, s, nil
	}
	if _, err := os.Stat(s.Data); err != nil {
		return nil, s, errors.WithHint(errors.Newf("no gateway answers at %s, and there is no data folder %s", c.base, s.Data),
			"start one with penstock serve, or say where it is with --server or --data")
	}
	return nil, s, nil
}

// source connects a command that reads: to the running gateway, or else to the data that it left.
func (p *Program) source(cmd *cobra.Command) (source, func(), error) {
	c, s, err := p.gateway(cmd)
	if err != nil {
		return nil, nil, err
	}
	if c != nil {
		return c, func() {}, nil
	}
	m := &meter{out: p.Stderr, terminal: p.Watched, now: p.Now, patience: meterPatience}
	data, err := p.OpenOffline(projections.Watch(cmd.Context(), m.show), s)
	m.end()
	if err != nil {
		return nil, nil, errors.Wrapf(err, "open data folder %s", s.Data)
	}
	return stopped{data}, func() { _ = data.Close() }, nil
}

// errOther is why what answers at an address is not spoken to.
var errOther = errors.New("what answers there is the gateway of another data folder")

// elsewhere says that there is no gateway which the command means: a folder that was named, and whose gateway has not
// announced itself, has none that runs. What listens on the usual port would be another one.
func elsewhere(cmd *cobra.Command, from origin) bool {
	return from == assumed && cmd.Flags().Changed("data")
}

// running is the health of the gateway that the command means.
func (c *client) running(cmd *cobra.Command, from origin) (*admin.HealthReport, error) {
	if elsewhere(cmd, from) {
		return nil, &unreachableError{c.base, errOther}
	}
	return c.health(cmd.Context())
}

// health is what the gateway says of itself. One that is not well answers 503 with the same report.
func (c *client) health(ctx context.Context) (*admin.HealthReport, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/health", nil)
	if err != nil {
		return nil, errors.Wrap(err, "ask for health")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, &unreachableError{c.base, err}
	}
	defer func() { _ = answer.Body.Close() }()
	if c.instance != "" && answer.Header.Get(admin.InstanceHeader) != c.instance {
		return nil, &unreachableError{c.base, errOther}
	}
	return readHealth(answer)
}
