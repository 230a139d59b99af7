package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

const token = "the-admin-token"

// shelf is the catalogue in memory: the real machine, and a slice of secrets in place of a sealed table.
type shelf struct {
	mu      sync.Mutex
	state   *catalog.State
	secrets map[string]string
	before  func() // runs once between the decision of a caller and its append
}

func newShelf() *shelf { return &shelf{state: catalog.NewState(), secrets: map[string]string{}} }

func (s *shelf) Apply(_ context.Context, changes []Change, o Options) (Outcome, error) {
	if hook := s.before; hook != nil {
		s.before = nil
		hook()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	named := map[catalog.Ref]bool{}
	var cmds []catalog.Command
	for _, c := range changes {
		_, version, ok := s.state.Get(c.Kind, c.ID)
		if c.Match == MatchAbsent && ok || c.Match == MatchExists && !ok || c.Match > 0 && (!ok || int64(c.Match) != version) {
			return Outcome{}, errors.Wrapf(ErrPrecondition, "%s %s is at version %d", c.Kind, c.ID, version)
		}
		named[catalog.Ref{Kind: c.Kind, ID: c.ID}] = true
		if c.Resource == nil {
			cmds = append(cmds, catalog.Remove{Kind: c.Kind, ID: c.ID})
			continue
		}
		if r, sealed := c.Resource.(catalog.Sealed); sealed && c.Extras.Credential != "" && s.secrets[r.SecretID()] != c.Extras.Credential {
			_, masked := r.Secret()
			c.Resource = r.WithSecret(version+1, masked)
		}
		cmds = append(cmds, catalog.Apply{Resource: c.Resource, RevokedUnsaid: c.Extras.RevokedUnsaid})
	}
	if o.Prune {
		for _, kind := range catalog.Kinds() {
			for _, r := range s.state.List(kind) {
				if !named[catalog.Ref{Kind: kind, ID: r.Ident()}] {
					cmds = append(cmds, catalog.Remove{Kind: kind, ID: r.Ident()})
				}
			}
		}
	}
	decided, err := catalog.DecideAll(s.state, cmds)
	if err != nil {
		return Outcome{}, err
	}
	return s.settle(changes, cmds, decided, o.DryRun), nil
}

func (s *shelf) settle(changes []Change, cmds []catalog.Command, decided []catalog.Change, dry bool) Outcome {
	out := Outcome{}
	for i, cmd := range cmds {
		done := Done{Result: Unchanged}
		if i < len(changes) {
			done.Kind, done.ID = changes[i].Kind, changes[i].ID
		} else {
			r := cmd.(catalog.Remove)
			done.Kind, done.ID = r.Kind, r.ID
		}
		_, version, existed := s.state.Get(done.Kind, done.ID)
		done.Version = version
		for _, d := range decided {
			if d.Ref == (catalog.Ref{Kind: done.Kind, ID: done.ID}) {
				done.Result, done.Version = Created, version+1
				if existed {
					done.Result = Changed
				}
				if _, removes := cmd.(catalog.Remove); removes {
					done.Result, done.Version = Removed, 0
				}
			}
		}
		out.Done = append(out.Done, done)
	}
	if !dry {
		for _, d := range decided {
			for _, f := range d.Facts {
				s.state.Evolve(f, s.state.Revision+1)
			}
			for i := range out.Done {
				if d.Ref == (catalog.Ref{Kind: out.Done[i].Kind, ID: out.Done[i].ID}) {
					out.Done[i].Position = events.Position(s.state.Revision)
				}
			}
		}
		for _, c := range changes {
			if c.Extras.Credential != "" {
				s.secrets[c.Resource.(catalog.Sealed).SecretID()] = c.Extras.Credential
			}
		}
	}
	out.Revision = events.Position(s.state.Revision)
	return out
}

func (s *shelf) Get(_ context.Context, kind catalog.Kind, id string) (Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, version, ok := s.state.Get(kind, id)
	if !ok {
		return Stored{}, errors.Wrapf(ErrNotFound, "%s %s", kind, id)
	}
	return Stored{r, version}, nil
}

func (s *shelf) List(_ context.Context, kind catalog.Kind, after string, limit int) ([]Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Stored
	for _, r := range s.state.List(kind) {
		if r.Ident() > after && len(found) < limit {
			found = append(found, Stored{Resource: r})
		}
	}
	return found, nil
}

func (s *shelf) Revision() events.Position { return events.Position(s.state.Revision) }

// recorded holds a log, its events and answers of read models.
type recorded struct {
	copying atomic.Pointer[copying] // what becomes of a backup

	entries []requestlog.Entry // newest first
	rows    []events.Committed
	billed  billing.Query // last asked
	asked   stats.Query
}

func (b *recorded) Requests(_ context.Context, q requestlog.Query) ([]requestlog.Entry, error) {
	var found []requestlog.Entry
	for _, e := range b.entries {
		older := q.Before.IsZero() || e.Position < q.Before.Position
		if older && (q.Key == "" || e.Key == q.Key) && len(found) < q.Limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func (b *recorded) Request(_ context.Context, id string) (*requestlog.Entry, error) {
	for i := range b.entries {
		if b.entries[i].RequestID == id {
			return &b.entries[i], nil
		}
	}
	return nil, nil
}

func (b *recorded) Find(_ context.Context, q events.Query, yield func(*events.Committed) bool) error {
	sent := 0
	for i := range b.rows {
		row := &b.rows[i]
		if row.Last() <= q.After || q.Stream != "" && row.Stream != q.Stream || q.Type != "" && !events.HasType(row.Types, q.Type) {
			continue
		}
		if q.Limit > 0 && sent == q.Limit || !yield(row) {
			return nil
		}
		sent++
	}
	return nil
}

func (b *recorded) Bill(_ context.Context, q billing.Query) ([]billing.Line, error) {
	b.billed = q
	key := "team-a"
	return []billing.Line{{Key: &key, Requests: 2, Cost: money.USD}}, nil
}

func (b *recorded) Overview(_ context.Context, q stats.Query) (stats.Overview, error) {
	b.asked = q
	return stats.Overview{Figures: stats.Figures{Requests: 7}}, nil
}

func (b *recorded) Timeseries(_ context.Context, q stats.Query) ([]stats.Bucket, error) {
	b.asked = q
	return nil, nil
}

func (b *recorded) Leaderboard(_ context.Context, q stats.Query) ([]stats.Rank, error) {
	b.asked = q
	return []stats.Rank{{Name: "gpt-5"}}, nil
}

func (b *recorded) Replay(_ context.Context, projection string, verify bool) ([]projections.Report, error) {
	if projection != "" && projection != "billing" {
		return nil, errors.Wrapf(ErrNotFound, "projection %s", projection)
	}
	return []projections.Report{{Projection: "billing", Equal: verify}}, nil
}

func (b *recorded) Health(context.Context) HealthReport {
	if len(b.rows) == 0 {
		return HealthReport{Status: "unavailable"}
	}
	return HealthReport{Status: "ok", Store: StoreHealth{Kind: "memory"}}
}

type bench struct {
	t     *testing.T
	shelf *shelf
	books *recorded
	live  *machine
	srv   *Server
	till  *till
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, shelf: newShelf(), books: &recorded{}, live: &machine{blocks: map[string]*time.Time{}}, till: &till{}}
	srv, err := New(Config{Token: token, Version: "test", Logger: slog.New(slog.DiscardHandler),
		Ports: Ports{b.shelf, b.books, b.books, b.books, b.books, b.books, b.live, b.books},
		Feed:  events.NewPullFeed(nil, &events.Bell{}, nil), Webhooks: b.books, Ledger: b.till,
		Reprice: repricer(t, memory.NewStore()), Backups: b.books,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "figures 1\n") })})
	require.NoError(t, err)
	b.srv = srv
	return b
}

// ask sends a request with the token; headers are names and values in turn.
func (b *bench) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, reader)
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.srv.Handler().ServeHTTP(w, r)
	return w
}

func (b *bench) ok(status int, w *httptest.ResponseRecorder) map[string]any {
	b.t.Helper()
	require.Equal(b.t, status, w.Code, w.Body.String())
	var v map[string]any
	if w.Body.Len() > 0 {
		require.NoError(b.t, json.Unmarshal(w.Body.Bytes(), &v), w.Body.String())
	}
	return v
}

// refused checks that the answer is a problem document and returns its places, "location: message", in order.
func (b *bench) refused(status int, w *httptest.ResponseRecorder) []string {
	b.t.Helper()
	require.Equal(b.t, status, w.Code, w.Body.String())
	require.Equal(b.t, "application/problem+json", w.Header().Get("Content-Type"))
	var model struct {
		Title  string
		Status int
		Detail string
		Errors []struct {
			Location, Message string
			Value             any
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	require.NoError(b.t, decoder.Decode(&model))
	require.Equal(b.t, status, model.Status)
	require.NotEmpty(b.t, model.Title)
	require.NotEmpty(b.t, model.Detail)
	var places []string
	for _, e := range model.Errors {
		require.Nil(b.t, e.Value, "what was sent is not sent back")
		places = append(places, e.Location+": "+e.Message)
	}
	slices.Sort(places)
	return places
}

const upstreamDoc = `{"base_url":"http://127.0.0.1:9001","capabilities":["openai_chat_compatible"],"slots":10}`
