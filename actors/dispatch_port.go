package actors

import (
	"io"
	"sync"
	"time"
)

// Header is one header line.
type Header struct{ Name, Value string }

// Outgoing is one call to an upstream.
type Outgoing struct {
	Method  string
	Scheme  string // "http" or "https"
	Host    string // host, or host:port
	Target  string // path and query
	Headers []Header
	Body    []byte
	Connect time.Duration // bound on making a connection
	First   time.Duration // bound from the last request byte to the first response byte
	Idle    time.Duration // bound between two reads of the body
	Fresh   bool          // on a new connection: the last one was stale
	Gone    *Gone         // cuts the call when it fires
}

// Incoming is an answer whose headers have come. Read gives the body bytes as they come, undecoded but for chunked
// framing; at the proper end it is io.EOF, after a cut io.ErrUnexpectedEOF or a network error. Close must be called;
// the connection is kept only when the body was read to its end.
type Incoming interface {
	io.ReadCloser
	Status() int
	Header(name string) string
	Headers(yield func(name, value []byte))
	Length() int // of the body, -1 when unknown
	// Decode gives the plain bytes of r by the content-encoding of this answer: r itself when there is none.
	Decode(r io.Reader) (io.Reader, error)
	Buffered() int // bytes that a Read would give without waiting; 0 is also "unknown"
}

// Transport sends calls to upstreams. Nothing is ever sent twice by itself. Errors are *SendError. The call is the
// caller's again when Send has returned, but for its Gone.
type Transport interface {
	Send(*Outgoing) (Incoming, error)
}

// Phase is how far a call came before it failed.
type Phase string

// The phases of a failed call.
const (
	PhaseConnect        Phase = "connect"         // no connection could be made: nothing was sent
	PhaseConnectTimeout Phase = "connect_timeout" // the same, for want of time
	PhaseWrite          Phase = "write"           // the connection broke while the request was written
	PhaseFirstByte      Phase = "first_byte"      // it broke before the first byte of the answer
	PhaseFirstTimeout   Phase = "first_byte_timeout"
	PhaseStale          Phase = "stale"     // a reused connection closed before the first byte of the answer
	PhaseBody           Phase = "body"      // it broke within the answer
	PhaseIdle           Phase = "idle"      // the answer stood still for too long
	PhaseMalformed      Phase = "malformed" // the answer is no HTTP
	PhaseCancelled      Phase = "cancelled" // by us
	PhaseLocal          Phase = "local"     // a fault of this machine: no descriptors, a refused address
)

// SendError tells how a call failed.
type SendError struct {
	Phase Phase
	Err   error
}

func (e *SendError) Error() string { return string(e.Phase) + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *SendError) Unwrap() error { return e.Err }

// Gone is the end of a client's interest in a request. It may fire at any time, from any goroutine; whatever the
// request does at that moment is cut short.
type Gone struct {
	mu    sync.Mutex
	fired bool
	over  bool          // End was called
	done  chan struct{} // made when first asked for
	cut   io.Closer     // what the request hangs on now
	later *time.Timer   // of FireAfter
}

// Fire says that the client is gone. Only the first call does anything.
func (g *Gone) Fire() {
	g.mu.Lock()
	if g.fired {
		g.mu.Unlock()
		return
	}
	g.fired = true
	cut := g.cut
	g.cut = nil
	if g.done != nil {
		close(g.done)
	}
	g.mu.Unlock()
	if cut != nil {
		cut.Close()
	}
}

// FireAfter fires later, unless End comes first.
func (g *Gone) FireAfter(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over && g.later == nil {
		g.later = time.AfterFunc(d, g.Fire)
	}
}

// End stops FireAfter for good.
func (g *Gone) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.later != nil {
		g.later.Stop()
	}
}

// Fired says whether the client is gone.
func (g *Gone) Fired() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fired
}

// Done is closed when the client goes.
func (g *Gone) Done() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done == nil {
		g.done = make(chan struct{})
		if g.fired {
			close(g.done)
		}
	}
	return g.done
}

// Hold closes c when the client goes; false: it has gone, c was not closed.
func (g *Gone) Hold(c io.Closer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fired {
		return false
	}
	g.cut = c
	return true
}

// Release ends Hold; false: the client has gone, and what was held is closed or about to be.
func (g *Gone) Release() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = nil
	return !g.fired
}
