package admin

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever has no token holds no connection with a request that never becomes whole.
func TestAStrangerHoldsNoConnection(t *testing.T) {
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"no token, a body that never comes":   {"POST /api/v1/apply HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", 401},
		"no token, a chunk that never comes":  {"POST /api/v1/apply HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
		"a wrong token":                       {"PUT /api/v1/users/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer no\r\nContent-Length: 1000\r\n\r\n", 401},
		"an open path":                        {"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", 200},
		"an open path that does not take one": {"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", 405},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r, conn := connected(t, newBench(t).srv)
				_, err := fmt.Fprint(conn, c.head)
				require.NoError(t, err)
				answer, err := http.ReadResponse(r, nil)
				require.NoError(t, err)
				require.Equal(t, c.status, answer.StatusCode)
				for err == nil {
					_, err = r.ReadByte()
				}
				require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the connection stays open")
			})
		})
	}
}

// A connection that was a stranger's is as good as any other to who comes on it with the token: the haste is over.
func TestTheTokenEndsTheHaste(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t)
		b.shelf.before = func() { time.Sleep(3 * strangerMax) } // a write that takes longer than strangers may
		r, conn := connected(t, b.srv)
		for _, c := range []struct {
			head   string
			status int
		}{
			{"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200},
			{"PUT /api/v1/users/u HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 2\r\n\r\n{}", 201},
		} {
			_, err := fmt.Fprint(conn, c.head)
			require.NoError(t, err)
			answer, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			require.Equal(t, c.status, answer.StatusCode)
			_, err = r.Discard(int(answer.ContentLength))
			require.NoError(t, err)
		}
	})
}

// bubble runs f in virtual time. What the pool of a journal keeps must not go from one bubble to another: two collections empty it.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	empty := func() { runtime.GC(); runtime.GC() }
	empty()
	defer empty()
	synctest.Test(t, f)
}

// pipes is a listener in memory: what goes over it takes no time of a bubble.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.end); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }

// connected lets the server serve, in the time of a bubble, and is a connection to it that no read or write waits on for much longer
// than a stranger may take.
func connected(t *testing.T, s *Server) (*bufio.Reader, net.Conn) {
	t.Helper()
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	mine, theirs := net.Pipe()
	l.conns <- theirs
	t.Cleanup(func() {
		require.NoError(t, mine.Close())
		require.NoError(t, s.http.Close())
		require.NoError(t, <-ended)
	})
	require.NoError(t, mine.SetDeadline(time.Now().Add(10*strangerMax)))
	return bufio.NewReader(mine), mine
}
