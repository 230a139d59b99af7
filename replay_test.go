package penstock_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// elder is a projection of another program with the same tables.
type elder struct{ projections.Projection }

func (elder) Version() int { return 99 }

// narrow is one whose tables lack a column, and have no rows.
type narrow struct{ projections.Projection }

func (narrow) Version() int { return 99 }

func (n narrow) Tables() []*projections.Table {
	var tables []*projections.Table
	for _, t := range n.Projection.Tables() {
		narrowed := *t
		narrowed.Columns, narrowed.Indexes = t.Columns[:len(t.Columns)-1], nil
		tables = append(tables, &narrowed)
	}
	return tables
}

func (narrow) Fold(*request.Story, events.Fact, projections.Place, *projections.Changes) {}

// downgrade makes the read models of a stopped gateway those of another program.
func (r *rig) downgrade(list ...projections.Projection) {
	r.t.Helper()
	ctx := context.Background()
	var store events.Store
	var model projections.ReadModel
	var err, failed error
	if r.config.Store == "" {
		store, err = sqlite.OpenStore(filepath.Join(r.config.DataDir, "events.db"), sqlite.StoreOptions{})
		model, failed = sqlite.OpenReadModel(filepath.Join(r.config.DataDir, "read.db"), list...)
	} else {
		store, err = postgres.OpenStore(ctx, r.config.Store, postgres.StoreOptions{})
		model, failed = postgres.OpenReadModel(ctx, r.config.Store, list...)
	}
	require.NoError(r.t, err)
	require.NoError(r.t, failed)
	runner := projections.NewRunner(projections.Options{Store: store, Model: model, Projections: list})
	require.NoError(r.t, runner.Start(ctx))
	require.NoError(r.t, runner.Rebuilt(ctx))
	require.NoError(r.t, runner.Stop(ctx))
	require.NoError(r.t, model.Close())
	require.NoError(r.t, store.Close())
}

// obstruct puts something where shadows of the projections are to be, until the returned function is called.
func (r *rig) obstruct(list ...projections.Projection) (clear func()) {
	r.t.Helper()
	if r.config.Store == "" {
		var folders []string
		for _, p := range list {
			folder := filepath.Join(r.config.DataDir, "read.db.rebuild-"+p.Name()+"-v"+strconv.Itoa(p.Version()))
			require.NoError(r.t, os.Mkdir(folder, 0o700))
			folders = append(folders, folder)
		}
		return func() {
			for _, folder := range folders {
				require.NoError(r.t, os.Remove(folder))
			}
		}
	}
	c, err := pgx.Connect(context.Background(), r.config.Store)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = c.Close(context.Background()) })
	run := func(verb string) {
		for _, p := range list {
			_, err := c.Exec(context.Background(), verb+" SCHEMA read_rebuild_"+p.Name()+"_v"+strconv.Itoa(p.Version()))
			require.NoError(r.t, err)
		}
	}
	run("CREATE")
	return func() { run("DROP") }
}

func (r *rig) health() admin.HealthReport {
	r.t.Helper()
	_, body := r.admin("GET", "/health", nil)
	var h admin.HealthReport
	require.NoError(r.t, json.Unmarshal(body, &h), "%s", body)
	return h
}

// A gateway whose program has another version of a projection serves at once, with the old rows where they can be read,
// and rebuilds them beside, however often that fails.
func TestRowsOfAnotherVersionAreServedWhileTheyAreRebuilt(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "price", "model": "*", "input": "1.25", "output": "10"})
	key := r.key("team", nil)
	call := func(n int) {
		for range n {
			resp, body := r.post("/v1/chat/completions", chatBody("call"), "Authorization", key)
			require.Equal(t, 200, resp.StatusCode, body)
		}
	}
	bill := func(query string) string {
		status, body := r.admin("GET", "/api/v1/billing"+query, nil)
		require.Equal(t, 200, status, "%s", body)
		return string(body)
	}
	call(3)
	then := bill("?by=key,model")
	r.close()
	r.downgrade(requestlog.Projection{}, requestlog.Marker{}, elder{billing.Projection{}}, narrow{stats.Projection{}})
	clear := r.obstruct(billing.Projection{}, stats.Projection{})
	r.open()

	call(2)
	h := r.health()
	require.Equal(t, "degraded", h.Status)
	for _, p := range h.Projections {
		require.Equal(t, p.Name == "billing" || p.Name == "stats", p.Rebuilding, "%+v", p)
		require.True(t, !p.Rebuilding || p.Lag > 0, "%+v", p)
	}
	require.JSONEq(t, then, bill("?by=key,model"), "the old rows stand still")
	require.Contains(t, bill("?as_of="+time.Now().UTC().Format(time.RFC3339Nano)), `"requests":5`)
	require.Len(t, r.logs(""), 5)
	for _, refused := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/api/v1/stats/overview", nil},
		{"POST", "/api/v1/replay", map[string]any{"projection": "billing", "verify": true}},
		{"POST", "/api/v1/books/close", map[string]any{"until": "2020-01-01"}},
	} {
		status, body := r.admin(refused.method, refused.path, refused.body)
		require.Equal(t, 503, status, "%s: %s", refused.path, body)
		require.Contains(t, string(body), "being rebuilt", refused.path)
	}

	clear()
	require.Eventually(t, func() bool { return r.health().Status == "ok" }, time.Minute, 20*time.Millisecond)
	require.Contains(t, bill(""), `"requests":5`)
	status, body := r.admin("GET", "/api/v1/stats/overview", nil)
	require.Equal(t, 200, status, "%s", body)
	call(1)
	require.Contains(t, bill(""), `"requests":6`)
	r.verify()
	files, err := os.ReadDir(r.config.DataDir)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.Contains(f.Name(), "rebuild") }), "%v", files)
}

// The books at a position are what was told then, by projection, whatever came later; running or stopped.
func TestReplayUntilTellsTheBooksOfThatMomentAndLeavesTheLiveRowsAlone(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	key := r.key("team", nil)
	call := func() {
		resp, body := r.post("/v1/chat/completions", chatBody("call"), "Authorization", key)
		require.Equal(t, 200, resp.StatusCode, body)
	}
	until := func(query string) []admin.Standing {
		status, body := r.admin("GET", "/api/v1/replay/until?until="+query, nil)
		require.Equal(t, 200, status, "%s", body)
		var all admin.Standings
		require.NoError(t, json.Unmarshal(body, &all))
		return all.Items
	}
	r.apply(map[string]any{"kind": "user", "id": "ann"})
	r.must("POST", "/api/v1/users/ann/credits", map[string]any{"amount": "1"})
	call()
	_, body := r.admin("GET", "/api/v1/events?newest=true&limit=1", nil)
	var page struct{ Items []struct{ Position int64 } }
	require.NoError(t, json.Unmarshal(body, &page))
	position := strconv.Itoa(int(page.Items[len(page.Items)-1].Position))
	call()
	now := until(time.Now().UTC().Format(time.RFC3339Nano))
	past := until(position)
	require.Len(t, past, len(r.health().Projections))
	for i, want := range []int64{1, 2} {
		for _, s := range [][]admin.Standing{past, now}[i] {
			require.Positive(t, s.Events)
			require.Positive(t, s.Rows)
			switch s.Projection {
			case "requestlog":
				require.Equal(t, want, s.Tables[requestlog.Requests.Name])
			case "billing":
				require.Len(t, s.Lines, 1)
				require.Equal(t, want, s.Lines[0].Requests)
				require.Equal(t, "team", *s.Lines[0].Key)
			}
		}
	}
	require.Len(t, until(position+"&projection=stats"), 1)
	for query, want := range map[string]struct {
		status int
		text   string
	}{
		"?until=1000000":               {422, "the events end at position"},
		"?until=soon":                  {422, "until"},
		"":                             {422, "until"},
		"?until=1&projection=nobody's": {404, "nobody's"},
	} {
		status, body := r.admin("GET", "/api/v1/replay/until"+query, nil)
		require.Equal(t, want.status, status, "%s: %s", query, body)
		require.Contains(t, string(body), want.text)
	}
	status, body := r.admin("GET", "/api/v1/replay", nil)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"items":[]}`, string(body))
	r.verify()
}

func TestADataFolderOfAnotherVersionIsBroughtUpToDateWhenItIsOpenedWithoutAGateway(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	key := r.key("team", nil)
	for range 3 {
		resp, body := r.post("/v1/chat/completions", chatBody("call"), "Authorization", key)
		require.Equal(t, 200, resp.StatusCode, body)
	}
	r.close()
	r.downgrade(elder{requestlog.Projection{}}, elder{requestlog.Marker{}}, elder{billing.Projection{}}, narrow{stats.Projection{}}, elder{ledger.Projection{}})
	told := map[string]events.Position{}
	ctx := projections.Watch(t.Context(), func(p projections.Progress) {
		told[p.Projection] = max(told[p.Projection], p.Position)
	})
	o, err := penstock.OpenOffline(ctx, r.config.DataDir, r.config.Store, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	lines, err := o.Bill(t.Context(), billing.Query{})
	require.NoError(t, err)
	require.EqualValues(t, 3, lines[0].Requests)
	reports, err := o.Replay(t.Context(), "", true)
	require.NoError(t, err)
	require.Len(t, reports, 5)
	for _, report := range reports {
		require.True(t, report.Equal, "%+v", report)
		require.Positive(t, told[report.Projection], "%v", told)
	}
	standings, err := o.Until(t.Context(), "billing", billing.Query{AsOfTime: time.Now()})
	require.NoError(t, err)
	require.EqualValues(t, 3, standings[0].Lines[0].Requests)
}
