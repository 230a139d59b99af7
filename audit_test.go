package penstock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/cmd/penstock/cli"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
)

// notary is a receiver that keeps the bodies that come with a right signature.
type notary struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	forged int
}

func newNotary(t *testing.T) *notary {
	n := &notary{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n.mu.Lock()
		defer n.mu.Unlock()
		if got := r.Header.Get(webhook.SignatureHeader); got != webhook.Sign(hookSecret, signedAt(got), body) {
			n.forged++
		}
		n.bodies = append(n.bodies, string(body))
	}))
	t.Cleanup(n.Close)
	return n
}

// has waits until the last body is this one.
func (n *notary) has(t *testing.T, body string) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.bodies) > 0 && n.bodies[len(n.bodies)-1] == body
	}, time.Minute, 5*time.Millisecond, "want %s", body)
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Zero(t, n.forged)
}

// headLines are the lines of a file of heads under the data folder, each with its end; none when there is no file.
func headLines(t *testing.T, r *rig, path ...string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append(append([]string{r.config.DataDir}, path...), "heads.jsonl")...))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	require.Empty(t, lines[len(lines)-1], "a line that is not whole")
	return lines[:len(lines)-1]
}

// firstHead waits for the head that is signed at the start.
func firstHead(t *testing.T, r *rig, before int) []string {
	t.Helper()
	var lines []string
	require.Eventually(t, func() bool { lines = headLines(t, r); return len(lines) > before }, time.Minute, 5*time.Millisecond)
	return lines
}

// penstockAudit runs a command of penstock audit against the gateway.
func penstockAudit(r *rig, args ...string) (code int, out string) {
	var stdout, stderr bytes.Buffer
	env := map[string]string{"PENSTOCK_ADMIN_URL": "http://" + r.gw.AdminAddr(), "PENSTOCK_ADMIN_TOKEN": r.gw.AdminToken()}
	p := cli.Program{Version: "test", Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Now: time.Now,
		Getenv: func(name string) string { return env[name] }}
	code = p.Run(context.Background(), append([]string{"audit"}, args...))
	return code, stdout.String() + stderr.String()
}

func TestSignedHeadsGoToWebhooksAndProveThereWhatTheEventsWere(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("up", fixed(), nil)
	r.key("k", nil)
	first := firstHead(t, r, 0)
	proof := newNotary(t)
	r.apply(hookOf("proof", proof.URL, "audit.head"))
	proof.has(t, first[0])

	// The one that is signed at the end is not sent any more, but the next start sends a later one.
	resp, answer := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+r.secret["k"])
	require.Equal(t, 200, resp.StatusCode, answer)
	r.close()
	kept := headLines(t, r)
	require.Len(t, kept, 2)
	r.open()
	body := firstHead(t, r, 2)[2]
	proof.has(t, body)

	// The body is what the command takes.
	file := filepath.Join(t.TempDir(), "delivered")
	require.NoError(t, os.WriteFile(file, []byte(body), 0o600))
	heads, err := events.ParseHeads([]byte(body))
	require.NoError(t, err)
	code, out := penstockAudit(r, "verify", "--head", "@"+file, "--key", heads[0].Key.String())
	require.Zero(t, code, out)
	require.Contains(t, out, "known heads met: 4", "three of its own and the delivered one")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(body, `"position":`, `"position":1`, 1)), 0o600))
	code, out = penstockAudit(r, "verify", "--head", "@"+file)
	require.Equal(t, 1, code)
	require.Contains(t, out, "signature")

	require.Eventually(t, func() bool {
		status, text := r.admin("GET", "/api/v1/webhooks/proof/status", nil)
		return status == 200 && strings.Contains(string(text), `"delivered":1`)
	}, time.Minute, 5*time.Millisecond)
	status, text := r.admin("PUT", "/api/v1/webhooks/w", map[string]any{"url": "https://example.com", "secret": hookSecret, "events": []string{"audit.tail"}})
	require.Equal(t, 422, status)
	require.Contains(t, string(text), "there is no event or alert audit.tail")
}

// closings are the positions of the facts that closed a day.
func closings(r *rig) (at []events.Position) {
	for _, e := range ask[items[struct{ Position events.Position }]](r, "GET", "/api/v1/events?stream=books&type=books.closed", nil).Items {
		at = append(at, e.Position)
	}
	return at
}

// holdsClosings wants a head behind each closing and before the next.
func holdsClosings(t *testing.T, lines []string, at []events.Position) {
	t.Helper()
	heads, err := events.ParseHeads([]byte(strings.Join(lines, "")))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(at), 3)
	for i, from := range at {
		found := 0
		for _, h := range heads {
			if h.Position >= from && (i == len(at)-1 || h.Position < at[i+1]) {
				require.NoError(t, h.Check(h.Key))
				found++
			}
		}
		require.NotZero(t, found, "no head between closing %d at %d and the next one: %v", i, from, at)
	}
}

func TestAHeadIsSignedAfterEachClosingAndGoesIntoTheArchiveAndToWebhooks(t *testing.T) {
	r, _ := aged(t, map[string]string{"books.archive": "archive"})
	r.open()
	proof := newNotary(t)
	r.apply(hookOf("proof", proof.URL, "audit.head"))
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)})
	own, away := headLines(t, r), headLines(t, r, "archive")
	holdsClosings(t, own, closings(r))
	holdsClosings(t, away, closings(r))
	require.Subset(t, own, away)
	proof.has(t, own[len(own)-1])
	code, out := penstockAudit(r, "verify", "--head", "@"+filepath.Join(r.config.DataDir, "archive", "heads.jsonl"))
	require.Zero(t, code, out)
	info, err := os.Stat(filepath.Join(r.config.DataDir, "archive", "heads.jsonl"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	r.close()
	own, away = headLines(t, r), headLines(t, r, "archive")
	require.Equal(t, own[len(own)-1], away[len(away)-1], "the last one of all is in both")
}

func TestAStoppedGatewaysClosingsAreSignedIntoTheArchiveToo(t *testing.T) {
	r, _ := aged(t, map[string]string{"books.archive": "archive"})
	before := len(headLines(t, r))
	o := offline(t, r)
	closed, err := o.CloseBooks(context.Background(), midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly))
	require.NoError(t, err)
	require.NoError(t, o.Close())
	own, away := headLines(t, r), headLines(t, r, "archive")
	require.Len(t, own, before+len(closed))
	require.Equal(t, own[before:], away[len(away)-len(closed):])
	r.open()
	holdsClosings(t, away, closings(r))
}

// A folder that can not be written to takes nothing away from the rest, and gets the head as soon as it can.
func TestAnArchiveThatTakesNoHeadHoldsUpNothing(t *testing.T) {
	var log safeBuffer
	r := newRig(t, func(c *penstock.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	firstHead(t, r, 0)
	proof := newNotary(t)
	r.apply(hookOf("proof", proof.URL, "audit.head"),
		map[string]any{"kind": "setting", "name": "books.archive", "value": "head.key/archive"}) // a file is no folder
	r.close() // without an error
	require.Contains(t, log.String(), "head of the chain is not in the archive")
	own := headLines(t, r)
	require.Len(t, own, 2)
	r.open()
	own = firstHead(t, r, 2)
	proof.has(t, own[2])

	r.apply(map[string]any{"kind": "setting", "name": "books.archive", "value": "archive"})
	r.close()
	own = headLines(t, r)
	require.Equal(t, own[3:], headLines(t, r, "archive"))

	// The data folder as its own archive has each head once.
	r.open()
	firstHead(t, r, 4)
	r.apply(map[string]any{"kind": "setting", "name": "books.archive", "value": "."})
	r.close()
	own = headLines(t, r)
	seen := map[string]bool{}
	for _, line := range own {
		var h events.Head
		require.NoError(t, json.Unmarshal([]byte(line), &h))
		at := fmt.Sprint(h.Position)
		require.False(t, seen[at], "position %s twice", at)
		seen[at] = true
	}
	require.Len(t, own, 6)
}
