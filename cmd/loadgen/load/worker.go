package load

import (
	"bytes"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
)

// worker is one connection that sends one request after the other. Only its own goroutine touches it, except that
// the run may cut the live connection at the end.
type worker struct {
	run     *run
	conn    *net.TCPConn
	live    atomic.Pointer[net.TCPConn]
	buf     []byte // unread bytes are buf[r:w]
	r, w    int
	request []byte // head and body, ready to send
	rid     []byte // the digits in it; nil = none
	rng     *rand.Rand
	renewed time.Time // when the deadline was set
	used    bool      // the connection has carried a request
	timer   *time.Timer

	a        answer
	lines    lineScanner
	terminal finder
	expect   finder
}

func newWorker(r *run, i int) *worker {
	w := &worker{run: r, buf: make([]byte, r.bufSize()), request: r.requests[i%len(r.requests)],
		rng:      rand.New(rand.NewPCG(r.o.Seed, uint64(i))),
		terminal: newFinder(r.terminals), expect: newFinder([][]byte{[]byte(r.o.Expect)})}
	if r.o.RID {
		w.request = slices.Clone(w.request)
		at := bytes.Index(w.request, []byte("[rid:")) + len("[rid:") + len(r.o.RIDPrefix) + 1
		w.rid = w.request[at : at+len(ridDigits)]
	}
	return w
}

// loop works until the run stops or its requests are used up.
func (w *worker) loop() {
	defer w.drop()
	r := w.run
	for !r.stopped() {
		if i := r.issued.Add(1); r.o.Total > 0 && i > r.o.Total {
			return
		}
		due := time.Time{}
		if r.o.Rate > 0 {
			if due = r.next(); !w.sleep(time.Until(due)) {
				return
			}
		}
		begin := time.Now()
		if due.IsZero() {
			due = begin
		}
		abort := r.o.AbortRate > 0 && w.rng.Float64() < r.o.AbortRate
		if w.rid != nil {
			number(w.rid, r.rids.Add(1))
		}
		r.active.Add(1)
		err := w.attempt(abort, begin)
		r.active.Add(-1)
		end := time.Now()
		if err != nil || w.a.aborted || !w.a.keepAlive || r.o.NewConnections {
			w.drop()
		}
		if s := r.window.Load(); s != nil {
			w.count(s, err, due, begin, end)
		}
		if err != nil {
			w.sleep(time.Millisecond) // a server that is down must not be hammered
		}
	}
}

// sleep waits for d; false means that the run has stopped.
func (w *worker) sleep(d time.Duration) bool {
	if d <= 0 {
		return !w.run.stopped()
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.timer.C:
		return true
	case <-w.run.stop:
		return false
	}
}

// staleWithin tells a connection that was closed already from a server that closes instead of answering.
const staleWithin = 20 * time.Millisecond

// attempt sends one request, dialling first if need be. A kept-alive connection that the server had closed in the
// meantime is no error of the server's: the request goes out once more, on a new one.
func (w *worker) attempt(abort bool, begin time.Time) error {
	for try := 0; ; try++ {
		if w.conn == nil {
			if err := w.dial(); err != nil {
				w.a = answer{}
				return err
			}
		}
		used := w.used
		w.used = true
		err := w.exchange(abort)
		if err == nil || !used || try > 0 || w.a.status != 0 || time.Since(begin) > staleWithin {
			return err
		}
		if k := kind(err); k != "eof" && k != "reset" {
			return err
		}
		w.drop()
		if s := w.run.window.Load(); s != nil {
			s.stale.Add(1)
		}
	}
}

func (w *worker) dial() error {
	t := time.Now()
	c, err := net.DialTimeout("tcp", w.run.addr, min(10*time.Second, w.run.o.Timeout))
	if err != nil {
		return err
	}
	if s := w.run.window.Load(); s != nil {
		s.connect.add(time.Since(t))
	}
	w.conn, w.r, w.w, w.renewed, w.used = c.(*net.TCPConn), 0, 0, time.Time{}, false
	w.live.Store(w.conn)
	if w.run.stopped() { // the run may have looked before it was there
		w.drop()
		return errors.New("stopped")
	}
	return nil
}

func (w *worker) drop() {
	if w.conn != nil {
		w.live.Store(nil)
		w.conn.Close()
		w.conn = nil
	}
}

// count adds one ended request to the window.
func (w *worker) count(s *stats, err error, due, begin, end time.Time) {
	a := &w.a
	s.done.Add(1)
	s.bytes.Add(a.bytes)
	switch {
	case err != nil:
		k := kind(err)
		if a.status > 0 {
			k += "_mid_body"
		}
		s.countError(k)
		return
	case a.aborted:
		s.aborted.Add(1)
		return
	}
	s.countStatus(a.status)
	if a.status != 200 {
		return
	}
	switch {
	case a.sse && !w.terminal.found:
		s.incomplete.Add(1)
	case w.run.o.Expect != "" && !w.expect.found:
		s.badBody.Add(1)
	default:
		s.ok.Add(1)
	}
	s.total.add(end.Sub(due))
	s.service.add(end.Sub(begin))
	if !a.first.IsZero() {
		s.ttfb.add(a.first.Sub(due))
	}
}
