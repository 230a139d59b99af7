package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// books is a real store, in memory, that a test can hold up and break.
type books struct {
	*memory.Store
	mu    sync.Mutex
	check func(types string) (hold chan struct{}, fail bool) // of each row that comes
	lose  bool                                               // the answer to the next append, which is stored
	doubt func(types string) (lost, stored bool)             // of each row that comes: the answer is lost, and the append with it or not
	blind atomic.Bool                                        // the next look at a secret of a known version fails
}

func (b *books) Secret(ctx context.Context, id string, version int64) (*events.Secret, error) {
	if version > 0 && b.blind.CompareAndSwap(true, false) {
		return nil, errDisk
	}
	return b.Store.Secret(ctx, id, version)
}

var errDisk = errors.New("no space left on device")

func (b *books) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	b.mu.Lock()
	check, doubt := b.check, b.doubt
	b.mu.Unlock()
	for i := range batch {
		for k := range batch[i].Rows {
			if doubt != nil {
				if lost, stored := doubt(batch[i].Rows[k].Types); lost {
					return nil, b.loseAnswer(ctx, batch, low, stored)
				}
			}
			if check == nil {
				continue
			}
			hold, fail := check(batch[i].Rows[k].Types)
			if hold != nil {
				<-hold
			}
			if fail {
				return nil, fmt.Errorf("%w: %w", events.ErrUnavailable, errDisk)
			}
		}
	}
	b.mu.Lock()
	lose := b.lose
	b.lose = false
	b.mu.Unlock()
	results, err := b.Store.Append(ctx, batch, low)
	if lose && err == nil {
		return nil, fmt.Errorf("%w: the answer was lost", events.ErrInDoubt)
	}
	return results, err
}

// loseAnswer stores a batch, or does not, and leaves that open.
func (b *books) loseAnswer(ctx context.Context, batch []events.Append, low events.Position, stored bool) error {
	if stored {
		if _, err := b.Store.Append(ctx, batch, low); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the answer was lost", events.ErrInDoubt)
}

// breakOn fails the next n appends that have a row of these facts.
func (b *books) breakOn(types string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.check = func(got string) (chan struct{}, bool) {
		if n == 0 || got != types {
			return nil, false
		}
		n--
		return nil, true
	}
}

// rig is a dispatcher over a real system, journal and catalogue, with scripted upstreams, store and clients.
type rig struct {
	*actors.Dispatcher
	t       testing.TB
	store   *books
	journal *events.Journal
	system  *actors.System
	ledger  *actors.Ledger
	ups     *upstreams
	state   *catalog.State
	snap    atomic.Pointer[catalog.Snapshot]
	late    atomic.Int64 // added to the clock
	calls   int
	recalls int    // of the history
	read    func() // when nil it is not called; else when a history has been read
	drain   atomic.Bool
}

func newRig(t testing.TB, resources ...catalog.Resource) *rig {
	t.Helper()
	before := runtime.NumGoroutine()
	r := &rig{t: t, store: &books{Store: memory.NewStore()}, state: catalog.NewState()}
	r.ups = &upstreams{replies: map[string][]reply{}, active: map[string]int{}, most: map[string]int{}}
	r.journal = events.NewJournal(events.JournalOptions{Store: r.store, Node: "n", Rooms: 64, Push: readAll})
	r.system, r.ledger = r.openSystem()
	r.apply(&catalog.Price{Model: "*", Input: "1", Output: "2"})
	r.apply(resources...)
	r.Dispatcher = &actors.Dispatcher{
		System: r.system, Catalog: r.snap.Load, Journal: r.journal, Transport: r.ups, Node: "n", Durability: actors.AtDispatch,
		Credential: func(a string) (string, bool) { return "secret-of-" + a, true },
		Logger:     slog.New(slog.DiscardHandler), Random: func() uint64 { return 7 }, Draining: r.drain.Load,
		Now: func() time.Time { return time.Now().Add(time.Duration(r.late.Load())) },
	}
	r.Affinity = actors.NewAffinity(&r.snap.Load().Settings.Scheduling)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.system.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := r.journal.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		r.until("the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	})
	return r
}

// openSystem makes a system and a ledger that know what is stored, as a start does.
func (r *rig) openSystem() (*actors.System, *actors.Ledger) {
	r.t.Helper()
	l, err := actors.OpenLedger(context.Background(), r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	s := actors.NewSystem(actors.Options{Recorder: r.journal, Funds: l.Funds, History: func(past limit.Past, yield func(*actors.Used)) error {
		ctx := context.Background()
		r.recalls++
		err := errors.Join(r.journal.Sync(ctx), actors.ReadHistory(ctx, r.store, past, yield))
		if r.read != nil {
			r.read()
		}
		return err
	}})
	l.Serve(r.journal, s, r.snap.Load, "n")
	return s, l
}

// readAll reads facts as a projection does, on another goroutine: -race sees a fact that is changed after its append.
func readAll(batch []*events.Committed) {
	for _, c := range batch {
		for _, f := range c.Facts {
			_, _ = json.Marshal(f)
		}
	}
}

// apply changes the catalogue, as a write would, and puts it in force.
func (r *rig) apply(resources ...catalog.Resource) {
	r.t.Helper()
	for _, res := range resources {
		facts, err := catalog.Decide(r.state, catalog.Apply{Resource: res})
		if err != nil {
			r.t.Fatalf("apply: %v", err)
		}
		for _, f := range facts {
			r.state.Evolve(f, r.state.Revision+1)
		}
	}
	r.inForce()
}

func (r *rig) remove(kind catalog.Kind, id string) {
	r.t.Helper()
	facts, err := catalog.Decide(r.state, catalog.Remove{Kind: kind, ID: id})
	if err != nil {
		r.t.Fatalf("remove: %v", err)
	}
	for _, f := range facts {
		r.state.Evolve(f, r.state.Revision+1)
	}
	r.inForce()
}

func (r *rig) inForce() {
	s := catalog.Build(r.state, r.snap.Load())
	for _, bad := range s.Skipped {
		r.t.Fatalf("%s: %s %s", bad.Ref, bad.Field, bad.Reason)
	}
	r.snap.Store(s)
	l := layoutOf(s)
	l.Born = s.Born
	r.system.Reconfigure(l)
}

// layoutOf is what a start gives to a system.
func layoutOf(s *catalog.Snapshot) (l actors.Layout) {
	for _, u := range s.Upstreams() {
		l.Upstreams = append(l.Upstreams, *u.Upstream)
		for _, a := range u.Accounts {
			l.Accounts = append(l.Accounts, *a.Account)
		}
	}
	l.Users, l.Keys, l.Budgets = s.Users(), s.Keys(), s.Budgets()
	return l
}

func count(n int) *int { return &n }

// upstream is one with the host "<id>.test".
func upstream(id string, change ...func(*catalog.Upstream)) *catalog.Upstream {
	u := &catalog.Upstream{
		ID: id, BaseURL: "http://" + id + ".test", Active: true, Weight: 1,
		Capabilities: []dialect.Capability{dialect.CapChat, dialect.CapResponses, dialect.CapMessages, dialect.CapGemini},
		Breaker: catalog.Breaker{
			Failures: 1000, Successes: 2, OpenFor: catalog.Duration(time.Minute), ProbeEvery: catalog.Duration(time.Second),
		},
	}
	for _, c := range change {
		c(u)
	}
	return u
}

func second(u *catalog.Upstream) { u.Priority = 1 }

func slots(n int) func(*catalog.Upstream) { return func(u *catalog.Upstream) { u.Slots = &n } }

func queue(timeout time.Duration) func(*catalog.Upstream) {
	return func(u *catalog.Upstream) {
		u.Queue = &catalog.Queue{Enabled: true, Timeout: catalog.Duration(timeout), Discipline: "fifo"}
	}
}

func disconnect(policy string) func(*catalog.Upstream) {
	return func(u *catalog.Upstream) { u.OnDisconnect = policy }
}

func account(id, up string) *catalog.Account {
	return &catalog.Account{ID: id, Upstream: up, SecretVersion: 1, Masked: catalog.Mask("secret-of-" + id), Active: true}
}

func key(id string, change ...func(*catalog.Key)) *catalog.Key {
	k := &catalog.Key{ID: id, Access: "unrestricted", Hash: "sha256:" + fmt.Sprintf("%064x", len(id)*1000+int(id[0]))}
	for _, c := range change {
		c(k)
	}
	return k
}

// pair is two upstreams, a before b, with one account each, and the key k.
func pair(change ...func(*catalog.Upstream)) []catalog.Resource {
	return []catalog.Resource{upstream("a", change...), upstream("b", second), account("a1", "a"), account("b1", "b"), key("k")}
}

func setting(name, value string) *catalog.Setting { return &catalog.Setting{Name: name, Value: value} }

func (r *rig) reply(up string, rs ...reply) {
	r.ups.mu.Lock()
	defer r.ups.mu.Unlock()
	r.ups.replies[up+".test"] = append(r.ups.replies[up+".test"], rs...)
}

const (
	chat       = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	chatStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// call makes a request of the key k.
func (r *rig) call(path, body string) *actors.Call {
	r.t.Helper()
	path, query, _ := strings.Cut(path, "?")
	end, ok := dialect.Route("POST", path)
	if !ok {
		r.t.Fatalf("no route %s", path)
	}
	scan, err := dialect.ScanRequest([]byte(body), end.Dialect)
	if err != nil {
		r.t.Fatal(err)
	}
	r.calls++
	model := scan.Model
	if model == "" {
		model = end.Model
	}
	return &actors.Call{
		ID: fmt.Sprintf("r%d", r.calls), At: r.Now().UTC(), Endpoint: end, Scan: scan, Query: query, Body: []byte(body),
		Key: r.snap.Load().Key("k"), Gone: &actors.Gone{},
		Ask: request.Ask{Key: "k", Method: "POST", Path: path, Dialect: end.Dialect.String(), Model: model, Stream: scan.Stream || end.Stream},
	}
}

func (r *rig) chat() *actors.Call   { return r.call("/v1/chat/completions", chat) }
func (r *rig) stream() *actors.Call { return r.call("/v1/chat/completions", chatStream) }

// client is who reads an answer.
type client struct {
	actors.Answer
	got   bytes.Buffer
	err   error
	write func(n int) error // before each write; may panic
	n     int
	wrote chan string // gets each write, when set
}

func (c *client) Write(p []byte) (int, error) {
	c.n++
	if c.write != nil {
		if err := c.write(c.n); err != nil {
			return 0, err
		}
	}
	c.got.Write(p)
	if c.wrote != nil {
		c.wrote <- string(p)
	}
	return len(p), nil
}

func (c *client) body() string {
	if c.Stream != nil {
		return c.got.String()
	}
	return string(c.Body)
}

func (c *client) header(name string) string {
	for _, h := range c.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// run takes a request through to its end.
func (r *rig) run(c *actors.Call) *client { return r.runAs(&client{}, c) }

func (r *rig) runAs(x *client, c *actors.Call) *client {
	x.Answer = r.Begin(c)
	if x.Stream != nil {
		x.err = x.Stream(x)
	}
	return x
}

// until polls what has no signal of its own.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			r.t.Fatalf("waited in vain for %s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

func (r *rig) waiting(up string) func() bool {
	return func() bool { f, _ := r.system.Board().Figures(up); return f.Waiting > 0 }
}

func (r *rig) held(up string) func() bool {
	return func() bool { f, _ := r.system.Board().Figures(up); return f.Held > 0 }
}

// sent is how many calls an upstream has got.
func (r *rig) sent(up string) (n int) {
	r.ups.mu.Lock()
	defer r.ups.mu.Unlock()
	for _, c := range r.ups.calls {
		if c.host == up+".test" {
			n++
		}
	}
	return n
}
