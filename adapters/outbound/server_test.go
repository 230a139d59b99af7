package outbound

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/actors"
)

// upstream is a TCP server that a test scripts, connection by connection.
type upstream struct {
	t        *testing.T
	host     string
	accepted atomic.Int32
	requests atomic.Int32
	config   *tls.Config
	wg       sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool
}

// peer is one connection as the upstream sees it.
type peer struct {
	net.Conn
	br *bufio.Reader
	u  *upstream
	n  int // of the connection, from 1
}

// serve runs script for each connection, and closes the connection after it.
func serve(t *testing.T, script func(p *peer)) *upstream { return serveTLS(t, nil, script) }

func serveTLS(t *testing.T, config *tls.Config, script func(p *peer)) *upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u := &upstream{t: t, host: ln.Addr().String(), config: config, open: map[net.Conn]bool{}}
	u.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.open[c] = true
			u.mu.Unlock()
			u.wg.Go(func() {
				defer c.Close()
				nc := c
				if config != nil {
					nc = tls.Server(c, config)
				}
				script(&peer{Conn: nc, br: bufio.NewReader(nc), u: u, n: int(u.accepted.Add(1))})
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		u.mu.Lock()
		for c := range u.open {
			c.Close()
		}
		u.mu.Unlock()
		u.wg.Wait()
	})
	return u
}

// piped is an upstream at the other end of a connection in memory, which tr has at rest: in the time of a bubble nothing is late.
func piped(t *testing.T, tr *Transport, script func(p *peer)) *upstream {
	t.Helper()
	u := &upstream{t: t, host: "piped"}
	mine, theirs := net.Pipe()
	tr.pool("http", u.host).put(newConn(mine, nil))
	u.wg.Go(func() {
		defer theirs.Close()
		script(&peer{Conn: theirs, br: bufio.NewReader(theirs), u: u, n: 1})
	})
	t.Cleanup(func() {
		theirs.Close()
		u.wg.Wait()
	})
	return u
}

// request reads a whole request; nil: the connection has ended.
func (p *peer) request() *http.Request {
	r, err := http.ReadRequest(p.br)
	if err != nil {
		return nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	p.u.requests.Add(1)
	return r
}

// say writes pieces, each in a packet of its own as far as the kernel lets us.
func (p *peer) say(pieces ...string) {
	for _, s := range pieces {
		if _, err := io.WriteString(p, s); err != nil {
			return
		}
		runtime.Gosched()
	}
}

// gone waits until the other side has closed the connection.
func (p *peer) gone() { _, _ = io.Copy(io.Discard, p.br) }

func (p *peer) reset() { _ = p.Conn.(*net.TCPConn).SetLinger(0) }

const plainOK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// transport is closed, with every connection, at the end of the test.
func transport(t *testing.T) *Transport {
	t.Helper()
	tr := New(Egress{})
	t.Cleanup(tr.Close)
	return tr
}

// call is a request with bounds that a sound test never reaches.
func call(u *upstream) *actors.Outgoing {
	o := &actors.Outgoing{
		Method: "POST", Scheme: "http", Host: u.host, Target: "/v1/messages?x=1", Body: []byte(`{"model":"m"}`),
		Headers: []actors.Header{{Name: "X-Api-Key", Value: "secret"}, {Name: "Content-Type", Value: "application/json"}},
		Connect: time.Minute, First: time.Minute, Idle: time.Minute, Gone: &actors.Gone{},
	}
	if u.config != nil {
		o.Scheme = "https"
	}
	return o
}

func send(t *testing.T, tr *Transport, o *actors.Outgoing) actors.Incoming {
	t.Helper()
	in, err := tr.Send(o)
	require.NoError(t, err)
	return in
}

// whole sends and reads everything.
func whole(t *testing.T, tr *Transport, o *actors.Outgoing) string {
	t.Helper()
	in := send(t, tr, o)
	b, err := io.ReadAll(in)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	return string(b)
}

func phase(t *testing.T, err error) actors.Phase {
	t.Helper()
	var se *actors.SendError
	require.True(t, errors.As(err, &se), "%T %v", err, err)
	return se.Phase
}

// outcome is the phase at which a call ends, "" when it is read to its end.
func outcome(t *testing.T, tr *Transport, o *actors.Outgoing) actors.Phase {
	t.Helper()
	in, err := tr.Send(o)
	if err != nil {
		return phase(t, err)
	}
	defer in.Close()
	if _, err = io.ReadAll(in); err != nil {
		return phase(t, err)
	}
	return ""
}

// within fails a test that takes too long, long before its bounds would end it.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	require.Less(t, time.Since(began), d, what)
}

// testCA is a certificate for 127.0.0.1 and the pool that trusts it.
func testCA(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, pool
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(list)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond, what)
}

// peerClosed says whether the other side has closed, without reading what it has sent.
func peerClosed(c *net.TCPConn) bool {
	rc, err := c.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = rc.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, _ := unix.Poll(fds, 0)
		gone = n > 0
	})
	return gone || err != nil
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
