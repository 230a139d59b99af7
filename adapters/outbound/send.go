package outbound

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
)

// Transport implements actors.Transport over HTTP/1.1.
type Transport struct {
	// Socket, unless nil, gives what a connection is read from and written to. It is set before the first call.
	Socket func(*net.TCPConn) net.Conn

	egress Egress
	dialer net.Dialer
	tls    *tls.Config

	pools  atomic.Pointer[map[string]*pool] // by scheme and address; copied on write
	mu     sync.Mutex
	closed bool // under mu
	stop   chan struct{}
	ended  chan struct{}
	once   sync.Once
}

// New makes a Transport that goes out through egress. Close it.
func New(egress Egress) *Transport {
	t := &Transport{
		egress: egress,
		dialer: net.Dialer{KeepAlive: 30 * time.Second},
		tls:    &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(256)},
		stop:   make(chan struct{}),
		ended:  make(chan struct{}),
	}
	t.pools.Store(&map[string]*pool{})
	go t.sweep()
	return t
}

// Close closes the idle connections. Calls under way go on; their connections are closed when they end.
func (t *Transport) Close() {
	t.once.Do(func() { close(t.stop) })
	<-t.ended
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, p := range *t.pools.Load() {
		p.close()
	}
}

func (t *Transport) sweep() {
	defer close(t.ended)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, p := range *t.pools.Load() {
				p.sweep(now)
			}
		case <-t.stop:
			return
		}
	}
}

func (t *Transport) pool(scheme, host string) *pool {
	if p := (*t.pools.Load())[host]; p != nil && scheme == "http" {
		return p
	}
	name := host
	if scheme == "https" {
		name = "https://" + host
		if p := (*t.pools.Load())[name]; p != nil {
			return p
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.pools.Load()
	if p := old[name]; p != nil {
		return p
	}
	next := maps.Clone(old)
	p := &pool{closed: t.closed}
	next[name] = p
	t.pools.Store(&next)
	return p
}

// address adds the scheme's port to a host that has none.
func address(scheme, host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// Send sends the call and returns when the headers of the answer have come.
func (t *Transport) Send(o *actors.Outgoing) (actors.Incoming, error) {
	p := t.pool(o.Scheme, o.Host)
	now := time.Now()
	c, err := t.connect(p, o, now)
	if err != nil {
		return nil, err
	}
	if !c.used { // to make it took its time
		now = time.Now()
	}
	if !o.Gone.Hold(c) {
		p.put(c)
		return nil, &actors.SendError{Phase: actors.PhaseCancelled, Err: context.Canceled}
	}
	in, failed := t.exchange(c, p, o, now)
	if failed != nil {
		c.Close()
		if !o.Gone.Release() {
			failed.Phase = actors.PhaseCancelled
		}
		return nil, failed
	}
	return in, nil
}

func (t *Transport) connect(p *pool, o *actors.Outgoing, now time.Time) (*conn, error) {
	if !o.Fresh {
		if c := p.get(now); c != nil {
			return c, nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !o.Gone.Hold(closerFunc(cancel)) {
		return nil, &actors.SendError{Phase: actors.PhaseCancelled, Err: context.Canceled}
	}
	c, err := t.dial(ctx, o.Scheme, address(o.Scheme, o.Host), o.Connect)
	if !o.Gone.Release() {
		if c != nil {
			c.Close()
		}
		return nil, &actors.SendError{Phase: actors.PhaseCancelled, Err: context.Canceled}
	}
	if err != nil {
		return nil, &actors.SendError{Phase: connectPhase(err), Err: err}
	}
	return c, nil
}

type closerFunc func()

func (f closerFunc) Close() error { f(); return nil }

// connectPhase tells a fault of this machine from one of the upstream.
func connectPhase(err error) actors.Phase {
	var ne net.Error
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENETDOWN):
		return actors.PhaseLocal
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return actors.PhaseConnectTimeout
	}
	return actors.PhaseConnect
}

// exchange writes the request and reads the headers of the answer.
func (t *Transport) exchange(c *conn, p *pool, o *actors.Outgoing, now time.Time) (*incoming, *actors.SendError) {
	c.readWithin(o.First, now)
	c.writeWithin(o.First, now)
	c.writing.Store(true)
	unsent := write(c, o)
	if unsent == nil {
		c.writing.Store(false)
	}
	if unsent != nil && !isClosed(unsent) {
		return nil, &actors.SendError{Phase: writePhase(unsent), Err: unsent}
	}
	if len(o.Body) > bodyInline && unsent == nil {
		c.readWithin(o.First, time.Now())
	}
	in := incomings.Get().(*incoming)
	in.head.Reset()
	in.head.SetNoDefaultContentType(true)
	for {
		if err := in.head.Read(c.br); err != nil {
			incomings.Put(in)
			phase := headPhase(c, err)
			if err = unquoted(err); unsent != nil && phase != actors.PhaseStale {
				phase, err = actors.PhaseWrite, unsent
			}
			return nil, &actors.SendError{Phase: phase, Err: err}
		}
		if s := in.head.StatusCode(); s < 100 || s > 199 || s == 101 {
			break
		}
	}
	in.begin(c, p, o.Gone)
	if !in.here() { // what is to come has a bound of its own
		c.idle, now = o.Idle, time.Now()
		c.readWithin(o.Idle, now)
		c.writeWithin(0, now)
	}
	in.once = in.once || unsent != nil // it answered, and closed, before it had the whole request
	return in, nil
}

func writePhase(err error) actors.Phase {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() { // it took nothing for as long as it may take to answer
		return actors.PhaseFirstTimeout
	}
	return actors.PhaseWrite
}

func headPhase(c *conn, err error) actors.Phase {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, fasthttp.ErrTimeout):
		return actors.PhaseFirstTimeout
	case c.begun && !isClosed(err):
		return actors.PhaseMalformed
	case c.used && !c.begun && isClosed(err):
		return actors.PhaseStale
	}
	return actors.PhaseFirstByte
}

// Answers whose head can not be read.
var (
	errNoHead   = errors.New("the answer does not begin as one of HTTP/1.1 does")
	errLongHead = errors.New("the head of the answer is too long")
)

// unquoted is an error of reading a head without what was read, which the library quotes: who answers with our own words, such
// as an echo service, would have a credential and a prompt stored with the story of the request.
func unquoted(err error) error {
	var ne *net.OpError
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &ne):
		return ne
	case errors.As(err, &small):
		return errLongHead
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, fasthttp.ErrTimeout):
		return fasthttp.ErrTimeout
	}
	return errNoHead
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

func deadline(now time.Time, d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return now.Add(d)
}

var heads = sync.Pool{New: func() any { b := make([]byte, 0, writerSize); return &b }}

const (
	bodyInline = requestReuse / 2 // larger bodies are not copied behind the head
	bodyPiece  = 256 << 10        // a longer body is written in pieces, each of which may take as long as First
)

// write sends the request: in one write when it is small.
func write(c *conn, o *actors.Outgoing) error {
	hp := heads.Get().(*[]byte)
	b := append((*hp)[:0], o.Method...)
	b = append(b, ' ')
	b = append(b, o.Target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, o.Host...)
	b = append(b, "\r\n"...)
	for _, h := range o.Headers {
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
	}
	if len(o.Body) > 0 || o.Method != "GET" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(o.Body)), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	var err error
	if len(o.Body) <= bodyInline {
		b = append(b, o.Body...)
		_, err = c.Write(b)
	} else {
		n := min(len(o.Body), bodyPiece)
		bufs := net.Buffers{b, o.Body[:n]}
		_, err = bufs.WriteTo(c.Conn)
		for rest := o.Body[n:]; len(rest) > 0 && err == nil; rest = rest[n:] {
			n = min(len(rest), bodyPiece)
			c.writeWithin(o.First, time.Now())
			_, err = c.Write(rest[:n])
		}
	}
	if cap(b) <= requestReuse {
		*hp = b
		heads.Put(hp)
	}
	return err
}

var _ actors.Transport = (*Transport)(nil)
