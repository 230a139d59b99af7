package penstock

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// projectionList is every read model, in the order in which they are shown.
func projectionList() []projections.Projection {
	return []projections.Projection{requestlog.Projection{}, requestlog.Marker{}, billing.Projection{}, stats.Projection{}, ledger.Projection{}}
}

// vault seals credentials for the catalogue.
type vault struct{ *secrets.Sealer }

func (v vault) Seal(account string, version int64, plain string) (sealed, digest []byte) {
	return v.Sealer.Seal(account, version, secrets.Secret(plain)), v.Digest(account, plain)
}

func (v vault) Digest(account, plain string) []byte {
	return v.Sealer.Digest(account, secrets.Secret(plain))
}

func (v vault) Open(account string, version int64, sealed []byte) (string, error) {
	s, err := v.Sealer.Open(account, version, sealed)
	return string(s), err
}

// layoutOf is what the actors need of the catalogue.
func layoutOf(s *catalog.Snapshot) actors.Layout {
	var l actors.Layout
	for _, u := range s.Upstreams() {
		l.Upstreams = append(l.Upstreams, *u.Upstream)
		for _, a := range u.Accounts {
			l.Accounts = append(l.Accounts, *a.Account)
		}
	}
	l.Users, l.Keys, l.Budgets, l.Born = s.Users(), s.Keys(), s.Budgets(), s.Born
	return l
}

// ports are what the admin API shows.
func (g *Gateway) ports() admin.Ports {
	read := g.readings()
	return admin.Ports{
		Catalog: configuration{g.catalogue, g.journal}, Log: read, Events: written{g}, Billing: read, Stats: read, Replay: g, Live: live{g.system, g.affinity}, Health: g,
	}
}

func (g *Gateway) readings() readings {
	return readings{g.model, g.ready, g.ledger.closer, g.past(), g.runner.Serves}
}

func (g *Gateway) past() past { return past{g.store, g.backend, g.ledger.closer, &g.replays} }

// written reads events once everything that was appended before is stored.
type written struct{ g *Gateway }

func (w written) Find(ctx context.Context, q events.Query, yield func(*events.Committed) bool) error {
	if err := w.g.synced(ctx); err != nil {
		return err
	}
	return w.g.store.Find(ctx, q, yield)
}

// synced returns when everything that was appended before is stored, or at once when the store is away.
func (g *Gateway) synced(ctx context.Context) error {
	if g.journal.Fault() != nil {
		return nil
	}
	return g.journal.Sync(ctx)
}

// settledNow returns when the read models have everything that was appended before.
func (g *Gateway) settledNow(ctx context.Context) error {
	if err := g.synced(ctx); err != nil {
		return err
	}
	head, err := g.store.Head(ctx)
	if err != nil {
		return err
	}
	return g.runner.WaitFor(ctx, head)
}

// readings reads the read models once they have caught up.
type readings struct {
	model  readModel
	ready  func(context.Context) (context.Context, context.CancelFunc, error) // see Gateway.ready
	closer *closer
	past   past
	serves func(projection string) error // wraps projections.ErrRebuilding while the stored rows can not be shown
}

func (b readings) Requests(ctx context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	return answer(ctx, b, requestlog.Projection{}.Name(), q, b.model.Requests)
}

func (b readings) Request(ctx context.Context, id string) (*requestlog.Entry, error) {
	return answer(ctx, b, requestlog.Projection{}.Name(), id, b.model.Request)
}

func (b readings) Bill(ctx context.Context, q billing.Query) ([]billing.Line, error) {
	of := billing.Projection{}.Name()
	if q.Stood() { // of rows of its own
		of = ""
	}
	return answer(ctx, b, of, q, func(ctx context.Context, q billing.Query) ([]billing.Line, error) {
		if err := b.closer.whole(q); err != nil {
			return nil, err
		}
		if q.Stood() {
			return b.past.Bill(ctx, q)
		}
		return b.model.Bill(ctx, q)
	})
}

func (b readings) Overview(ctx context.Context, q stats.Query) (stats.Overview, error) {
	return answer(ctx, b, stats.Projection{}.Name(), q, b.model.Overview)
}

func (b readings) Timeseries(ctx context.Context, q stats.Query) ([]stats.Bucket, error) {
	return answer(ctx, b, stats.Projection{}.Name(), q, b.model.Timeseries)
}

func (b readings) Leaderboard(ctx context.Context, q stats.Query) ([]stats.Rank, error) {
	return answer(ctx, b, stats.Projection{}.Name(), q, b.model.Leaderboard)
}

// Replay rebuilds read models, or verifies them; see admin.Replay.
func (g *Gateway) Replay(ctx context.Context, projection string, verify bool) ([]projections.Report, error) {
	if err := g.readable(ctx); err != nil {
		return nil, err
	}
	g.ledger.closer.replays.RLock() // nothing is taken away meanwhile
	defer g.ledger.closer.replays.RUnlock()
	reports, err := replay(projection, func(p projections.Projection) (projections.Report, error) {
		if !verify {
			return g.runner.Rebuild(ctx, p.Name(), nil)
		}
		ctx, done := g.replays.Watch(ctx, "verify", p.Name())
		defer done()
		return projections.Verify(ctx, g.store, g.model, p, g.backend.openShadow(p))
	})
	return reports, g.heldUp(err)
}

// Until tells what the books were at a moment; see admin.Past.
func (g *Gateway) Until(ctx context.Context, projection string, q billing.Query) ([]admin.Standing, error) {
	if err := g.readable(ctx); err != nil {
		return nil, err
	}
	list, err := g.past().Until(ctx, projection, q)
	return list, g.heldUp(err)
}

// replay does one for each projection that is meant.
func replay[R any](projection string, one func(projections.Projection) (R, error)) ([]R, error) {
	var reports []R
	for _, p := range projectionList() {
		if projection != "" && projection != p.Name() {
			continue
		}
		r, err := one(p)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return nil, errors.Wrapf(admin.ErrNotFound, "projection %q", projection)
	}
	return reports, nil
}

// configuration is the catalogue as the admin API sees it.
type configuration struct {
	*actors.Catalogue
	journal *events.Journal
}

func (c configuration) Apply(ctx context.Context, changes []admin.Change, o admin.Options) (admin.Outcome, error) {
	if err := checkHooks(changes); err != nil {
		return admin.Outcome{}, err
	}
	wishes := make([]actors.Wish, len(changes))
	for i, x := range changes {
		wishes[i] = actors.Wish{Kind: x.Kind, ID: x.ID, Resource: x.Resource, Credential: x.Extras.Credential,
			RevokedUnsaid: x.Extras.RevokedUnsaid, Check: check(x.Match)}
	}
	if err := c.journal.Diverted(); err != nil && !o.DryRun { // at once, rather than when the store has not answered
		return admin.Outcome{}, admin.Unavailable(err)
	}
	applied, err := c.Catalogue.Apply(ctx, wishes, o.DryRun, o.Prune)
	if err != nil {
		return admin.Outcome{}, refused(err)
	}
	out := admin.Outcome{Revision: c.Revision()}
	for _, a := range applied {
		d := admin.Done{Kind: a.Kind, ID: a.ID, Result: admin.Unchanged, Position: a.Position, Version: a.Version}
		switch {
		case a.Before != nil && a.After == nil:
			d.Result, d.Version = admin.Removed, 0
		case a.Changed && a.Before == nil:
			d.Result = admin.Created
		case a.Changed:
			d.Result, d.Fields = admin.Changed, catalog.Differ(a.Before, a.After)
		}
		out.Done = append(out.Done, d)
	}
	return out, nil
}

// refused says of an append that failed what the API says: somebody was faster, or the store is away.
func refused(err error) error {
	if errors.Is(err, events.ErrConflict) {
		return admin.Conflict(err)
	}
	return unavailable(err)
}

// check is the condition of a change as a function of the version that is there, 0 for none.
func check(m admin.Match) func(int64) error {
	switch {
	case m == admin.MatchAny:
		return nil
	case m == admin.MatchExists:
		return func(v int64) error { return refuseUnless(v > 0, "there is none") }
	case m == admin.MatchAbsent:
		return func(v int64) error { return refuseUnless(v == 0, "it exists already") }
	}
	return func(v int64) error { return refuseUnless(v == int64(m), "it is at version "+strconv.FormatInt(v, 10)) }
}

func refuseUnless(ok bool, why string) error {
	if ok {
		return nil
	}
	return errors.Wrap(admin.ErrPrecondition, why)
}

func (c configuration) Get(_ context.Context, kind catalog.Kind, id string) (admin.Stored, error) {
	r, version, ok := c.Catalogue.Get(kind, id)
	if !ok {
		return admin.Stored{}, errors.Wrapf(admin.ErrNotFound, "%s %s", kind, id)
	}
	return admin.Stored{Resource: r, Version: version}, nil
}

func (c configuration) List(_ context.Context, kind catalog.Kind, after string, limit int) ([]admin.Stored, error) {
	list, versions := c.Catalogue.List(kind)
	from, found := slices.BinarySearchFunc(list, after, func(r catalog.Resource, id string) int { return cmp.Compare(r.Ident(), id) })
	if found {
		from++
	}
	var out []admin.Stored
	for i := from; i < len(list) && (limit == 0 || len(out) < limit); i++ {
		out = append(out, admin.Stored{Resource: list[i], Version: versions[i]})
	}
	return out, nil
}

// live is what the actors show and take by hand.
type live struct {
	*actors.System
	affinity *actors.Affinity
}

// boundMax bounds the sessions that a status lists.
const boundMax = 20

func (l live) UpstreamStatus(_ context.Context, id string) (actors.UpstreamStatus, error) {
	s, ok := l.Status(id)
	if !ok {
		return s, errors.Wrapf(admin.ErrNotFound, "upstream %s", id)
	}
	bound := l.affinity.Status(id, time.Now(), boundMax)
	s.Bindings, s.Sessions = &bound.Bindings, bound.Sessions
	return s, nil
}

func (l live) ForceBreaker(_ context.Context, id string, w actors.Switch) error {
	if _, ok := l.Status(id); !ok {
		return errors.Wrapf(admin.ErrNotFound, "upstream %s", id)
	}
	return l.Switch(id, w)
}

func (l live) FreeLease(ctx context.Context, upstream, request string, attempt int, reason string) (actors.FreedLease, error) {
	if _, ok := l.Board().Figures(upstream); !ok {
		return actors.FreedLease{}, errors.Wrapf(admin.ErrNotFound, "upstream %s", upstream)
	}
	return l.Free(ctx, upstream, request, attempt, reason)
}

func (l live) BlockAccount(_ context.Context, id string, until *time.Time) error {
	if _, ok := l.Board().AccountFigures(id); !ok {
		return errors.Wrapf(admin.ErrNotFound, "account %s", id)
	}
	return l.System.BlockAccount(id, until)
}

// keyLimits is what keys have used.
type keyLimits struct{ system *actors.System }

func (k keyLimits) KeyStatus(_ context.Context, id string) (actors.KeyStatus, error) {
	s, ok := k.system.KeyStatus(id)
	if !ok {
		return s, errors.Wrapf(admin.ErrNotFound, "key %s", id)
	}
	return s, nil
}
