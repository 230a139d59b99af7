// Package outbound sends calls to upstreams over HTTP/1.1: pooled connections, a bound on each phase, cancellation by
// closing the connection, and never a retry of its own.
package outbound

import (
	"bufio"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	idleMax      = 60 * time.Second // providers close idle connections after 60 s or more
	idlePerHost  = 1024
	readerSize   = 16 << 10
	writerSize   = 4 << 10
	requestReuse = 64 << 10 // larger header buffers are not kept
)

// conn is one connection to an upstream with its buffers. It belongs to one call at a time.
type conn struct {
	net.Conn
	raw   *net.TCPConn // below TLS
	br    *bufio.Reader
	idle  time.Duration // bound on each read once the answer has begun; 0: none yet
	begun bool          // a byte of the answer has come
	used  bool          // it has carried a call before
	since time.Duration // since epoch: the end of its last call

	reads, writes bound

	writing atomic.Bool // a request is being written

	below  syscall.RawConn  // of raw
	look   func(fd uintptr) // peek, made once
	first  [1]byte          // that it saw
	silent bool             // it saw nothing
}

// Read arms the idle bound.
func (c *conn) Read(p []byte) (int, error) {
	if c.begun && c.idle > 0 {
		c.readWithin(c.idle, time.Now())
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.begun = true
	}
	return n, err
}

// readWithin bounds the next reads, writeWithin the next writes: see bound. 0: no bound.
func (c *conn) readWithin(d time.Duration, now time.Time) {
	if c.reads.move(d, now) {
		_ = c.SetReadDeadline(c.reads.at)
	}
}

func (c *conn) writeWithin(d time.Duration, now time.Time) {
	if c.writes.move(d, now) {
		_ = c.SetWriteDeadline(c.writes.at)
	}
}

// bound is a deadline of a connection: never before the time that was asked for, and at most an eighth of it later. That
// play lets one deadline stand for many reads and many calls, since to move it costs as much as a short read.
type bound struct{ at time.Time } // zero: none

// move says that the deadline has to be set anew.
func (b *bound) move(d time.Duration, now time.Time) bool {
	most := d + d/8
	left := b.at.Sub(now)
	if d <= 0 && b.at.IsZero() || d > 0 && left >= d && left <= most {
		return false
	}
	b.at = deadline(now, most)
	return true
}

// Close closes the socket, from any goroutine. TLS gets no farewell: it could wait for a peer that reads nothing. Half a
// request is taken back from the kernel, which would go on sending what it has of it.
func (c *conn) Close() error {
	if c.raw == nil {
		return c.Conn.Close()
	}
	if c.writing.Load() {
		_ = c.raw.SetLinger(0)
	}
	return c.raw.Close()
}

// alive looks, without waiting, whether the peer has closed the connection or sent something unasked, which would be taken for
// the answer to the next call.
func (c *conn) alive() bool {
	c.silent = false
	return c.below.Control(c.look) == nil && c.silent
}

// peek looks what stands in the socket. The call never waits, so the scheduler need not be told of it; c stays where it is.
func (c *conn) peek(fd uintptr) {
	const flags = syscall.MSG_PEEK | syscall.MSG_DONTWAIT
	_, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&c.first)), uintptr(len(c.first)), flags, 0, 0)
	c.silent = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}

// epoch is when the program began: what passed since then is read from one clock, and takes half as long as the time of day.
var epoch = time.Now()

// pool keeps idle connections to one address, the latest used on top.
type pool struct {
	mu     sync.Mutex
	idle   []*conn
	closed bool // nothing is kept any more
}

func (p *pool) get(now time.Time) *conn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if now.Sub(epoch)-c.since < idleMax && (c.raw == nil || c.alive()) {
			return c
		}
		c.Close()
	}
}

func (p *pool) put(c *conn) {
	c.idle, c.begun, c.used, c.since = 0, false, true, time.Since(epoch)
	p.mu.Lock()
	if len(p.idle) < idlePerHost && !p.closed {
		p.idle = append(p.idle, c)
		c = nil
	}
	p.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// sweep closes what has rested too long. The oldest are at the bottom.
func (p *pool) sweep(now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(epoch)-p.idle[n].since >= idleMax {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = append(p.idle[:0], p.idle[n:]...)
	clear(p.idle[len(p.idle):cap(p.idle)])
	p.mu.Unlock()
	for _, c := range old {
		c.Close()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}

// newConn gives a connection its buffers; raw is what is below it.
func newConn(nc net.Conn, raw *net.TCPConn) *conn {
	c := &conn{Conn: nc, raw: raw}
	c.br = bufio.NewReaderSize(c, readerSize)
	c.look = c.peek
	if raw != nil {
		c.below, _ = raw.SyscallConn() // never fails for a connection that was made
	}
	return c
}
