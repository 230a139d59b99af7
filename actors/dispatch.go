package actors

import (
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Durability says what waits for the journal.
type Durability string

// The levels, from the strictest to the loosest.
const (
	// AtSettlement: AtDispatch, and the last byte of the answer leaves only when the settlement is committed.
	AtSettlement Durability = "settled"
	// AtDispatch: request bytes leave for an upstream only when {admitted, dispatched} is committed.
	AtDispatch Durability = "dispatched"
	// Overlapped: the commit runs beside the call; no byte of the answer leaves before it.
	Overlapped Durability = "overlapped"
	// Relaxed: nothing waits.
	Relaxed Durability = "relaxed"
)

// Dispatcher runs the life of requests: admission, lease, dispatch, failover, answer, settlement. One per gateway.
type Dispatcher struct {
	System     *System
	Catalog    func() *catalog.Snapshot
	Journal    *events.Journal
	Transport  Transport
	Credential func(account string) (secret string, ok bool)
	Durability Durability
	Node       string
	Logger     *slog.Logger
	Now        func() time.Time
	Random     func() uint64
	Draining   func() bool
	Affinity   *Affinity // nil: sessions are not remembered

	turns turns
}

// Call is one request as the data plane has read it. Body and Headers must stay as they are until the answer has been
// written; what their memory holds behind the headers is the dispatcher's.
type Call struct {
	ID       string
	At       time.Time
	Endpoint dialect.Endpoint
	Scan     dialect.Request
	Query    string // of the URL, without the client's credential
	Headers  []Header
	Body     []byte
	Key      *catalog.Key
	Address  netip.Addr // of the client, behind the proxies that are trusted; not valid: not known
	Ask      request.Ask
	Gone     *Gone
	Client   dialect.Client // as it was recognised
	Opener   Opener         // nil: the head of the answer cannot be sent before its end is known
	Room     *Room          // for the answer; nil: it has memory of its own
}

// Opener is the connection of a client that waits. It is used at most once.
type Opener interface {
	// Open sends the head of a 200 with these headers and gives what the rest of the answer is written to. An error means that
	// the client has gone.
	Open(headers []Header) (io.Writer, error)
}

// Answer is what the client gets. Exactly one of Body and Stream is used. Stream runs until the answer has ended and
// the request is settled; it must be called exactly once. An error from it means that the connection has to be cut. When
// the head was sent before, Status and Headers are nothing to the client, and Body or Stream goes on behind it.
type Answer struct {
	Status  int
	Headers []Header
	Body    []byte
	Stream  func(w io.Writer) error
}

// Begin runs a request up to its answer, or to the first content of a stream.
func (d *Dispatcher) Begin(c *Call) (a Answer) {
	if d.Draining != nil && d.Draining() {
		return d.Refuse(c, failure.New(failure.Draining, ""))
	}
	if err := d.Journal.Room(); err != nil {
		return Refused(c, storeRefusal(err), false)
	}
	l := d.newLife(c)
	defer func() {
		if r := recover(); r != nil {
			a = l.sealed(l.panicked(r))
		}
	}()
	if a = l.run(); a.Stream == nil {
		a = l.sealed(a)
		l.recycle()
	}
	return a
}

func (d *Dispatcher) newLife(c *Call) *life {
	l := lives.Get().(*life)
	l.d, l.c, l.snap, l.key, l.now = d, c, d.Catalog(), c.Key, d.Now
	l.newPaper()
	if c.Opener != nil && c.Ask.Stream && c.Endpoint.Kind == dialect.Generate {
		l.alive = dialect.NewHeartbeat(l.snap.Settings.KeepAlive, c.Endpoint.Dialect, l.format(), true, c.At)
	}
	l.newWay()
	return l
}

// Refuse answers a request that never came to a plan, and records that with a lone request.rejected when the journal
// has room: what overloads the store is not helped by more events.
func (d *Dispatcher) Refuse(c *Call, r failure.Refusal) Answer {
	if d.Journal.Room() == nil {
		l := d.newLife(c)
		l.rejected(r, nil)
		l.recycle()
	}
	return Refused(c, r, false)
}

func storeRefusal(err error) failure.Refusal {
	if errors.Is(err, events.ErrOverloaded) {
		return failure.New(failure.StoreOverloaded, "")
	}
	return failure.New(failure.StoreUnavailable, "")
}
