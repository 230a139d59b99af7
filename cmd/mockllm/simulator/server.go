package simulator

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
)

// Options make a Server. The zero value is a healthy upstream with seed 0 that keeps no records.
type Options struct {
	Seed          uint64   // of every random decision
	Exact         bool     // MaxInFlight leaves out whose client has gone unnoticed; costs a look at every connection at each new mark
	TrackRequests bool     // keep RequestRecords and the last request; costs a copy of each header block
	Config        Config   // behaviours at the start; Start reports what is wrong with them
	Base          Behavior // what POST /config takes for fields left out of "default"; zero = Config.Default
}

const connectionsMax = 60_000

// Server is one simulated upstream. Several may run in one process. Make it with New; all methods may be
// called from any goroutine.
type Server struct {
	seed  uint64
	exact bool
	track bool
	base  Behavior
	bad   error // of Options.Config, for Start
	rules atomic.Pointer[ruleSet]
	began int64 // unix seconds, the "created" of every answer

	seq                  atomic.Uint64
	all, conns           gauge
	byKey, byModel, path group
	ok, chunks           atomic.Int64
	faults               [faultKinds]atomic.Int64
	statusMu             sync.Mutex
	status               map[int]int64 // all but 200
	diary                diary

	mu   sync.Mutex
	ln   net.Listener
	addr string
	open map[*conn]struct{} // nil while stopped
	wg   *sync.WaitGroup    // of the present run
}

// New makes a server that does not listen yet.
func New(o Options) *Server {
	if o.Config.Default == (Behavior{}) {
		o.Config.Default = Healthy()
	}
	if o.Base == (Behavior{}) {
		o.Base = o.Config.Default
	}
	s := &Server{seed: o.Seed, exact: o.Exact, track: o.TrackRequests, base: o.Base, status: map[int]int64{}, began: time.Now().Unix()}
	if s.bad = s.SetConfig(o.Config); s.bad != nil {
		s.SetConfig(Config{})
	}
	return s
}

// Start listens on addr, which must be loopback; "127.0.0.1:0" takes a free port. After Close it may be called
// again, with the same address to play an upstream that comes back.
func (s *Server) Start(addr string) error {
	if s.bad != nil {
		return errors.Wrap(s.bad, "config")
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.Wrapf(err, "address %q", addr)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errors.Newf("address %q: the simulator listens on loopback only", addr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		return errors.Newf("already listening on %s", s.addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Wrapf(err, "address %q", addr)
	}
	s.ln, s.addr, s.open, s.wg = ln, ln.Addr().String(), map[*conn]struct{}{}, &sync.WaitGroup{}
	s.wg.Go(func() { s.accept(ln) })
	return nil
}

// accept takes connections until the listener closes.
func (s *Server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most likely: connections must end before more can come
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c := &conn{s: s, c: nc.(*net.TCPConn), buf: make([]byte, bufSize)}
		if !s.admit(c) {
			nc.Close()
			continue
		}
		go c.serve()
	}
}

func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil || len(s.open) >= connectionsMax {
		return false
	}
	s.open[c] = struct{}{}
	c.wg = s.wg
	c.wg.Add(1)
	s.conns.enter()
	return true
}

func (s *Server) dismiss(c *conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.conns.leave(completed, true)
	c.wg.Done()
}

// discount takes those out of the calls in flight whose clients have closed their connections, without the goroutine of
// that connection having come to see it.
func (s *Server) discount(but *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c == but || !c.counted.Load() || !departed(c.c) || !c.counted.CompareAndSwap(true, false) {
			continue
		}
		for _, g := range c.t.gauges {
			g.now.Add(-1)
		}
	}
}

// Close stops listening, cuts every connection and returns when all goroutines have ended. What was counted
// stays readable. Closing a server that does not run does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.open == nil {
		s.mu.Unlock()
		return nil
	}
	err := s.ln.Close()
	for c := range s.open {
		c.c.Close()
	}
	s.open = nil
	wg := s.wg
	s.mu.Unlock()
	wg.Wait()
	return errors.Wrap(err, "close")
}

// Addr is the host:port last listened on; empty before the first Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// URL is the base URL, without a trailing slash; empty before the first Start.
func (s *Server) URL() string {
	if a := s.Addr(); a != "" {
		return "http://" + a
	}
	return ""
}

// SetConfig replaces the behaviours for all requests that arrive from now on. A Config that cannot be played is
// refused with an error that names the field, and changes nothing.
func (s *Server) SetConfig(c Config) error {
	r, err := compile(c)
	if err != nil {
		return err
	}
	s.rules.Store(r)
	return nil
}

// Config is the set of behaviours in force.
func (s *Server) Config() Config { return s.rules.Load().Config }

// Requests are the records by request id; empty without Options.TrackRequests. The last 100,000 ids (and
// 64 MiB of headers) are kept.
func (s *Server) Requests() map[string]RequestRecord { return s.diary.records() }

// Calls are the records of the last 50,000 requests, in the order of their arrival; empty without Options.TrackRequests.
func (s *Server) Calls() []Call { return s.diary.copies() }

// Last is the request that arrived last; false if there was none, or without Options.TrackRequests.
func (s *Server) Last() (LastRequest, bool) { return s.diary.lastRequest() }

// Stats is a copy of the counters.
func (s *Server) Stats() Stats {
	st := Stats{All: s.all.count(), Connections: s.conns.count(), ChunksSent: s.chunks.Load(), Forgotten: s.diary.dropped(),
		ByKey: s.byKey.counts(), ByModel: s.byModel.counts(), ByPath: s.path.counts(),
		Status: map[int]int64{200: s.ok.Load()}, Faults: map[string]int64{}}
	for _, f := range faults {
		if n := s.faults[f.kind].Load(); n > 0 {
			st.Faults[f.field] = n
		}
	}
	s.statusMu.Lock()
	defer s.statusMu.Unlock()
	for k, v := range s.status {
		st.Status[k] += v
	}
	return st
}

// ResetStats zeroes the counters, forgets the records and starts the request numbers at 1 again, so that the
// random decisions repeat. High-water marks restart at the present level.
func (s *Server) ResetStats() {
	s.all.reset()
	s.conns.reset()
	s.byKey.reset()
	s.byModel.reset()
	s.path.reset()
	s.ok.Store(0)
	s.chunks.Store(0)
	for i := range s.faults {
		s.faults[i].Store(0)
	}
	s.statusMu.Lock()
	clear(s.status)
	s.statusMu.Unlock()
	s.diary.reset()
	s.seq.Store(0)
}
