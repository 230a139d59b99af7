package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// tower is a gateway's store with its feed behind an admin API that can go away and come back.
type tower struct {
	t       *testing.T
	store   *sqlite.Store
	journal *events.Journal
	bell    events.Bell
	address string
	srv     *admin.Server
	ended   chan error
}

func newTower(t *testing.T) *tower {
	t.Helper()
	store, err := sqlite.OpenStore(filepath.Join(t.TempDir(), "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	w := &tower{t: t, store: store, address: "127.0.0.1"}
	w.journal = events.NewJournal(events.JournalOptions{Store: store, Push: func([]*events.Committed) { w.bell.Ring() }})
	w.up()
	t.Cleanup(func() {
		w.down()
		require.NoError(t, w.journal.Close(context.Background()))
		require.NoError(t, store.Close())
	})
	return w
}

func (w *tower) up() {
	w.t.Helper()
	var err error
	w.srv, err = admin.New(admin.Config{Token: adminToken, Logger: slog.New(slog.DiscardHandler), Feed: w.store.Feed(&w.bell, nil),
		Ports: admin.Ports{Events: w.store}})
	require.NoError(w.t, err)
	l, err := net.Listen("tcp", w.address)
	for w.address == "127.0.0.1" && err != nil { // the first time
		// Its port is none of those that the kernel gives to whoever asks for any, or calls somebody: it is free when it comes up again.
		l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(20_000+rand.IntN(12_000)))
	}
	require.NoError(w.t, err)
	w.address = l.Addr().String()
	w.ended = make(chan error, 1)
	srv, ended := w.srv, w.ended
	go func() { ended <- srv.Serve(l) }()
}

func (w *tower) down() {
	w.t.Helper()
	require.NoError(w.t, w.srv.Close(context.Background()))
	require.NoError(w.t, <-w.ended)
}

func (w *tower) put(upstream string, n int) {
	w.t.Helper()
	for i := range n {
		row := events.Row{Stream: "upstream/" + upstream, Version: events.AnyVersion, At: noon, Node: "n", Upstream: upstream,
			Facts: []events.Fact{&request.Resumed{Upstream: upstream, WaitedUS: int64(i)}}}
		require.NoError(w.t, w.journal.Commit(events.Append{Rows: []events.Row{row}}, events.Must))
	}
}

// following is a running command.
type following struct {
	t      *testing.T
	lines  *bufio.Scanner
	stderr *bytes.Buffer
	stop   func() int
}

func (w *tower) follow(args ...string) *following {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, out := io.Pipe()
	f := &following{t: w.t, lines: bufio.NewScanner(r), stderr: &bytes.Buffer{}}
	env := map[string]string{"PENSTOCK_ADMIN_URL": "http://" + w.address, "PENSTOCK_ADMIN_TOKEN": adminToken, "PENSTOCK_DATA": w.t.TempDir()}
	p := Program{Stdin: strings.NewReader(""), Stdout: out, Stderr: f.stderr, Now: func() time.Time { return noon.Add(time.Hour) },
		Getenv: func(name string) string { return env[name] }}
	code := make(chan int, 1)
	go func() {
		code <- p.Run(ctx, append([]string{"events", "--follow"}, args...))
		_ = out.Close()
	}()
	f.stop = sync.OnceValue(func() int {
		cancel()
		_ = r.Close()
		return <-code
	})
	w.t.Cleanup(func() { f.stop() })
	return f
}

// positions are those of the next n lines of JSON.
func (f *following) positions(n int) (list []string) {
	f.t.Helper()
	for range n {
		require.True(f.t, f.lines.Scan(), "it has ended: %s", f.stderr)
		var e admin.Event
		require.NoError(f.t, json.Unmarshal(f.lines.Bytes(), &e), f.lines.Text())
		list = append(list, strconv.FormatInt(int64(e.Position), 10))
	}
	return list
}

func TestFollowShowsWhatIsStoredAsItIsStored(t *testing.T) {
	w := newTower(t)
	w.put("a", 2)
	f := w.follow("--json", "--after", "1")
	require.Equal(t, []string{"2"}, f.positions(1))
	w.put("a", 2)
	require.Equal(t, []string{"3", "4"}, f.positions(2))
	require.Zero(t, f.stop(), "an interrupt is how it ends")
	require.Empty(t, f.stderr.String())
}

func TestFollowBeginsAndFiltersAsAsked(t *testing.T) {
	w := newTower(t)
	w.put("a", 2)
	w.put("b", 2)
	for args, want := range map[string][]string{
		"--since 2h":                        {"1", "2", "3", "4"},
		"--since 2h --upstream b":           {"3", "4"},
		"--after 1 --type request.*,node.*": {"2", "3", "4"},
		"--after 1 --stream upstream/a":     {"2"},
	} {
		f := w.follow(append(strings.Fields(args), "--json", "--limit", strconv.Itoa(len(want)))...)
		require.Equal(t, want, f.positions(len(want)), args)
		require.False(t, f.lines.Scan(), args)
		require.Zero(t, f.stop(), args)
	}
	f := w.follow("--after", "3", "--limit", "1")
	require.True(t, f.lines.Scan())
	require.Regexp(t, `^4 +2026-\d\d-\d\d .*request.resumed +upstream/b  \{"upstream":"b","waited_us":1\}$`, f.lines.Text())
}

// An old position or time, of which events were removed since, is no silent jump to the first that is left.
func TestFollowSaysWhatIsNotThereAnyMore(t *testing.T) {
	w := newTower(t)
	commit := func(stream string, facts ...events.Fact) {
		row := events.Row{Stream: stream, Version: events.AnyVersion, At: noon, Facts: facts}
		require.NoError(t, w.journal.Commit(events.Append{Rows: []events.Row{row}}, events.Must))
	}
	commit("request/r1", &request.Resumed{}, &request.Resumed{})
	w.put("a", 1)
	commit(books.Stream, &books.Removed{Day: "2026-01-01", Span: books.Span{First: 1, Last: 1, Through: 2}})
	n, err := w.store.Remove(context.Background(), events.Removal{First: 1, Last: 1, Through: 2}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for args, first := range map[string]string{"--after 1": "2", "--since 2h": "1"} {
		told := "penstock: of the events " + first + " to 2 those of requests are not there any more: retention has removed them; the next one is 3\n"
		f := w.follow(append(strings.Fields(args), "--limit", "1")...)
		require.True(t, f.lines.Scan())
		require.Regexp(t, `^3 `, f.lines.Text(), args)
		require.False(t, f.lines.Scan(), "it is no event that --limit counts")
		require.Zero(t, f.stop())
		require.Equal(t, told, f.stderr.String(), args)

		f = w.follow(append(strings.Fields(args), "--limit", "1", "--json")...)
		require.True(t, f.lines.Scan())
		var e admin.Event
		require.NoError(t, json.Unmarshal(f.lines.Bytes(), &e))
		require.Equal(t, events.TypeRemoved, e.Type)
		require.JSONEq(t, `{"first":`+first+`,"last":2,"next":3}`, string(e.Data))
		require.Equal(t, []string{"3"}, f.positions(1))
		require.Zero(t, f.stop())
		require.Equal(t, told, f.stderr.String(), args)
	}
	f := w.follow("--after", "1", "--limit", "1", "--stream", "upstream/a")
	require.True(t, f.lines.Scan())
	require.False(t, f.lines.Scan())
	require.Empty(t, f.stderr.String(), "nothing of that can be removed")
}

func TestFollowGoesOnWhereItWasWhenTheGatewayIsBack(t *testing.T) {
	w := newTower(t)
	w.put("a", 1)
	f := w.follow("--json", "--after", "0", "--since", "2h")
	require.Equal(t, []string{"1"}, f.positions(1))
	w.down()
	w.put("a", 3) // while it can not see
	w.up()
	require.Equal(t, []string{"2", "3", "4"}, f.positions(3))
	w.put("a", 1)
	require.Equal(t, []string{"5"}, f.positions(1))
	require.Zero(t, f.stop())
	require.Contains(t, f.stderr.String(), "the connection is lost; trying again")
}

// A server that stands still without closing the connection is taken for gone.
func TestFollowNoticesAServerThatFallsSilent(t *testing.T) {
	calls := make(chan string, 8)
	web := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		calls <- r.Header.Get("Last-Event-ID")
		_, _ = io.WriteString(rw, "id: 7\n\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = web.Serve(l) }()
	defer web.Close()
	f := follower{client: &client{base: "http://" + l.Addr().String(), http: &http.Client{}}, silence: time.Second, notify: func(error) {}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.run(ctx, func(string, []byte) (bool, error) { return true, nil }) }()
	next := func() (have string) {
		select {
		case have = <-calls:
		case err := <-done:
			t.Fatalf("it gave up: %v", err)
		}
		return have
	}
	require.Empty(t, next())
	have := next()
	for have == "" { // on a machine that stands still it may hear nothing of the first one
		have = next()
	}
	require.Equal(t, "7", have)
	cancel()
	require.NoError(t, <-done)
}

func TestFollowFailsAtOnceWhenThereIsNoGatewayOrNoRight(t *testing.T) {
	w := newTower(t)
	for url, want := range map[string]string{"http://127.0.0.1:1": "no gateway answers", "http://" + w.address: "refuses the admin token"} {
		var diagnostics bytes.Buffer
		env := map[string]string{"PENSTOCK_ADMIN_URL": url, "PENSTOCK_ADMIN_TOKEN": "wrong"}
		p := Program{Stdout: io.Discard, Stderr: &diagnostics, Stdin: strings.NewReader(""), Now: time.Now, Getenv: func(n string) string { return env[n] }}
		require.Equal(t, 1, p.Run(context.Background(), []string{"events", "--follow"}))
		require.Contains(t, diagnostics.String(), want)
	}
}
