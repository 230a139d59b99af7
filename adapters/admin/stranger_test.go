package admin

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever has no token holds no connection with a request that never becomes whole.
func TestAStrangerHoldsNoConnection(t *testing.T) {
	s := newBench(t).srv
	require.Equal(t, strangerMax, s.strangerMax)
	s.strangerMax = 100 * time.Millisecond
	address := listening(t, s)
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
		r := begin(t, address, c.head)
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err, name)
		require.Equal(t, c.status, answer.StatusCode, name)
		for err == nil {
			_, err = r.ReadByte()
		}
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection stays open", name)
	}
}

// A connection that was a stranger's is as good as any other to who comes on it with the token: the haste is over.
func TestTheTokenEndsTheHaste(t *testing.T) {
	b := newBench(t)
	b.srv.strangerMax = 100 * time.Millisecond
	slow := make(chan struct{})
	b.shelf.before = func() { <-slow }
	r, conn := connected(t, listening(t, b.srv))
	for _, c := range []struct {
		head   string
		status int
	}{
		{"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"PUT /api/v1/users/u HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 2\r\n\r\n{}", 201},
	} {
		if c.status == 201 {
			time.AfterFunc(3*b.srv.strangerMax, func() { close(slow) }) // a write that takes longer than strangers may
		}
		_, err := fmt.Fprint(conn, c.head)
		require.NoError(t, err)
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, c.status, answer.StatusCode)
		_, err = r.Discard(int(answer.ContentLength))
		require.NoError(t, err)
	}
}

func listening(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.http.Close())
		require.NoError(t, <-ended)
	})
	return l.Addr().String()
}

// connected is a connection that no read or write waits on for longer than a test may take.
func connected(t *testing.T, address string) (*bufio.Reader, net.Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return bufio.NewReader(conn), conn
}

func begin(t *testing.T, address, head string) *bufio.Reader {
	t.Helper()
	r, conn := connected(t, address)
	_, err := fmt.Fprint(conn, head)
	require.NoError(t, err)
	return r
}
