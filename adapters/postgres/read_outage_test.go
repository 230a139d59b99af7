package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// wire passes bytes between clients and a server. Once armed, it swallows the answer to the next commit and hangs up.
type wire struct {
	listener net.Listener
	server   string
	armed    atomic.Bool
	lost     atomic.Int32 // answers
}

// through makes a wire to the server of an address and returns the address of its client end.
func through(t *testing.T, dsn string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	w := &wire{listener: listener, server: u.Host}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go w.pass(client)
		}
	}()
	u.Host = listener.Addr().String()
	return w, u.String()
}

func (w *wire) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("COMMIT\x00")) && w.armed.CompareAndSwap(true, false) { // it has been made
			w.lost.Add(1)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestACommitWhoseAnswerWasLostIsRepeatedAndTakesEffectOnce(t *testing.T) {
	ctx := context.Background()
	w, dsn := through(t, readDatabase(t))
	m := openRead(t, dsn, everyProjection...)
	var changes projections.Changes
	hour(&changes, "x", 3)
	step := []projections.Step{{Projection: "stats", Version: stats.Projection{}.Version(), To: 5}}
	w.armed.Store(true)
	if err := m.Commit(ctx, &changes, step); err == nil || w.lost.Load() != 1 {
		t.Fatalf("%v after %d lost answers, want an error after one", err, w.lost.Load())
	}
	once, at := lawtest.Dump(t, m, stats.Projection{})
	if at != 5 || len(once) != 1 {
		t.Fatalf("%v at %d: the commit did not go through", once, at)
	}
	if err := m.Commit(ctx, &changes, step); err != nil {
		t.Fatalf("repeated: %v", err)
	}
	if twice, _ := lawtest.Dump(t, m, stats.Projection{}); len(twice) != 1 || twice[0] != once[0] {
		t.Errorf("%v, want %v", twice, once)
	}
}

// The runner repeats a commit of unknown fate by itself.
func TestRunnerGoesOnAfterALostAnswer(t *testing.T) {
	w, dsn := through(t, readDatabase(t))
	m := openRead(t, dsn, everyProjection...)
	store := filled(t, 0)
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: everyProjection, Linger: time.Hour})
	history, err := lawtest.History{Seed: 3, Requests: 60}.Appends()
	if err != nil {
		t.Fatal(err)
	}
	for i, batch := range lawtest.Commits(t, store, history, 20) {
		w.armed.Store(i%2 == 0)
		r.Push(batch)
		for tries := 0; ; tries++ {
			err := r.WaitFor(context.Background(), batch[len(batch)-1].Last())
			if err == nil {
				break
			}
			if tries == 50 {
				t.Fatal(err)
			}
		}
	}
	if w.lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	for _, p := range everyProjection {
		report, err := projections.Verify(context.Background(), store, m, p, func() (projections.ReadModel, error) {
			return openShadow(t, dsn, p), nil
		})
		if err != nil || !report.Equal {
			t.Errorf("%+v, %v", report, err)
		}
	}
}

func TestReadModelGoesOnWhenItsServerWasStoppedAndStarted(t *testing.T) {
	ctx := context.Background()
	server := pgtest.Start(t)
	for name, how := range map[string]pgtest.Mode{"in order": pgtest.Fast, "by a crash": pgtest.Immediate} {
		t.Run(name, func(t *testing.T) {
			m := openRead(t, server.NewDatabase(t), everyProjection...)
			commit := func(from events.Position) error {
				var changes projections.Changes
				hour(&changes, "x", 3)
				return m.Commit(ctx, &changes, []projections.Step{{Projection: "stats", Version: stats.Projection{}.Version(), From: from, To: from + 1}})
			}
			if err := commit(0); err != nil {
				t.Fatal(err)
			}
			if _, err := m.BilledTotal(ctx); err != nil {
				t.Fatal(err)
			}
			server.Stop(t, how)
			if err := commit(1); err == nil {
				t.Error("a commit without a server went through")
			}
			if _, err := m.BilledTotal(ctx); err == nil {
				t.Error("a query without a server was answered")
			}
			server.Restart(t)
			if err := commit(1); err != nil { // what was committed before the crash is there
				t.Errorf("after the restart: %v", err)
			}
			server.Restart(t) // unnoticed
			if err := commit(2); err != nil {
				t.Errorf("a connection that had died since its last use was not replaced: %v", err)
			}
			if _, err := m.Requests(ctx, requestlog.Query{}); err != nil {
				t.Error(err)
			}
			if list, at := lawtest.Dump(t, m, stats.Projection{}); at != 3 || len(list) != 1 || !strings.Contains(list[0], " 9 9 ") {
				t.Errorf("%v at %d, want three additions", list, at)
			}
		})
	}
}

func TestAQueryOfAHungServerEndsWithItsContext(t *testing.T) {
	server := pgtest.Start(t)
	m := openRead(t, server.NewDatabase(t), everyProjection...)
	if _, err := m.Bill(context.Background(), billing.Query{}); err != nil {
		t.Fatal(err)
	}
	server.Pause(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := m.Bill(ctx, billing.Query{}); err == nil || time.Since(begun) > 20*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	server.Continue(t)
	if _, err := m.Bill(context.Background(), billing.Query{}); err != nil {
		t.Errorf("after the server went on: %v", err)
	}
}
