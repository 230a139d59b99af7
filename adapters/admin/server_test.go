package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/requestlog"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sha256Of(s string) [32]byte { return sha256.Sum256([]byte(s)) }

// machine is what runs: one upstream "a" with one account "a-1".
type machine struct {
	open   bool
	until  time.Time
	of     breaker.Key
	blocks map[string]*time.Time
}

func (m *machine) UpstreamStatus(_ context.Context, id string) (status actors.UpstreamStatus, err error) {
	if id != "a" {
		return status, errors.Wrapf(ErrNotFound, "upstream %s", id)
	}
	return status, json.Unmarshal([]byte(`{"id":"a"}`), &status)
}

func (m *machine) ForceBreaker(_ context.Context, id string, w actors.Switch) error {
	if id != "a" {
		return errors.Wrapf(ErrNotFound, "upstream %s", id)
	}
	if w.Of.Account == "unshared" {
		return errors.Wrapf(actors.ErrNoOwnBreaker, "upstream %s", id)
	}
	m.open, m.until, m.of = w.Open, w.Until, w.Of
	return nil
}

func (m *machine) BlockAccount(_ context.Context, id string, until *time.Time) error {
	if id != "a-1" {
		return errors.Wrapf(ErrNotFound, "account %s", id)
	}
	m.blocks[id] = until
	return nil
}

// D31-D34: who may pass. D32 and D33 (no password means no check) are not taken over: a token there always is.
func TestOnlyTheTokenOpensTheAPI(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		header, value string
		status        int
	}{
		"bearer":              {"Authorization", "Bearer " + token, 200},
		"lower case bearer":   {"Authorization", "bearer " + token, 200},
		"bare":                {"Authorization", token, 200},
		"x-api-key":           {"X-Api-Key", token, 200},
		"x-goog-api-key":      {"X-Goog-Api-Key", token, 200},
		"nothing":             {"X-Nothing", "", 401},
		"a wrong one":         {"Authorization", "Bearer wrong", 401},
		"a part":              {"Authorization", "Bearer " + token[:5], 401},
		"empty":               {"Authorization", "Bearer ", 401},
		"basic":               {"Authorization", "Basic " + token, 401},
		"right in the second": {"X-Api-Key", token + " ", 401},
	} {
		r := httptest.NewRequest("GET", "/api/v1/users", nil)
		r.Header.Set(c.header, c.value)
		w := httptest.NewRecorder()
		b.srv.Handler().ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, name)
		if c.status == 401 {
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"), name)
			require.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer", name)
		}
	}
	for path, status := range map[string]int{"/metrics": 200, "/health": 503, "/healthz": 503, "/api/health": 503,
		"/openapi.json": 401, "/api/v1/none": 401, "/healthz/": 401, "/metrics/..": 401} {
		w := httptest.NewRecorder()
		b.srv.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		require.Equal(t, status, w.Code, path)
	}
	_, err := New(Config{})
	require.ErrorContains(t, err, "token")
}

func TestWrongPathsAndMethodsAreProblems(t *testing.T) {
	b := newBench(t)
	b.refused(http.StatusNotFound, b.ask("GET", "/api/v1/upstream", ""))
	w := b.ask("POST", "/api/v1/upstreams/a", "{}")
	b.refused(http.StatusMethodNotAllowed, w)
	require.Equal(t, "GET, PUT, PATCH, DELETE", w.Header().Get("Allow"))
	b.refused(http.StatusRequestEntityTooLarge, b.ask("PUT", "/api/v1/users/u", `{"name":"`+strings.Repeat("x", bodyMax)+`"}`))
}

// The golden file lists every operation; its diff is the review of a change of the API.
func TestOpenAPIListsEveryPath(t *testing.T) {
	b := newBench(t)
	w := b.ask("GET", "/openapi.json", "")
	require.Equal(t, http.StatusOK, w.Code)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
			}
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
	var lines []string
	for path, operations := range doc.Paths {
		for method, op := range operations {
			lines = append(lines, path+" "+strings.ToUpper(method)+" "+op.OperationID)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/openapi.golden"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	require.Contains(t, doc.Components.Schemas["Upstream"].Properties, "model_rules")
	require.NotContains(t, doc.Components.Schemas["Account"].Properties, "secret_version")
	require.Contains(t, slices.Collect(maps.Keys(doc.Components.Schemas)), "RequestlogEntry")
}

func TestLongWorkIsNotCutByADeadlineForTheBody(t *testing.T) {
	b := newBench(t)
	for path, item := range b.srv.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch} {
			if op != nil {
				require.Negative(t, op.BodyReadTimeout, path)
			}
		}
	}
}

func TestServerStopsWhenToldTo(t *testing.T) {
	b := newBench(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- b.srv.Serve(l) }()
	answer, err := http.Get("http://" + l.Addr().String() + "/metrics")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, b.srv.Close(context.Background()))
	require.NoError(t, <-done)
}

// E28: one write, whole or not at all, in force when it returns.
func TestApplyIsWholeOrNothing(t *testing.T) {
	b := newBench(t)
	up := `{"kind":"upstream","id":"a",` + upstreamDoc[1:]
	key := `{"kind":"key","id":"k","hash":"sha256:` + strings.Repeat("ab", 32) + `","user":"u","access":"unrestricted"}`
	user := `{"kind":"user","id":"u"}`

	places := b.refused(422, b.ask("POST", "/api/v1/apply", `{"resources":[`+up+`,`+key+`]}`))
	require.Equal(t, []string{"body.resources[1].user: user u does not exist"}, places)
	places = b.refused(422, b.ask("POST", "/api/v1/apply", `{"resources":[`+up+`,{"kind":"user","id":"u","x":1},{"kind":"box"},7,{"kind":"key","id":"k","limits":{"rps":1}}]}`))
	require.Len(t, places, 4, "every document that is wrong is named at once")
	require.Contains(t, places, "body.resources[1].x: unknown field")
	require.Contains(t, places, "body.resources[4].limits.rps: unknown field")
	require.True(t, strings.HasPrefix(places[1], "body.resources[2].kind: ") || strings.HasPrefix(places[2], "body.resources[2].kind: "))
	require.Zero(t, b.shelf.Revision(), "nothing was stored")

	preview := b.ok(200, b.ask("POST", "/api/v1/apply", `{"dry_run":true,"resources":[`+key+`,`+up+`,`+user+`]}`))
	require.Equal(t, []string{"key k created 0", "upstream a created 0", "user u created 0"}, results(preview))
	require.Zero(t, b.shelf.Revision())

	done := b.ok(200, b.ask("POST", "/api/v1/apply", `{"resources":[`+key+`,`+up+`,`+user+`]}`))
	require.Equal(t, []string{"key k created 3", "upstream a created 1", "user u created 2"}, results(done), "any order will do")
	require.EqualValues(t, 3, done["revision"])

	done = b.ok(200, b.ask("POST", "/api/v1/apply", `{"prune":true,"resources":[`+strings.Replace(up, "10", "11", 1)+`,`+user+`]}`))
	require.Equal(t, []string{"upstream a changed 4", "user u unchanged 0", "key k removed 5"}, results(done))
	b.refused(422, b.ask("POST", "/api/v1/apply", `{"resources":[],"dryrun":true}`))
}

func results(answer map[string]any) []string {
	var all []string
	for _, r := range answer["resources"].([]any) {
		b, _ := json.Marshal(r)
		var d Done
		_ = json.Unmarshal(b, &d)
		p, _ := json.Marshal(d.Position)
		all = append(all, string(d.Kind)+" "+d.ID+" "+string(d.Result)+" "+string(p))
	}
	return all
}

func rowOf(t *testing.T, position events.Position, version int64, facts ...events.Fact) events.Committed {
	t.Helper()
	row := events.Row{Stream: "request/r1", Request: "r1", Version: version, At: time.Unix(100, 0), Node: "n", Facts: facts}
	require.NoError(t, events.Encode(&row))
	return events.Committed{Position: position, Row: row}
}

func TestRequestsAndTheirStories(t *testing.T) {
	b := newBench(t)
	b.books.entries = []requestlog.Entry{
		{RequestID: "r3", At: time.Unix(300, 0), Position: 30, Key: "k"},
		{RequestID: "r2", At: time.Unix(200, 0), Position: 20},
		{RequestID: "r1", At: time.Unix(100, 0), Position: 10, Key: "k"},
	}
	b.books.rows = []events.Committed{
		rowOf(t, 10, 0, &request.Admitted{Ask: request.Ask{Model: "gpt-5"}}, &request.Dispatched{N: 1, Upstream: "a"}),
		rowOf(t, 12, 2, &request.Settled{Outcome: request.Completed, Status: 200}),
	}
	page := b.ok(200, b.ask("GET", "/api/v1/requests?limit=2", ""))
	require.Len(t, page["items"], 2)
	rest := b.ok(200, b.ask("GET", "/api/v1/requests?limit=2&before="+page["next"].(string), ""))
	require.Len(t, rest["items"], 1)
	require.Empty(t, rest["next"])
	require.Len(t, b.ok(200, b.ask("GET", "/api/v1/requests?key=k", ""))["items"], 2)
	for query, want := range map[string]string{
		"limit=5000":   "query.limit: 5000 is not between 1 and 1000",
		"before=x":     `query.before: "x" is no cursor of this log`,
		"outcome=fine": `query.outcome: "fine" is not one of completed, failed, rejected, cancelled, abandoned`,
	} {
		require.Equal(t, []string{want}, b.refused(422, b.ask("GET", "/api/v1/requests?"+query, "")))
	}
	require.Len(t, b.refused(422, b.ask("GET", "/api/v1/requests?since=yesterday", "")), 1)

	story := b.ok(200, b.ask("GET", "/api/v1/requests/r1", ""))
	require.Equal(t, "r1", story["request"].(map[string]any)["request_id"])
	facts := story["events"].([]any)
	require.Len(t, facts, 3)
	for i, name := range []string{"request.admitted", "attempt.dispatched", "request.settled"} {
		fact := facts[i].(map[string]any)
		require.Equal(t, name, fact["type"])
		require.EqualValues(t, 10+i, fact["position"])
		require.EqualValues(t, i+1, fact["version"])
	}
	require.Equal(t, "gpt-5", facts[0].(map[string]any)["data"].(map[string]any)["model"])
	b.refused(404, b.ask("GET", "/api/v1/requests/none", ""))

	only := b.ok(200, b.ask("GET", "/api/v1/events?type=attempt.dispatched", ""))["items"].([]any)
	require.Len(t, only, 1)
	require.EqualValues(t, 11, only[0].(map[string]any)["position"])
	first := b.ok(200, b.ask("GET", "/api/v1/events?limit=1", ""))
	require.EqualValues(t, 11, first["next"])
	require.Len(t, b.ok(200, b.ask("GET", "/api/v1/events?limit=1&after=11", ""))["items"], 1)
	require.Equal(t, []string{"query.type: there is no event of this type"}, b.refused(422, b.ask("GET", "/api/v1/events?type=nope", "")))
	for _, path := range []string{"events", "requests", "billing", "stats/overview"} {
		places := b.refused(422, b.ask("GET", "/api/v1/"+path+"?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", ""))
		require.Equal(t, []string{"query.until: is not after since"}, places, path)
	}
}

func TestReportsPassOnWhatWasAsked(t *testing.T) {
	b := newBench(t)
	bill := b.ok(200, b.ask("GET", "/api/v1/billing?by=key,day&since=2026-01-01T00:00:00Z", ""))
	require.Equal(t, "1", bill["items"].([]any)[0].(map[string]any)["cost"])
	require.Equal(t, []string{"key", "day"}, b.books.billed.By)
	require.Equal(t, 2026, b.books.billed.Since.Year())
	require.Len(t, b.refused(422, b.ask("GET", "/api/v1/billing?by=colour", "")), 1)

	require.EqualValues(t, 7, b.ok(200, b.ask("GET", "/api/v1/stats/overview?model=m", ""))["requests"])
	require.Equal(t, "m", b.books.asked.Model)
	require.Empty(t, b.ok(200, b.ask("GET", "/api/v1/stats/timeseries", ""))["items"])
	require.Len(t, b.ok(200, b.ask("GET", "/api/v1/stats/leaderboard?by=key&order=cost&limit=3&upstream=a&since=2026-01-01T00:00:00Z", ""))["items"], 1)
	require.Equal(t, "a 2026", b.books.asked.Upstream+" "+b.books.asked.Since.Format("2006"))
	require.Equal(t, "key", b.books.asked.By)
	require.Equal(t, 3, b.books.asked.Limit)

	report := b.ok(200, b.ask("POST", "/api/v1/replay", `{"projection":"billing","verify":true}`))
	require.Equal(t, true, report["items"].([]any)[0].(map[string]any)["equal"])
	b.refused(404, b.ask("POST", "/api/v1/replay", `{"projection":"none"}`))
	require.Equal(t, []string{"body.verfy: unexpected property"}, b.refused(422, b.ask("POST", "/api/v1/replay", `{"verfy":true}`)))
}

func TestLiveStateIsShownAndForced(t *testing.T) {
	b := newBench(t)
	require.Equal(t, "a", b.ok(200, b.ask("GET", "/api/v1/upstreams/a/status", ""))["id"])
	b.refused(404, b.ask("GET", "/api/v1/upstreams/z/status", ""))
	b.ok(200, b.ask("POST", "/api/v1/upstreams/a/breaker", `{"action":"open"}`))
	require.True(t, b.live.open)
	b.ok(200, b.ask("POST", "/api/v1/upstreams/a/breaker", `{"action":"close"}`))
	require.False(t, b.live.open)
	require.Len(t, b.refused(422, b.ask("POST", "/api/v1/upstreams/a/breaker", `{"action":"melt"}`)), 1)
	b.ok(200, b.ask("POST", "/api/v1/upstreams/a/breaker", `{"action":"open","until":"2999-01-01T00:00:00Z","account":"a-1","model":"m"}`))
	require.Equal(t, 2999, b.live.until.Year())
	require.Equal(t, breaker.Key{Account: "a-1", Model: "m"}, b.live.of)
	for body, want := range map[string]string{
		`{"action":"open","until":"2001-01-01T00:00:00Z"}`:      "body.until: is over",
		`{"action":"open","until":"9999-12-31T23:00:00-01:00"}`: "body.until: is after the year 9999",
		`{"action":"close","until":"2999-01-01T00:00:00Z"}`:     "body.until: is for opening",
		`{"action":"open","account":"a-1"}`:                     "body.model: is missing: breakers are those of one account and one model of it",
		`{"action":"open","model":"m"}`:                         "body.account: is missing: breakers are those of one account and one model of it",
		`{"action":"open","account":"unshared","model":"m"}`:    "body.account: the upstream has no breakers for single accounts and models: set breaker.per to account_model",
	} {
		require.Equal(t, []string{want}, b.refused(422, b.ask("POST", "/api/v1/upstreams/a/breaker", body)))
	}

	b.refused(404, b.ask("POST", "/api/v1/accounts/a-1/block", `null`))
	b.ok(201, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc))
	b.ok(201, b.ask("PUT", "/api/v1/accounts/a-1", `{"upstream":"a","api_key":"sk-0123456789"}`))
	b.ok(204, b.ask("POST", "/api/v1/accounts/a-1/block", `{"until":"2999-01-01T00:00:00Z"}`))
	require.Equal(t, 2999, b.live.blocks["a-1"].Year())
	for _, unblock := range []string{`{"until":null}`, `null`} {
		b.live.blocks["a-1"] = &time.Time{}
		b.ok(204, b.ask("POST", "/api/v1/accounts/a-1/block", unblock))
		require.Nil(t, b.live.blocks["a-1"])
	}
	for body, want := range map[string]string{
		`{}`: "body.until: is missing; null ends the block", `{"until":"soon"}`: "body.until: must be a time such as 2026-01-02T15:04:05Z, or null",
		`{"until":"9999-12-31T23:00:00-01:00"}`: "body.until: is after the year 9999",
		`{"until":"2001-01-01T00:00:00Z"}`:      "body.until: is over", `{"until":null,"why":"x"}`: "body.why: is unknown",
	} {
		require.Equal(t, []string{want}, b.refused(422, b.ask("POST", "/api/v1/accounts/a-1/block", body)))
	}
	b.refused(404, b.ask("POST", "/api/v1/accounts/z/block", `null`))
}

func (m *machine) FreeLease(_ context.Context, id, request string, attempt int, reason string) (actors.FreedLease, error) {
	if id != "a" {
		return actors.FreedLease{}, errors.Wrapf(ErrNotFound, "upstream %s", id)
	}
	if request != "r1" || attempt > 1 {
		return actors.FreedLease{}, errors.Wrapf(actors.ErrNoLease, "request %s at upstream %s", request, id)
	}
	return actors.FreedLease{RequestID: request, Attempt: 1, Key: "k", Account: "a-1", Freed: reason == ""}, nil
}

// An operator names a request, and its attempt if it likes.
func TestALeaseIsFreedByHand(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/api/v1/upstreams/a/leases/r1", 200, `"request_id":"r1","attempt":1`},
		{"/api/v1/upstreams/a/leases/r1?attempt=1&reason=stuck", 200, `"freed":false`},
		{"/api/v1/upstreams/a/leases/r1?attempt=2", 404, "holds no slot"},
		{"/api/v1/upstreams/a/leases/r1?attempt=0", 422, "query.attempt"},
		{"/api/v1/upstreams/a/leases/r2", 404, "path.request_id"},
		{"/api/v1/upstreams/b/leases/r1", 404, "path.id"},
	} {
		w := b.ask("DELETE", c.path, "")
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
}
