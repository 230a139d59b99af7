// Package proxy is the data plane: it takes LLM calls over HTTP in the dialects of the providers, finds out who calls,
// and hands them to the dispatcher.
package proxy

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
)

// Dispatcher runs requests; *actors.Dispatcher is one.
type Dispatcher interface {
	Begin(*actors.Call) actors.Answer
	Refuse(*actors.Call, failure.Refusal) actors.Answer
}

// Options of a Server. Dispatcher, Catalog and Health must be set.
type Options struct {
	Dispatcher Dispatcher
	Catalog    func() *catalog.Snapshot
	Logger     *slog.Logger     // nil: silent
	Now        func() time.Time // nil: the clock
	BodyMax    int              // bytes of a request body; default 100 MiB
	// Socket, unless nil, gives what a client's connection is read from and written to.
	Socket func(*net.TCPConn) net.Conn
	// Refused, unless nil, counts refusals without a verified key that were not recorded one by one; see refusals.
	Refused func(address string, count int, minute time.Time)
	// Health answers /health and /healthz.
	Health func() (body []byte, ok bool)
}

// Server is the data plane.
type Server struct {
	o        Options
	http     *fasthttp.Server
	watch    *watcher
	keys     *keyring
	refusals *refusals
	guard    guard
	requests atomic.Int64 // under way

	mu      sync.Mutex
	serving []chan struct{} // of each Serve; closed when fasthttp knows its listener
	down    bool            // since Shutdown
}

// BodyMax is the default bound of a request body.
const BodyMax = 100 << 20

// Open makes a Server. Serve it, and Close it.
func Open(o Options) (*Server, error) {
	w, err := newWatcher()
	if err != nil {
		return nil, err
	}
	if o.BodyMax == 0 {
		o.BodyMax = BodyMax
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Refused == nil {
		o.Refused = func(string, int, time.Time) {}
	}
	s := &Server{o: o, watch: w, keys: newKeyring(), refusals: newRefusals(o.Refused, o.Now)}
	s.http = &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.unreadable,
		Name:                         "",
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		NoDefaultDate:                true,
		MaxRequestBodySize:           o.BodyMax,
		ReadBufferSize:               16 << 10, // bounds the headers; agents send long ones
		ReadTimeout:                  10 * time.Minute,
		IdleTimeout:                  3 * time.Minute,
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		LazyRequestTime:              true, // which nobody asks for
		Logger:                       quiet{o.Logger},
	}
	return s, nil
}

// Serve takes connections from the listener until Shutdown, which may have come before.
func (s *Server) Serve(ln net.Listener) error {
	accepting := make(chan struct{})
	s.mu.Lock()
	down := s.down
	if !down {
		s.serving = append(s.serving, accepting)
	}
	s.mu.Unlock()
	if down {
		return errors.Wrap(ln.Close(), "data plane")
	}
	ln = &asked{ln, sync.OnceFunc(func() { close(accepting) })}
	err := s.http.Serve(&watchListener{Listener: ln, w: s.watch, socket: s.o.Socket})
	return errors.Wrap(err, "data plane")
}

// asked is a listener that tells that it is asked for connections.
type asked struct {
	net.Listener
	tell func()
}

func (a *asked) Accept() (net.Conn, error) {
	a.tell()
	return a.Listener.Accept()
}

// Shutdown stops listening and waits for the requests under way, at most until the context ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.down = true
	serving := s.serving
	s.mu.Unlock()
	for _, accepting := range serving { // fasthttp forgets a listener that it does not know yet: it would be served for ever
		<-accepting
	}
	err := s.http.ShutdownWithContext(ctx)
	s.refusals.close()
	return errors.Wrap(err, "data plane")
}

// Cut ends the requests that are still under way after Shutdown as if their clients had gone, and waits a little for
// them to be settled.
func (s *Server) Cut(wait time.Duration) error {
	s.watch.hangUp()
	for end := time.Now().Add(wait); s.InFlight() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.Newf("%d requests did not end", s.InFlight())
		}
	}
	return nil
}

// Close gives back what the server holds; call it after Shutdown.
func (s *Server) Close() { s.watch.close() }

// InFlight is the number of requests under way.
func (s *Server) InFlight() int64 { return s.requests.Load() }

// quiet hands fasthttp's own messages to our log.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) {
	q.log.Debug("data plane connection", "message", errors.Newf(format, args...).Error())
}
