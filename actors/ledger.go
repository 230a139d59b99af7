package actors

import (
	"context"
	"strings"
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/events"
)

// Ledger is the shell around what operators give to users: one writer decides, stores, and has the user's actor know it
// before Book returns. What users spend is not here: their actors count it.
type Ledger struct {
	store   events.Store
	journal *events.Journal
	system  *System
	catalog func() *catalog.Snapshot
	node    string

	turn     sync.Mutex // of Book
	doubtful bool       // an append has failed that may have been stored; under turn

	mu    sync.RWMutex // held for a moment only, and while nothing else is taken: actors ask under their own locks
	state *ledger.State
}

// Booked is what became of a fact: where it is booked, and whether it was there before with the very same content.
type Booked struct {
	Position int64
	Again    bool
}

// OpenLedger folds what is stored. A row that cannot be read gives nothing.
func OpenLedger(ctx context.Context, store events.Store) (*Ledger, error) {
	state, err := loadLedger(ctx, store)
	if err != nil {
		return nil, err
	}
	return &Ledger{store: store, state: state}, nil
}

func loadLedger(ctx context.Context, store events.Store) (*ledger.State, error) {
	state := &ledger.State{}
	err := events.FindReadable(ctx, store, events.Query{StreamPrefix: ledger.Streams}, func(row *events.Committed) {
		for i, f := range row.Facts {
			state.Evolve(f, int64(row.Position)+int64(i))
		}
	}, func(bad *events.DecodeError) {
		state.Skip(strings.TrimPrefix(bad.Stream, ledger.Streams), int64(bad.Last-bad.Position)+1)
	})
	return state, errors.Wrap(err, "load ledger")
}

// Serve lets the ledger book. The system must have been made with Options.Funds of this ledger.
func (l *Ledger) Serve(journal *events.Journal, system *System, catalog func() *catalog.Snapshot, node string) {
	l.journal, l.system, l.catalog, l.node = journal, system, catalog, node
}

// Book stores a fact of domain/ledger, given as a pointer, and returns when it is stored and in force: the very next request
// of the user lives by it. Repeating it books nothing. Errors: ledger.ErrUnknownUser, ledger.ErrUnknownSubscription,
// ledger.ErrConflict, *catalog.InvalidError, which name the field; events.ErrUnavailable and events.ErrClosed of the store:
// then nothing is booked, or nobody knows, and the same fact may be booked again.
func (l *Ledger) Book(ctx context.Context, fact any) (Booked, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	b, err := l.book(ctx, fact)
	if errors.Is(err, events.ErrConflict) { // another process has booked for the same user
		b, err = l.book(ctx, fact)
	}
	return b, err
}

func (l *Ledger) book(ctx context.Context, fact any) (Booked, error) {
	if err := l.journal.Diverted(); err != nil { // at once, rather than when the store has not answered
		return Booked{}, err
	}
	if err := l.resolve(ctx); err != nil {
		return Booked{}, err
	}
	user, err := l.checked(fact)
	if err != nil {
		return Booked{}, err
	}
	now := l.system.now()
	purse := l.state.Purse(user) // nobody else changes it
	facts, err := purse.Decide(fact, now)
	if err != nil {
		return Booked{}, err
	}
	if len(facts) == 0 {
		return Booked{Position: purse.Position(fact), Again: true}, nil
	}
	row := events.Row{Stream: ledger.Stream(user), Version: purse.Version, At: now.UTC(), Node: l.node, Facts: facts}
	at, err := l.journal.Start(events.Append{Rows: []events.Row{row}}, events.May).Position()
	if err != nil {
		l.doubtful = true
		return Booked{}, errors.Wrapf(err, "book for user %s", user)
	}
	l.mu.Lock()
	for i, f := range facts {
		l.state.Evolve(f, int64(at)+int64(i))
	}
	l.mu.Unlock()
	l.system.takeFunds(user)
	return Booked{Position: int64(at)}, nil
}

// checked is the user that a fact is about, when the catalogue knows whom and what it names.
func (l *Ledger) checked(fact any) (user string, err error) {
	snap := l.catalog()
	user = ledger.UserOf(fact)
	if snap.User(user) == nil {
		return "", errors.Wrapf(ledger.ErrUnknownUser, "user %q", user)
	}
	if g, ok := fact.(*ledger.Granted); ok && g.Subscription.Group != "" && snap.Group(g.Subscription.Group) == nil {
		return "", &catalog.InvalidError{
			Ref: catalog.Ref{Kind: catalog.KindUser, ID: user}, Field: "group", Reason: "group " + g.Subscription.Group + " does not exist",
		}
	}
	return user, nil
}

// resolve reads everything again after an append that may have been stored although it failed, or that found another version
// than it knew.
func (l *Ledger) resolve(ctx context.Context) error {
	if !l.doubtful {
		return nil
	}
	state, err := loadLedger(ctx, l.store)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.state = state
	l.mu.Unlock()
	l.system.takeFunds()
	l.doubtful = false
	return nil
}

// Funds is what a user was given, for Options.Funds.
func (l *Ledger) Funds(user string) Funds {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := l.state.Purse(user)
	return Funds{Lives: p.Lives(), Credited: p.Credited, Subscriptions: limitSubscriptions(p.Subscriptions())}
}

func limitSubscriptions(of []ledger.Subscription) []limit.Subscription {
	if len(of) == 0 {
		return nil
	}
	list := make([]limit.Subscription, len(of))
	for i, s := range of {
		list[i] = limit.Subscription{
			ID: s.ID, Group: s.Group, Starts: s.Starts, Expires: s.Expires, Daily: s.Daily, Weekly: s.Weekly, Monthly: s.Monthly, Overflow: s.Overflow,
		}
	}
	return list
}
