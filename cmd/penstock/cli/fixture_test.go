package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

const adminToken = "token-of-the-test"

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// place is a gateway's inside without its machinery: the real catalogue machine, a log of three requests, one
// upstream that runs. It serves as the ports of a real admin API, and as the data of a stopped gateway.
type place struct {
	mu       sync.Mutex
	state    *catalog.State
	entries  []requestlog.Entry
	rows     []events.Committed
	unequal  bool              // what replay --verify finds
	board    projections.Board // of the closing of books
	shown    chan struct{}     // a replay waits until somebody has seen how far it is; nil: it does not
	unopened []string
	broken   error // what Probe says
	closed   bool
	chain    *memory.Store // what the audit commands are about
	signing  ed25519.PrivateKey
	days     []string     // that were to be closed
	away     atomic.Bool  // no backup can be had
	cutAt    atomic.Int64 // behind so many bytes a backup fails; a handler whose client has left may still read it
	switched []actors.Switch
	blocked  []*time.Time
	till     till
}

func (p *place) Apply(_ context.Context, changes []admin.Change, o admin.Options) (admin.Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var cmds []catalog.Command
	named := map[catalog.Ref]bool{}
	for _, c := range changes {
		_, version, ok := p.state.Get(c.Kind, c.ID)
		if c.Match == admin.MatchAbsent && ok || c.Match > 0 && int64(c.Match) != version {
			return admin.Outcome{}, errors.Wrap(admin.ErrPrecondition, c.ID)
		}
		if r, sealed := c.Resource.(catalog.Sealed); sealed && c.Extras.Credential != "" {
			_, masked := r.Secret()
			c.Resource = r.WithSecret(version+1, masked)
		}
		named[catalog.Ref{Kind: c.Kind, ID: c.ID}] = true
		if c.Resource == nil {
			cmds = append(cmds, catalog.Remove{Kind: c.Kind, ID: c.ID})
			continue
		}
		cmds = append(cmds, catalog.Apply{Resource: c.Resource, RevokedUnsaid: c.Extras.RevokedUnsaid})
	}
	for _, kind := range catalog.Kinds() {
		for _, r := range p.state.List(kind) {
			if ref := (catalog.Ref{Kind: kind, ID: r.Ident()}); o.Prune && !named[ref] {
				cmds = append(cmds, catalog.Remove{Kind: kind, ID: ref.ID})
			}
		}
	}
	decided, err := catalog.DecideAll(p.state, cmds)
	if err != nil {
		return admin.Outcome{}, err
	}
	after := p.state.Clone()
	for _, d := range decided {
		for _, f := range d.Facts {
			after.Evolve(f, after.Revision+1)
		}
	}
	out := admin.Outcome{Revision: events.Position(after.Revision)}
	for _, cmd := range cmds {
		out.Done = append(out.Done, doneBy(cmd, p.state, after))
	}
	if !o.DryRun {
		p.state = after
	}
	return out, nil
}

func doneBy(cmd catalog.Command, before, after *catalog.State) admin.Done {
	var done admin.Done
	switch c := cmd.(type) {
	case catalog.Apply:
		done.Kind, done.ID = c.Resource.Kind(), c.Resource.Ident()
	case catalog.Remove:
		done.Kind, done.ID = c.Kind, c.ID
	}
	was, old, existed := before.Get(done.Kind, done.ID)
	is, now, exists := after.Get(done.Kind, done.ID)
	done.Version = now
	switch {
	case !exists:
		done.Result = admin.Removed
	case !existed:
		done.Result = admin.Created
	case old == now:
		done.Result = admin.Unchanged
	default:
		done.Result, done.Fields = admin.Changed, catalog.Differ(was, is)
	}
	return done
}

func (p *place) Get(_ context.Context, kind catalog.Kind, id string) (admin.Stored, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, version, ok := p.state.Get(kind, id)
	if !ok {
		return admin.Stored{}, errors.Wrapf(admin.ErrNotFound, "%s %s", kind, id)
	}
	return admin.Stored{Resource: r, Version: version}, nil
}

func (p *place) List(_ context.Context, kind catalog.Kind, after string, limit int) ([]admin.Stored, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []admin.Stored
	for _, r := range p.state.List(kind) {
		if r.Ident() > after && len(found) < limit {
			found = append(found, admin.Stored{Resource: r})
		}
	}
	return found, nil
}

func (p *place) Revision() events.Position { return events.Position(p.state.Revision) }

func (p *place) Requests(_ context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	var found []requestlog.Entry
	for _, e := range p.entries {
		newer := !q.Before.IsZero() && e.Position >= q.Before.Position
		if !newer && (q.Key == "" || q.Key == e.Key) && !e.At.Before(q.Since) && len(found) < q.Limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func (p *place) Request(_ context.Context, id string) (*requestlog.Entry, error) {
	for i := range p.entries {
		if p.entries[i].RequestID == id {
			return &p.entries[i], nil
		}
	}
	return nil, nil
}

func (p *place) Find(_ context.Context, q events.Query, yield func(*events.Committed) bool) error {
	sent := 0
	for i := range p.rows {
		row := &p.rows[i]
		if row.Last() <= q.After || q.Stream != "" && q.Stream != row.Stream || q.Type != "" && !events.HasType(row.Types, q.Type) {
			continue
		}
		if q.Limit > 0 && sent == q.Limit || !yield(row) {
			return nil
		}
		sent++
	}
	return nil
}

func (p *place) Bill(_ context.Context, q billing.Query) ([]billing.Line, error) {
	key, day := "team-a", "2026-06-01"
	l := billing.Line{Requests: 2, Attempts: 3, Usage: pricing.Usage{Input: 100, CachedInput: 20, Output: 7}, Cost: money.USD / 4, UnpricedRequests: 1}
	for _, by := range q.By {
		switch by {
		case "key":
			l.Key = &key
		case "day":
			l.Day = &day
		}
	}
	return []billing.Line{l}, nil
}

func (p *place) Overview(context.Context, stats.Query) (s stats.Overview, err error) { return s, nil }
func (p *place) Timeseries(context.Context, stats.Query) ([]stats.Bucket, error)     { return nil, nil }
func (p *place) Leaderboard(context.Context, stats.Query) ([]stats.Rank, error)      { return nil, nil }
func (p *place) ForceBreaker(_ context.Context, id string, w actors.Switch) error {
	if id != "a" {
		return errors.Wrapf(admin.ErrNotFound, "upstream %s", id)
	}
	p.switched = append(p.switched, w)
	return nil
}

func (p *place) BlockAccount(_ context.Context, id string, until *time.Time) error {
	p.blocked = append(p.blocked, until)
	return nil
}

func (p *place) Health(context.Context) admin.HealthReport {
	return admin.HealthReport{Status: "ok", Store: admin.StoreHealth{Kind: "sqlite"}}
}

func (p *place) Running() []projections.Running {
	if p.shown == nil {
		return nil
	}
	select {
	case p.shown <- struct{}{}:
	default:
	}
	if busy := p.board.Running(); len(busy) > 0 {
		return busy
	}
	running := projections.Running{Kind: "rebuild", Begun: noon}
	running.Progress = projections.Progress{Projection: "billing", Position: 500, To: 1000}
	return []projections.Running{running}
}

func (p *place) Replay(_ context.Context, name string, verify bool) ([]projections.Report, error) {
	if p.shown != nil {
		<-p.shown
		<-p.shown
	}
	r := projections.Report{Projection: "billing", Events: 10, Rows: 3, Equal: !p.unequal}
	if p.unequal && verify {
		r.DifferingRows, r.Differences = 1, []string{"day 2026-06-01: cost 1 is 2"}
	}
	if name != "" && name != r.Projection {
		return nil, errors.Wrapf(admin.ErrNotFound, "projection %s", name)
	}
	return []projections.Report{r}, nil
}

func (p *place) Until(ctx context.Context, name string, q billing.Query) ([]admin.Standing, error) {
	lines, err := p.Bill(ctx, billing.Query{By: []string{"key"}})
	return []admin.Standing{{Projection: "billing", Until: max(q.AsOf, 7), Events: 5, Rows: 3, Tables: map[string]int64{"bill_days": 1, "bill_entries": 2}, Lines: lines}}, err
}

func (p *place) UpstreamStatus(_ context.Context, id string) (actors.UpstreamStatus, error) {
	if id != "a" {
		return actors.UpstreamStatus{}, errors.Wrapf(admin.ErrNotFound, "upstream %s", id)
	}
	slots, until := 2, noon.Add(time.Minute)
	return actors.UpstreamStatus{ID: "a", Slots: &slots,
		Held:    []actors.HeldSlot{{RequestID: "r9", Attempt: 1, Key: "team-a", Account: "a-1", Phase: "streaming", Since: noon.Add(-3 * time.Second), Recalled: "stuck"}},
		Waiting: []actors.WaitingPlace{{RequestID: "r10", Key: "team-b", Position: 1, Since: noon.Add(-time.Second), Deadline: until, Class: "low", Expected: ms(2000)}},
		Waits:   actors.WaitsStatus{Waiting: 1, Oldest: 1000, Discipline: "fair", Newcomer: ms(3000), HeldFor: ms(1500)},
		Shares:  []actors.KeyShare{{Key: "team-a", Held: 1, Served: 5}},
		Others:  actors.OtherShares{Keys: 7, Served: 2},
		Totals:  actors.TotalsStatus{Moved: 2, Freed: 1},
		Health:  actors.HealthStatus{TTFT: ms(250), Failing: 0.25},
		Breaker: actors.BreakerStatus{State: breaker.StateOpen, Until: &until, Failures: 5, Last: []breaker.Evidence{{At: noon, Class: "http_5xx", Status: 503}}},
		Accounts: []actors.AccountStatus{{ID: "a-1", State: "blocked", Reason: "http_429", Until: &until,
			Quota: &actors.QuotaStatus{Left: 0.377, Until: &until, Lapses: &noon, Told: noon}}},
	}, nil
}

func (p *place) Probe(context.Context) error                { return p.broken }
func (p *place) Unopened(context.Context) ([]string, error) { return p.unopened, nil }
func (p *place) Close() error                               { p.closed = true; return nil }
func (p *place) Upstreams(context.Context) ([]*catalog.Upstream, error) {
	var all []*catalog.Upstream
	for _, r := range p.state.List(catalog.KindUpstream) {
		all = append(all, r.(*catalog.Upstream))
	}
	return all, nil
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// desk is an operator in front of a place.
type desk struct {
	t        *testing.T
	place    *place
	env      map[string]string
	folder   string
	stdin    string
	tty      bool
	url      string
	instance string
	served   *Settings
	passed   time.Duration // since noon

	migrating error // of the migrations
	full      bool  // there is no room for the output

	restored *memory.Store // by the last restore
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	p := &place{state: catalog.NewState(), chain: memory.NewStore(), signing: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	p.tell(t)
	srv, err := admin.New(admin.Config{Token: adminToken, Version: "test", Logger: slog.New(slog.DiscardHandler), Audit: p, Books: p, Backups: p, Past: p, Replays: p, Ledger: p,
		Ports: admin.Ports{Catalog: p, Log: p, Events: p, Billing: p, Stats: p, Replay: p, Live: p, Health: p}})
	require.NoError(t, err)
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(web.Close)
	d := &desk{t: t, place: p, folder: t.TempDir(), url: web.URL, instance: srv.Instance()}
	d.env = map[string]string{"PENSTOCK_ADMIN_URL": web.URL, "PENSTOCK_ADMIN_TOKEN": adminToken, "PENSTOCK_DATA": d.folder,
		"PENSTOCK_CONFIG": d.file("penstock.yaml", "log_level: warn\n")}
	return d
}

// tell puts three requests into the log; r1 has a story.
func (p *place) tell(t *testing.T) {
	t.Helper()
	took := int64(1500)
	for i, id := range []string{"r3", "r2", "r1"} {
		p.entries = append(p.entries, requestlog.Entry{RequestID: id, At: noon.Add(-time.Duration(i) * time.Hour), State: requestlog.Done,
			Key: "team-a", Model: "gpt-5", Upstream: "b", Status: 200, Outcome: "completed", DurationMS: &took,
			Usage: pricing.Usage{Input: 10, Output: 5}, Cost: money.USD / 100, Position: events.Position(30 - 10*i)})
	}
	at := noon.Add(-2 * time.Hour)
	for _, step := range []struct {
		after time.Duration
		facts []events.Fact
	}{
		{0, []events.Fact{&request.Admitted{Ask: request.Ask{Model: "gpt-5"}, Plan: []request.Candidate{{Upstream: "a", Why: "weighted_selection"}, {Upstream: "b", Tier: 1}},
			Excluded: []request.Exclusion{{Upstream: "c", Reason: "circuit_open"}}, PaidBy: "balance"}, &request.Queued{Upstreams: []string{"a"}, Position: 2, Ticket: 7, Deadline: noon}}},
		{400 * time.Millisecond, []events.Fact{&request.Resumed{Upstream: "a", WaitedUS: 400_000}, &request.Dispatched{N: 1, Upstream: "a", Account: "a-1", Why: "weighted_selection"}}},
		{700 * time.Millisecond, []events.Fact{&request.Failed{N: 1, Class: "http_5xx", UpstreamStatus: 503, Next: "next_upstream", Counted: true, Evidence: "over\x1b[31mloaded", TookUS: 300_000}}},
		{700 * time.Millisecond, []events.Fact{&request.Dispatched{N: 2, Upstream: "b", Account: "b-1"}}},
		{1500 * time.Millisecond, []events.Fact{&request.Settled{Outcome: request.Completed, Status: 200, Attempts: 2, Usage: pricing.Usage{Input: 10, Output: 5},
			UsageSource: pricing.Reported, PriceVersion: "gpt-5@12", PriceOrigin: pricing.Manual, UpstreamCost: money.USD / 200, Cost: money.USD / 100, ServiceTier: "flex", Inherited: true, DurationUS: 1_500_000, TTFTUS: 600_000}}},
	} {
		row := events.Row{Stream: "request/r1", Request: "r1", At: at.Add(step.after), Node: "n", Facts: step.facts}
		position := events.Position(10)
		if n := len(p.rows); n > 0 {
			position = p.rows[n-1].Last() + 1
			row.Version = p.rows[n-1].Version + int64(len(p.rows[n-1].Facts))
		}
		require.NoError(t, events.Encode(&row))
		p.rows = append(p.rows, events.Committed{Position: position, Row: row})
	}
}

func (d *desk) file(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), name)
	require.NoError(d.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run executes a command line.
func (d *desk) run(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	var out, diagnostics bytes.Buffer
	var into io.Writer = &out
	if d.full {
		into = fullDisk{}
	}
	p := Program{
		Version: "1.2.3", Stdin: strings.NewReader(d.stdin), Stdout: into, Stderr: &diagnostics, Terminal: d.tty, Watched: d.tty,
		Getenv: func(name string) string { return d.env[name] }, Now: func() time.Time { return noon.Add(d.passed) },
		Serve:       func(_ context.Context, s Settings) error { d.served = &s; return nil },
		OpenOffline: func(context.Context, Settings) (Offline, error) { return d.place, nil },
		Migrate: func(ctx context.Context, _ Settings, dry bool) ([]string, error) {
			for at := events.Position(100); !dry && at <= 1000; at += 100 { // a hundred in four seconds
				projections.Tell(ctx, projections.Progress{Projection: "events to pages", From: 100, Position: at, To: 1000})
				d.passed += 4 * time.Second
			}
			return []string{"0001_events", "0002_feed"}, d.migrating
		},
		Backup: func(ctx context.Context, _ Settings, w io.Writer) error { return d.place.Backup(ctx, w) },
		Restore: func(ctx context.Context, _ Settings, heads []events.Head, from io.Reader) (r events.Restored, err error) {
			file, err := events.ReadBackup(from)
			if err != nil {
				return r, err
			}
			d.restored = memory.NewStore()
			return events.Restore(ctx, d.restored, file, heads, nil)
		},
	}
	code = p.Run(context.Background(), args)
	return code, out.String(), diagnostics.String()
}

// ok runs a command line that must succeed, and returns its standard output.
func (d *desk) ok(args ...string) string {
	d.t.Helper()
	code, stdout, stderr := d.run(args...)
	require.Zero(d.t, code, "%v: %s", args, stderr)
	return stdout
}

// fails runs a command line that must fail, and returns its standard error.
func (d *desk) fails(code int, args ...string) string {
	d.t.Helper()
	got, stdout, stderr := d.run(args...)
	require.Equal(d.t, code, got, "%v: %s%s", args, stdout, stderr)
	return strings.TrimSpace(strings.TrimPrefix(stderr, "penstock: "))
}

func (p *place) FreeLease(_ context.Context, upstream, request string, attempt int, reason string) (actors.FreedLease, error) {
	if upstream != "a" {
		return actors.FreedLease{}, errors.Wrapf(admin.ErrNotFound, "upstream %s", upstream)
	}
	if request != "r9" || attempt > 1 {
		return actors.FreedLease{}, errors.Wrapf(actors.ErrNoLease, "request %s at upstream %s", request, upstream)
	}
	return actors.FreedLease{RequestID: request, Attempt: 1, Key: "team-a", Account: "a-1", Since: noon, Freed: reason == ""}, nil
}

func ms(n int64) *int64 { return &n }
