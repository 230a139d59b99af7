package outbound

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
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
	egress Egress
	dialer net.Dialer
	tls    *tls.Config

	pools atomic.Pointer[map[string]*pool] // by scheme and address; copied on write
	mu    sync.Mutex
	stop  chan struct{}
	ended chan struct{}
	once  sync.Once
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

// Close closes the idle connections. Calls under way go on.
func (t *Transport) Close() {
	t.once.Do(func() { close(t.stop) })
	<-t.ended
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
	next := make(map[string]*pool, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	p := &pool{}
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
	c, err := t.connect(p, o)
	if err != nil {
		return nil, err
	}
	if !o.Gone.Hold(c) {
		p.put(c)
		return nil, &actors.SendError{Phase: actors.PhaseCancelled, Err: context.Canceled}
	}
	in, failed := t.exchange(c, p, o)
	if failed != nil {
		c.Close()
		if !o.Gone.Release() {
			failed.Phase = actors.PhaseCancelled
		}
		return nil, failed
	}
	return in, nil
}

func (t *Transport) connect(p *pool, o *actors.Outgoing) (*conn, error) {
	if !o.Fresh {
		if c := p.get(time.Now()); c != nil {
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
func (t *Transport) exchange(c *conn, p *pool, o *actors.Outgoing) (*incoming, *actors.SendError) {
	start := time.Now()
	_ = c.SetDeadline(deadline(start, o.First))
	if err := write(c, o); err != nil {
		phase := actors.PhaseWrite
		if c.used && isClosed(err) {
			phase = actors.PhaseStale
		}
		return nil, &actors.SendError{Phase: phase, Err: err}
	}
	in := incomings.Get().(*incoming)
	in.head.Reset()
	for {
		if err := in.head.Read(c.br); err != nil {
			incomings.Put(in)
			return nil, &actors.SendError{Phase: headPhase(c, err), Err: err}
		}
		if s := in.head.StatusCode(); s < 100 || s > 199 || s == 101 {
			break
		}
	}
	_ = c.SetWriteDeadline(time.Time{})
	if o.Idle > 0 {
		c.idle, c.armed = o.Idle, start
		_ = c.SetReadDeadline(time.Now().Add(o.Idle))
	} else {
		_ = c.SetReadDeadline(time.Time{})
	}
	in.begin(c, p, o.Gone)
	return in, nil
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

// write sends the request in one write when it is small, in two when it is not.
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
	if len(o.Body) <= requestReuse/2 {
		b = append(b, o.Body...)
		_, err = c.Write(b)
	} else {
		bufs := net.Buffers{b, o.Body}
		_, err = bufs.WriteTo(c.Conn)
	}
	if cap(b) <= requestReuse {
		*hp = b
		heads.Put(hp)
	}
	return err
}

var _ actors.Transport = (*Transport)(nil)

var incomings = sync.Pool{New: func() any { return &incoming{} }}

// incoming is one answer.
type incoming struct {
	head    fasthttp.ResponseHeader
	c       *conn
	p       *pool
	br      *bufio.Reader
	gone    *actors.Gone
	left    int64 // bytes of the body, or of the present chunk, that are still to come
	chunked bool
	toClose bool // the body ends with the connection
	first   bool // no chunk header has been read yet
	ended   bool // the body was read to its proper end
	closed  bool
}

func (in *incoming) begin(c *conn, p *pool, gone *actors.Gone) {
	in.c, in.p, in.br, in.gone = c, p, c.br, gone
	in.chunked, in.toClose, in.ended, in.closed, in.left, in.first = false, false, false, false, 0, true
	n := in.head.ContentLength()
	switch s := in.head.StatusCode(); {
	case s == 204 || s == 304:
		in.ended = true
	case n == -1:
		in.chunked = true
	case n < 0:
		in.toClose = true
	default:
		in.left, in.ended = int64(n), n == 0
	}
}

func (in *incoming) Status() int { return in.head.StatusCode() }

func (in *incoming) Header(name string) string { return string(in.head.Peek(name)) }

func (in *incoming) Headers(yield func(name, value []byte)) {
	for k, v := range in.head.All() {
		yield(k, v)
	}
}

func (in *incoming) Length() int {
	if in.chunked || in.toClose {
		return -1
	}
	return int(in.left)
}

// Buffered says how much body a Read would give without waiting. Bytes of the chunked framing do not count.
func (in *incoming) Buffered() int {
	n := in.br.Buffered()
	switch {
	case in.ended || n == 0:
		return 0
	case !in.chunked:
		return n
	case in.left > 0:
		return int(min(in.left, int64(n)))
	}
	b, err := in.br.Peek(n)
	if err != nil {
		return 0
	}
	if !in.first { // the end of the last chunk
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return 0
		}
		b = b[i+1:]
	}
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return 0
	}
	return len(b) - i - 1 // of the next chunk, or the end of the body
}
