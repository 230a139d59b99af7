package admin_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
)

// rebuilder replays a real history and shows what the API says in the middle of it.
type rebuilder struct {
	board  projections.Board
	store  events.Store
	model  *memory.ReadModel
	meanly func() // called in the middle
}

func (r *rebuilder) Replay(ctx context.Context, _ string, verify bool) ([]projections.Report, error) {
	if verify {
		return nil, errors.Wrap(projections.ErrRebuilding, "billing is at 5 of 9")
	}
	ctx, done := r.board.Watch(projections.WatchEvery(ctx, 50, func(projections.Progress) {}), "rebuild", "billing")
	defer done()
	ctx = projections.Watch(ctx, func(p projections.Progress) {
		if p.Position > p.To/2 && r.meanly != nil {
			meanly := r.meanly
			r.meanly = nil
			defer meanly()
		}
	})
	report, err := projections.Rebuild(ctx, r.store, r.model, billing.Projection{}, nil)
	return []projections.Report{report}, err
}

func TestAReplayThatRunsCanBeWatched(t *testing.T) {
	history, err := lawtest.History{Seed: 1, Requests: 60}.Appends()
	require.NoError(t, err)
	r := &rebuilder{store: memory.NewStore(), model: memory.NewReadModel(billing.Projection{})}
	lawtest.Commits(t, r.store, history, 10)
	srv, err := admin.New(admin.Config{Token: "t0ken", Version: "test", Logger: slog.New(slog.DiscardHandler),
		Ports: admin.Ports{Replay: r}, Replays: &r.board})
	require.NoError(t, err)
	ask := func(method, body string) (int, string) {
		req := httptest.NewRequest(method, "/api/v1/replay", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer t0ken")
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	_, none := ask("GET", "")
	require.JSONEq(t, `{"items":[]}`, none)
	var during admin.ReplayStates
	began := time.Now()
	r.meanly = func() {
		_, body := ask("GET", "")
		require.NoError(t, json.Unmarshal([]byte(body), &during))
	}
	status, body := ask("POST", `{}`)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"projection":"billing"`)
	require.Len(t, during.Items, 1)
	s := during.Items[0]
	require.Equal(t, "rebuild", s.Kind)
	require.Equal(t, "billing", s.Projection)
	require.Positive(t, s.Position)
	require.Less(t, s.Position, s.To)
	require.Positive(t, s.PerSecond)
	require.WithinDuration(t, began, s.Begun, time.Minute)
	_, none = ask("GET", "")
	require.JSONEq(t, `{"items":[]}`, none)

	status, body = ask("POST", `{"verify":true}`)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "billing is at 5 of 9: projection is being rebuilt")
}
