package penstock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/migrations"
	"github.com/penstock/penstock/projections"
)

// record is a log without times.
func record(into *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(into, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestTheLogSaysNowAndThenHowFarAnEventStoreIs(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	ctx := penstock.LogProgress(context.Background(), record(&out), func() time.Time { return now }, 900)
	projections.Tell(ctx, projections.Progress{Projection: "little", To: 900})
	for at := events.Position(500); at <= 1500; at += 50 { // fifty in a second
		projections.Tell(ctx, projections.Progress{Projection: "p", From: 500, Position: at, To: 1500})
		now = now.Add(time.Second)
	}
	require.Equal(t, `msg="work before the start begins" what=p events=1000
msg="work before the start" what=p done=250 events=1000 per_second=50 left=15s
msg="work before the start" what=p done=500 events=1000 per_second=50 left=10s
msg="work before the start" what=p done=750 events=1000 per_second=50 left=5s
msg="work before the start is done" what=p events=1000 took=20s
`, out.String())
}

// oldEvents makes the file of an event store as it was before there were pages, with rows in it.
func oldEvents(t *testing.T, dir string, rows int) {
	t.Helper()
	db, err := sqlite3.Open(filepath.Join(dir, "events.db"))
	require.NoError(t, err)
	defer db.Close()
	list, err := migrations.Pending(migrations.FS, "sqlite", 0)
	require.NoError(t, err)
	require.NoError(t, db.Exec(`CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`))
	for _, m := range list[:5] {
		require.NoError(t, db.Exec(m.SQL))
		require.NoError(t, db.Exec(fmt.Sprintf(`INSERT INTO schema_migrations VALUES (%d, '%s')`, m.Number, m.Name)))
	}
	for i := range rows {
		require.NoError(t, db.Exec(fmt.Sprintf(`INSERT INTO events (position, n, stream, version, terminal, at, types, hash, payload)
			VALUES (%d, 1, 'node/n', %d, 0, 1772000000000000, 'node.started', zeroblob(32), '[{"version":"v"}]');
			INSERT INTO commits VALUES (%[1]d, 1, 1, 1772000000000000, 1772000000000000, zeroblob(32), zeroblob(32))`, i+1, i)))
	}
}

func TestTheOperatorHearsOfEventsThatAreMovedToPages(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	oldEvents(t, dir, 7)
	r := newRig(t, func(c *penstock.Config) { c.DataDir, c.Store, c.Logger = dir, "", record(&out) })
	r.close()
	for _, line := range []string{
		`msg="work before the start begins" what="events to pages" events=7`,
		`msg="work before the start is done" what="events to pages" events=7`,
	} {
		require.Equal(t, 1, strings.Count(out.String(), line), "%s", out.String())
	}
	dir = t.TempDir()
	oldEvents(t, dir, 7)
	var told []projections.Progress
	names, err := penstock.Migrate(projections.Watch(context.Background(), func(p projections.Progress) { told = append(told, p) }), dir, "", false)
	require.NoError(t, err)
	require.Equal(t, []string{"0006_pages"}, names)
	require.Equal(t, []projections.Progress{{Projection: "events to pages", To: 7}, {Projection: "events to pages", Position: 7, To: 7}}, told)
}

// ends is a log that ends a context when a message comes by.
type ends struct {
	slog.Handler
	message string
	end     func()
}

func (e ends) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == e.message {
		e.end()
	}
	return e.Handler.Handle(ctx, r)
}

func (e ends) WithAttrs(a []slog.Attr) slog.Handler {
	return ends{e.Handler.WithAttrs(a), e.message, e.end}
}

func TestAStartCanBeGivenUpWhileEventsAreMovedAndTheNextOneGoesOn(t *testing.T) {
	dir := t.TempDir()
	oldEvents(t, dir, 7)
	ctx, end := context.WithCancel(context.Background())
	log := slog.New(ends{slog.NewTextHandler(io.Discard, nil), "work before the start begins", end})
	c := penstock.Config{DataDir: dir, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Logger: log}
	_, err := penstock.OpenContext(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	names, err := penstock.Migrate(context.Background(), dir, "", true)
	require.NoError(t, err, "the folder is free")
	require.Equal(t, []string{"0006_pages"}, names)

	ctx, end = context.WithCancel(context.Background())
	g, err := penstock.OpenContext(ctx, c)
	require.NoError(t, err)
	end()
	require.Equal(t, 200, healthOf(t, g), "an open gateway lives on")
	require.NoError(t, g.Close(context.Background()))
}

func healthOf(t *testing.T, g *penstock.Gateway) int {
	t.Helper()
	r, err := http.Get("http://" + g.AdminAddr() + "/health")
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	return r.StatusCode
}

// Who waits for the line that says ready finds the gateway: it has been announced before.
func TestAGatewayIsAnnouncedBeforeItSaysThatItIsReady(t *testing.T) {
	var told []string
	c := penstock.Config{DataDir: t.TempDir(), Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"}
	c.Logger = slog.New(ends{slog.NewTextHandler(io.Discard, nil), "ready", func() { told = append(told, "ready") }})
	c.Ready = func(g *penstock.Gateway) {
		require.Equal(t, 200, healthOf(t, g))
		require.NotEmpty(t, g.Instance())
		told = append(told, "announced")
	}
	g, err := penstock.Open(c)
	require.NoError(t, err)
	require.Equal(t, []string{"announced", "ready"}, told)
	require.NoError(t, g.Close(context.Background()))
}
