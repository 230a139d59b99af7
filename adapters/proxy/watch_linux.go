package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/actors"
)

const lingerMax = time.Second

// watcher notices clients that hang up, also while nothing is read from them or written to them. It keeps one epoll
// set in which each connection is registered once, edge-triggered, for its hang-up only. A half-closed connection
// counts as gone.
type watcher struct {
	epoll int
	wake  [2]int // a pipe; closing its write end stops the loop
	mu    sync.RWMutex
	conns map[uint64]*watched
	last  atomic.Uint64 // token
	ended chan struct{}
}

func newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Wrap(err, "epoll")
	}
	w := &watcher{epoll: fd, conns: map[uint64]*watched{}, ended: make(chan struct{})}
	if err := unix.Pipe2(w.wake[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		unix.Close(fd)
		return nil, errors.Wrap(err, "pipe")
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP} // token 0
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, w.wake[0], &ev); err != nil {
		unix.Close(fd)
		unix.Close(w.wake[0])
		unix.Close(w.wake[1])
		return nil, errors.Wrap(err, "epoll")
	}
	go w.loop()
	return w, nil
}

// close ends the loop; connections that are still open are no longer watched.
func (w *watcher) close() {
	unix.Close(w.wake[1])
	<-w.ended
	unix.Close(w.wake[0])
	unix.Close(w.epoll)
}

func (w *watcher) loop() {
	defer close(w.ended)
	evs := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(w.epoll, evs, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for i := 0; i < n; i++ {
			token := uint64(uint32(evs[i].Fd)) | uint64(uint32(evs[i].Pad))<<32
			if token == 0 {
				return
			}
			w.mu.RLock()
			c := w.conns[token]
			w.mu.RUnlock()
			if c != nil {
				c.hungUp()
			}
		}
	}
}

// hangUp treats every client as gone.
func (w *watcher) hangUp() {
	w.mu.RLock()
	all := make([]*watched, 0, len(w.conns))
	for _, c := range w.conns {
		all = append(all, c)
	}
	w.mu.RUnlock()
	for _, c := range all {
		c.hungUp()
	}
}

// watched is a client connection. At most one request at a time is told when it goes.
type watched struct {
	*net.TCPConn
	io    net.Conn // the same, for reads and writes
	w     *watcher
	token uint64
	gone  atomic.Bool
	tell  atomic.Pointer[actors.Gone]
	once  sync.Once

	lingers atomic.Bool

	said  texts
	limit limit // of the next read
	// The start of the present request, for the answer to one that can not be read. Owned by the connection's goroutine.
	seen   bool
	line   [128]byte
	length int
}

// Read keeps the start of a request.
func (c *watched) Read(p []byte) (int, error) {
	n, err := c.io.Read(p)
	for n == 0 && isTimeout(err) && c.limit.early(time.Now()) {
		_ = c.TCPConn.SetReadDeadline(c.limit.armed)
		n, err = c.io.Read(p)
	}
	if !c.seen && n > 0 {
		c.seen, c.length = true, copy(c.line[:], p[:n])
	}
	return n, err
}

// Write implements net.Conn.
func (c *watched) Write(p []byte) (int, error) { return c.io.Write(p) }

// SetReadDeadline bounds the next read. The server does so twice for each request, always some minutes ahead, and hardly
// ever does one of them pass: the timer is left where it stands while it is early enough.
func (c *watched) SetReadDeadline(t time.Time) error {
	if c.limit.set(t) {
		return c.TCPConn.SetReadDeadline(t)
	}
	return nil
}

// SetDeadline bounds the next read and write.
func (c *watched) SetDeadline(t time.Time) error {
	c.limit = limit{wanted: t, armed: t}
	return c.TCPConn.SetDeadline(t)
}

// limit is a deadline with a timer that may stand before it, and is then set anew when it has gone off. The zero value
// has neither.
type limit struct{ wanted, armed time.Time }

// set moves the deadline, and says whether the timer has to move as well.
func (l *limit) set(t time.Time) bool {
	l.wanted = t
	if !l.armed.IsZero() && (t.IsZero() || !t.Before(l.armed)) {
		return false
	}
	move := !l.armed.Equal(t)
	l.armed = t
	return move
}

// early says that the timer went off before the deadline, and has to be set to armed.
func (l *limit) early(now time.Time) bool {
	if l.wanted.IsZero() || now.Before(l.wanted) {
		l.armed = l.wanted
		return true
	}
	return false
}

// alone says that the present request came by itself, on a plain connection: nothing of the answer before it can still wait to
// be sent, so that one may write past the server. One that came in the tail of another (pipelined) does not begin what was
// read last. It is asked before next.
func (c *watched) alone(method, uri []byte) bool {
	if c == nil {
		return false
	}
	line := c.line[:c.length]
	for _, part := range [...][]byte{method, {' '}, uri} {
		n := min(len(part), len(line))
		if !bytes.Equal(part[:n], line[:n]) {
			return false
		}
		line = line[n:]
	}
	return c.seen
}

// next says that what is read from now on is another request.
func (c *watched) next() { c.seen = false }

// asked is the start of the present request.
func (c *watched) asked() string { return string(c.line[:c.length]) }

func (c *watched) hungUp() {
	c.gone.Store(true)
	if g := c.tell.Swap(nil); g != nil {
		g.Fire()
	}
}

// Close forgets the connection; the kernel takes it out of the epoll set.
func (c *watched) Close() error {
	c.once.Do(func() {
		c.w.mu.Lock()
		delete(c.w.conns, c.token)
		c.w.mu.Unlock()
	})
	if c.lingers.Load() && c.CloseWrite() == nil {
		_ = c.TCPConn.SetReadDeadline(time.Now().Add(lingerMax))
		_, _ = io.Copy(io.Discard, c.TCPConn)
	}
	return c.TCPConn.Close()
}

// hearOut has Close read on for a while: a client that still sends sees our answer only if what it sends is not refused
// with a reset.
func (c *watched) hearOut() { c.lingers.Store(true) }

// onGone fires g when the client goes, at once if it has gone. disarm ends that; a disarm that loses the race can not
// touch the next request's. A nil connection is one that nobody watches.
func (c *watched) onGone(g *actors.Gone) {
	if c == nil {
		return
	}
	c.tell.Store(g)
	if c.gone.Load() {
		if g := c.tell.Swap(nil); g != nil {
			g.Fire()
		}
	}
}

func (c *watched) disarm(g *actors.Gone) {
	if c != nil {
		c.tell.CompareAndSwap(g, nil)
	}
}

// texts is what the last request has said.
func (c *watched) texts() *texts {
	if c == nil {
		return &texts{}
	}
	return &c.said
}

// watchedBy finds the watched connection below what the server hands out.
func watchedBy(nc net.Conn) *watched {
	for {
		switch v := nc.(type) {
		case *watched:
			return v
		case *tls.Conn:
			nc = v.NetConn()
		case interface{ NetConn() net.Conn }:
			nc = v.NetConn()
		default:
			return nil
		}
	}
}

// watchListener registers each accepted connection.
type watchListener struct {
	net.Listener
	w      *watcher
	socket func(*net.TCPConn) net.Conn // nil: as it is
}

func (l *watchListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tc, ok := nc.(*net.TCPConn)
		if !ok {
			return nc, nil
		}
		c := &watched{TCPConn: tc, io: tc, w: l.w, token: l.w.last.Add(1)}
		if l.socket != nil {
			c.io = l.socket(tc)
		}
		if err := l.w.add(c); err != nil { // gone already, or no memory: this client is lost, not the listener
			c.Close()
			continue
		}
		return c, nil
	}
}

func (w *watcher) add(c *watched) error {
	w.mu.Lock()
	w.conns[c.token] = c
	w.mu.Unlock()
	rc, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = rc.Control(func(fd uintptr) {
		// A vanished peer sends nothing: let the kernel find out.
		_ = unix.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 60_000)
		ev := unix.EpollEvent{
			Events: unix.EPOLLRDHUP | unix.EPOLLET,
			Fd:     int32(uint32(c.token)), Pad: int32(uint32(c.token >> 32)),
		}
		failed = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(fd), &ev)
	})
	if err != nil {
		return err
	}
	return failed
}
