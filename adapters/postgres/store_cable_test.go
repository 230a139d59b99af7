package postgres_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// cable is the network between a store and its server. It can be cut at any point of a conversation.
type cable struct {
	dsn string // of the server, through this cable

	mu    sync.Mutex
	ends  map[net.Conn]bool
	down  bool // refuses new connections
	cutAt int  // chunks, of either direction, that still pass; negative: all do
	stays bool // after the cut it is down
	cuts  int

	dials atomic.Int64
}

func newCable(t testing.TB, dsn string) *cable {
	t.Helper()
	w := &cable{ends: map[net.Conn]bool{}, cutAt: -1}
	w.dsn = between(t, dsn, w.carry, w.cut)
	return w
}

// between puts somebody between a database and its clients, and returns the address through him. At the end of the test end ends
// the connections that carry still has.
func between(t testing.TB, dsn string, carry func(client net.Conn, server string), end func()) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := u.Host
	u.Host = l.Addr().String()
	var busy sync.WaitGroup
	busy.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			busy.Go(func() { carry(c, server) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // it has served
		end()
		busy.Wait()
	})
	return u.String()
}

// carry connects a client to the server until one of them, or a cut, ends it.
func (w *cable) carry(client net.Conn, address string) {
	defer client.Close()
	w.dials.Add(1)
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	w.mu.Lock()
	if w.down {
		w.mu.Unlock()
		return
	}
	w.ends[client], w.ends[server] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.pass(server, client) })
	both.Go(func() { w.pass(client, server) })
	both.Wait()
	w.mu.Lock()
	delete(w.ends, client)
	delete(w.ends, server)
	w.mu.Unlock()
}

// pass carries chunks; the one at which the cable is cut is lost.
func (w *cable) pass(to io.WriteCloser, from net.Conn) {
	defer to.Close()
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if err != nil || w.lost() {
			return
		}
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

// lost counts a chunk and cuts the cable when its time has come.
func (w *cable) lost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cutAt < 0 {
		return false
	}
	if w.cutAt--; w.cutAt >= 0 {
		return false
	}
	w.cuts++
	w.down = w.stays
	for c := range w.ends {
		_ = c.Close() // its copier ends
	}
	return true
}

// cutAfter lets so many chunks pass and then cuts all connections; stays says that no new ones can be made.
func (w *cable) cutAfter(chunks int, stays bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutAt, w.stays, w.cuts = chunks, stays, 0
}

// cut ends all connections now.
func (w *cable) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.ends {
		_ = c.Close() // its copier ends
	}
}

// mend ends an outage and says whether there was a cut.
func (w *cable) mend() (cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.cutAt = false, -1
	return w.cuts > 0
}
