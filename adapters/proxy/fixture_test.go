package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
)

// scripted is a dispatcher whose answers a test writes.
type scripted struct {
	begin func(*actors.Call) actors.Answer

	mu      sync.Mutex
	begun   int
	refused []string // codes
	reasons []string
}

func (d *scripted) Begin(c *actors.Call) actors.Answer {
	d.mu.Lock()
	d.begun++
	d.mu.Unlock()
	if d.begin == nil {
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{"ok":true}`)}
	}
	return d.begin(c)
}

func (d *scripted) Refuse(_ *actors.Call, r failure.Refusal) actors.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused, d.reasons = append(d.refused, r.Code), append(d.reasons, r.Reason)
	return actors.Answer{Status: r.Status, Headers: jsonType, Body: []byte(`{"refused":"` + r.Code + `","message":"` + strings.ReplaceAll(r.Message, `"`, `'`) + `"}`)}
}

func (d *scripted) refusals() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.refused...)
}

const secretA = "sk-pen-team-a-secret"

func sha(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// snapshot compiles a catalogue of one upstream and the keys.
func snapshot(keys ...catalog.Key) *catalog.Snapshot {
	s := catalog.NewState()
	u := catalog.NewUpstream("up", "http://127.0.0.1:1", dialect.CapChat, dialect.CapMessages, dialect.CapGemini)
	u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "claude-x"}, {Type: "exact", Value: "gpt-x"}}
	s.Evolve(&catalog.UpstreamRegistered{Upstream: *u}, 1)
	for i, k := range keys {
		if k.Access == "" {
			k.Access = "unrestricted"
		}
		s.Evolve(&catalog.KeyRegistered{Key: k}, int64(i+2))
	}
	return catalog.Build(s, nil)
}

// fixture is a running server.
type fixture struct {
	*Server
	t    *testing.T
	addr string
	d    *scripted
}

func start(t *testing.T, d *scripted, change func(*Options)) *fixture {
	t.Helper()
	snap := snapshot(catalog.Key{ID: "team-a", Hash: sha(secretA)})
	o := Options{
		Dispatcher: d, Catalog: func() *catalog.Snapshot { return snap },
		Health: func() ([]byte, bool) { return []byte(`{"status":"ok"}`), true },
	}
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			require.NoError(t, s.Cut(time.Minute))
		}
		require.NoError(t, <-served)
		s.Close()
		require.Zero(t, s.InFlight())
		eventually(t, "no goroutine is left", func() bool {
			all := goroutines()
			return !strings.Contains(all, "proxy.(*watcher)") && !strings.Contains(all, "proxy.(*refusals)")
		})
	})
	return &fixture{Server: s, t: t, addr: ln.Addr().String(), d: d}
}

func goroutines() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// dial opens a connection of a client.
func (f *fixture) dial() *net.TCPConn {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addr)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { c.Close() })
	require.NoError(f.t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c.(*net.TCPConn)
}

// ask sends one request on a connection of its own and gives status, headers and body.
func (f *fixture) ask(method, target, body string, headers ...string) (*http.Response, string) {
	f.t.Helper()
	c := f.dial()
	defer c.Close()
	_, err := io.WriteString(c, message(method, target, body, headers...))
	require.NoError(f.t, err)
	return f.hear(bufio.NewReader(c))
}

func (f *fixture) hear(br *bufio.Reader) (*http.Response, string) {
	f.t.Helper()
	r, err := http.ReadResponse(br, nil)
	require.NoError(f.t, err)
	b, err := io.ReadAll(r.Body)
	require.NoError(f.t, err)
	return r, string(b)
}

// message is a request as text; headers are pairs.
func message(method, target, body string, headers ...string) string {
	var b strings.Builder
	b.WriteString(method + " " + target + " HTTP/1.1\r\nHost: gateway\r\n")
	for i := 0; i < len(headers); i += 2 {
		b.WriteString(headers[i] + ": " + headers[i+1] + "\r\n")
	}
	if body != "" {
		b.WriteString("Content-Length: " + itoa(len(body)) + "\r\n")
	}
	return b.String() + "\r\n" + body
}

func chat(more ...string) string {
	return message("POST", "/v1/chat/completions", `{"model":"gpt-x","messages":[]}`, append([]string{"Authorization", "Bearer " + secretA}, more...)...)
}

// parsed is a request as the server would have read it.
func parsed(t *testing.T, raw string) *fasthttp.RequestCtx {
	t.Helper()
	ctx := &fasthttp.RequestCtx{}
	require.NoError(t, ctx.Request.Read(bufio.NewReader(strings.NewReader(raw))))
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond, what)
}
