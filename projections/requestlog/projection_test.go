package requestlog_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

// tell folds the appends of one request, one second apart, and returns its row.
func tell(t *testing.T, appends ...[]events.Fact) []projections.Value {
	t.Helper()
	story := request.Story{ID: "req-1"}
	var out projections.Changes
	position := events.Position(41)
	for i, facts := range appends {
		at := noon.Add(time.Duration(i) * time.Second)
		for k, fact := range facts {
			story.Evolve(fact, at)
			place := projections.Place{Position: position, First: 41, More: k+1 < len(facts), At: at}
			requestlog.Projection{}.Fold(&story, fact, place, &out)
			position++
		}
	}
	var rows [][]projections.Value
	for c := range out.All() {
		if c.Table == requestlog.Requests {
			rows = append(rows, c.Values)
		}
	}
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	return rows[0]
}

func entry(t *testing.T, appends ...[]events.Fact) requestlog.Entry {
	t.Helper()
	e, err := requestlog.FromRow(tell(t, appends...))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var (
	ask = request.Ask{
		Key: "key-a", User: "ann", Group: "team", Method: "POST", Path: "/v1/chat/completions", Dialect: "openai-chat",
		Capability: "openai_chat_compatible", Model: "fast", Stream: true, Session: "s-1", Client: "openai-python/2.1", ClientID: "c-1",
	}
	admitted = &request.Admitted{
		Ask: ask, Plan: []request.Candidate{{Upstream: "main"}, {Upstream: "spare", Tier: 1}},
		Excluded: []request.Exclusion{{Upstream: "relay", Reason: "circuit_open"}},
	}
	first  = &request.Dispatched{N: 1, Upstream: "main", Account: "main-1", ResolvedModel: "gpt-5", Why: "weighted_selection"}
	second = &request.Dispatched{
		N: 2, Upstream: "spare", Account: "spare-1", ResolvedModel: "gpt-5", UpstreamModel: "house", Why: "affinity_hit",
	}
	failed = &request.Failed{
		N: 1, Class: "http_5xx", UpstreamStatus: 500, UpstreamID: "up-1", Next: "next_upstream", Usage: pricing.Usage{Input: 7},
		UsageSource: pricing.Partial, UpstreamCost: 50, Cost: 30, TookUS: 1_234_500, ServiceTier: "flex", Clamped: true,
		PriceVersion: "p6", PriceOrigin: pricing.Synced, Inherited: true,
	}
	settled = &request.Settled{
		Outcome: request.Completed, Status: 200, Class: "ok", UpstreamStatus: 200, UpstreamID: "up-2", Attempts: 2, Sent: true,
		Usage: pricing.Usage{
			Input: 100, CachedInput: 20, CacheWrite5m: 3, CacheWrite1h: 4, Output: 50, Reasoning: 10, AudioInput: 11, AudioOutput: 12,
			ImageInput: 13, ImageOutput: 14, Images: 15, WebSearches: 16, FileSearches: 17,
		},
		UsageSource: pricing.Reported, ServiceTier: "priority", PriceVersion: "p7", PriceOrigin: pricing.Manual, UpstreamCost: 200, Cost: 300, TTFTUS: 250_499, AttemptUS: 900_000, DurationUS: 2_500_500,
	}
)

// A75, pain 3: a row exists from admission on; settlement only completes it.
func TestARowExistsFromAdmissionOn(t *testing.T) {
	e := entry(t, []events.Fact{admitted, first})
	if e.State != requestlog.InProgress || e.Outcome != "" || e.Status != 0 || e.DurationMS != nil {
		t.Errorf("%+v", e)
	}
	if e.RequestID != "req-1" || !e.At.Equal(noon) || e.Position != 41 || e.Key != "key-a" || e.Upstream != "main" || !e.Sent {
		t.Errorf("%+v", e)
	}
	if len(e.Attempts) != 1 || e.Attempts[0].Class != "" || e.Attempts[0].DurationMS != nil {
		t.Errorf("attempts %+v", e.Attempts)
	}
}

// A76: what is refused before it is admitted is terminal at once.
func TestARejectionIsTerminalAtOnce(t *testing.T) {
	e := entry(t, []events.Fact{&request.Rejected{
		Stage: "candidate_selection", Code: "NO_AUTHORIZED_UPSTREAMS", Status: 403, Reason: "none", Ask: ask, DurationUS: 900,
		Excluded: []request.Exclusion{{Upstream: "main", Reason: "not_granted"}},
	}})
	if e.State != requestlog.Done || e.Outcome != "rejected" || e.Status != 403 || e.Code != "NO_AUTHORIZED_UPSTREAMS" ||
		e.FailureStage != "candidate_selection" || e.Sent || *e.DurationMS != 1 || e.Excluded[0].Reason != "not_granted" {
		t.Errorf("%+v", e)
	}
	if e.UsageSource != pricing.None || e.Cost != 0 || e.Attempts == nil || e.Queue != nil {
		t.Errorf("%+v", e)
	}
}

// A72, A77, A78, A82, E41: the same row tells every attempt with its own usage, and the sums.
func TestTheRowOfAFailedOverRequestTellsEveryAttempt(t *testing.T) {
	e := entry(t, []events.Fact{admitted, first}, []events.Fact{failed}, []events.Fact{second}, []events.Fact{settled})
	want := requestlog.Entry{
		RequestID: "req-1", ClientRequestID: "c-1", UpstreamRequestID: "up-2", At: noon, State: requestlog.Done,
		Key: "key-a", User: "ann", Group: "team", Method: "POST", Path: "/v1/chat/completions", Dialect: "openai-chat",
		Capability: "openai_chat_compatible", Model: "fast", ResolvedModel: "gpt-5", UpstreamModel: "house", Stream: true,
		Session: "s-1", Client: "openai-python/2.1", Status: 200, Outcome: "completed", Sent: true, Upstream: "spare", Account: "spare-1",
		Attempts: []requestlog.Attempt{
			{
				N: 1, Upstream: "main", Account: "main-1", Status: 500, Class: "http_5xx", StartedAt: noon, DurationMS: ms(1235),
				Usage: pricing.Usage{Input: 7}, Cost: 30, UpstreamCost: 50, PriceVersion: "p6", PriceOrigin: pricing.Synced,
				PriceInherited: true, ServiceTier: "flex", UsageClamped: true,
			},
			{
				N: 2, Upstream: "spare", Account: "spare-1", Status: 200, Class: "ok", StartedAt: noon.Add(2 * time.Second),
				DurationMS: ms(900), TTFTMS: ms(250), Usage: settled.Usage, Cost: 300, UpstreamCost: 200, PriceVersion: "p7",
				PriceOrigin: pricing.Manual, ServiceTier: "priority",
			},
		},
		Affinity: "affinity_hit", Excluded: []requestlog.Exclusion{{Upstream: "relay", Reason: "circuit_open"}},
		Usage:       settled.Usage.Plus(failed.Usage),
		UsageSource: pricing.Reported, Cost: 330, UpstreamCost: 250, PriceVersion: "p7", PriceOrigin: pricing.Manual, ServiceTier: "priority",
		TTFTMS: ms(250), DurationMS: ms(2501),
		Position: 41,
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("have %+v\nwant %+v", e, want)
	}
}

func ms(n int64) *int64 { return &n }

// A48: a request that gave up in the queue says so, and that nothing was sent.
func TestAWaitIsTold(t *testing.T) {
	queued := &request.Queued{Upstreams: []string{"main", "spare"}, Position: 3, Ticket: 1<<64 - 1}
	resumed := &request.Resumed{Upstream: "spare", WaitedUS: 1_500_000}
	timedOut := &request.Settled{
		Outcome: request.RejectedOut, Status: 504, Code: "QUEUE_WAIT_TIMEOUT", Stage: "queue", UsageSource: pricing.None,
		QueueState: "timed_out", WaitedUS: 30_000_000, DurationUS: 30_100_000,
	}
	for name, c := range map[string]struct {
		appends [][]events.Fact
		want    requestlog.Queue
		sent    bool
	}{
		"waiting":       {[][]events.Fact{{admitted, queued}}, requestlog.Queue{State: "waiting", Upstream: "main"}, false},
		"resumed":       {[][]events.Fact{{admitted, queued}, {resumed, first}}, requestlog.Queue{State: "resumed", Upstream: "spare", WaitedMS: ms(1500)}, true},
		"waiting again": {[][]events.Fact{{admitted, queued}, {resumed, first}, {failed}, {queued}}, requestlog.Queue{State: "waiting", Upstream: "main"}, true},
		"timed out":     {[][]events.Fact{{admitted, queued}, {timedOut}}, requestlog.Queue{State: "timed_out", Upstream: "main", WaitedMS: ms(30000)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := entry(t, c.appends...)
			c.want.Position, c.want.Ticket = 3, 1<<64-1
			if e.Queue == nil || !reflect.DeepEqual(*e.Queue, c.want) || e.Sent != c.sent {
				t.Errorf("queue %+v sent %v, want %+v sent %v", e.Queue, e.Sent, c.want, c.sent)
			}
		})
	}
}

// A82, pain 1: what is known of the usage of a running stream is shown, and billed when its node dies.
func TestARunningStreamShowsItsUsageSoFar(t *testing.T) {
	so := &request.Progressed{N: 1, Usage: pricing.Usage{Input: 9, Output: 5}, UsageSource: pricing.Partial}
	e := entry(t, []events.Fact{admitted, first}, []events.Fact{so})
	if e.Usage != so.Usage || e.UsageSource != pricing.Partial || e.State != requestlog.InProgress {
		t.Errorf("%+v", e)
	}
	e = entry(t, []events.Fact{admitted, first}, []events.Fact{so}, []events.Fact{&request.Settled{
		Outcome: request.Abandoned, Sent: true, Attempts: 1, Usage: so.Usage, UsageSource: pricing.Partial, Cost: 5,
	}})
	if e.Usage != so.Usage || e.Cost != 5 || e.Outcome != "abandoned" || e.Status != 0 || e.State != requestlog.Done {
		t.Errorf("%+v", e)
	}
}

// E40, pain 5: an unknown price is a state of its own.
func TestAnUnpricedRequestSaysSo(t *testing.T) {
	s := *settled
	s.Unpriced, s.UnpricedReason, s.Cost, s.UpstreamCost, s.PriceVersion = true, "price_not_found", 0, 0, ""
	e := entry(t, []events.Fact{admitted, first}, []events.Fact{&s})
	if !e.Unpriced || e.Cost != 0 || e.Usage.Output != 50 {
		t.Errorf("%+v", e)
	}
}

// A request whose last attempt failed on its own, and which then ended, counts nothing twice.
func TestTheEndAfterAFailedLastAttemptAddsNoAttempt(t *testing.T) {
	e := entry(t, []events.Fact{admitted, first}, []events.Fact{failed}, []events.Fact{&request.Settled{
		Outcome: request.FailedOutcome, Status: 503, Code: "UPSTREAM_HTTP_ERROR", Attempts: 1, Sent: true, UsageSource: pricing.None,
	}})
	if len(e.Attempts) != 1 || e.Attempts[0].Class != "http_5xx" || e.Usage != failed.Usage || e.Cost != failed.Cost || e.UpstreamRequestID != "up-1" {
		t.Errorf("%+v", e)
	}
}

// Pains 69, 71: rows are thin. What a request of usual length leaves behind is bounded here, so that growth is noticed.
func TestRowsAreThin(t *testing.T) {
	size, usual := 0, *settled
	usual.Usage = pricing.Usage{Input: 100, CachedInput: 20, CacheWrite5m: 3, CacheWrite1h: 4, Output: 50, Reasoning: 10}
	for _, v := range tell(t, []events.Fact{admitted, first}, []events.Fact{&usual}) {
		size += 8 + len(v.Text())
	}
	if size > 420 {
		t.Errorf("a row has %d bytes", size)
	}
}

// What a line leaves out because its columns say it comes back; what they say otherwise stands.
func TestTheOnlyAttemptSaysWhatTheLineDoesNot(t *testing.T) {
	whole := *settled
	whole.Attempts, whole.UpstreamID = 1, ""
	odd := whole // the client got another status than the gateway
	odd.Outcome, odd.Status, odd.Class, odd.UpstreamStatus = request.FailedOutcome, 502, "http_5xx", 503
	broken := *failed
	broken.TTFTUS = 70_000
	extra := request.Settled{
		Outcome: request.FailedOutcome, Status: 500, Attempts: 1, Sent: true, UsageSource: pricing.Estimated, TTFTUS: 90_000, UpstreamCost: 7,
		Usage: pricing.Usage{FileSearches: 1},
	}
	for name, c := range map[string]struct {
		appends [][]events.Fact
		want    requestlog.Attempt
	}{
		"all as the line": {[][]events.Fact{{admitted, first}, {&whole}}, requestlog.Attempt{
			Status: 200, Class: "ok", DurationMS: ms(900), TTFTMS: ms(250), Usage: whole.Usage, Cost: 300, UpstreamCost: 200,
			PriceVersion: "p7", PriceOrigin: pricing.Manual, ServiceTier: "priority",
		}},
		"another status": {[][]events.Fact{{admitted, first}, {&odd}}, requestlog.Attempt{
			Status: 503, Class: "http_5xx", DurationMS: ms(900), TTFTMS: ms(250), Usage: whole.Usage, Cost: 300, UpstreamCost: 200,
			PriceVersion: "p7", PriceOrigin: pricing.Manual, ServiceTier: "priority",
		}},
		"an end that adds to it": {[][]events.Fact{{admitted, first}, {&broken}, {&extra}}, requestlog.Attempt{
			Status: 500, Class: "http_5xx", DurationMS: ms(1235), TTFTMS: ms(70), Usage: failed.Usage, Cost: 30, UpstreamCost: 50,
			PriceVersion: "p6", PriceOrigin: pricing.Synced, PriceInherited: true, ServiceTier: "flex", UsageClamped: true,
		}},
		"nothing yet":         {[][]events.Fact{{admitted, first}}, requestlog.Attempt{}},
		"later than the line": {[][]events.Fact{{admitted}, {first}}, requestlog.Attempt{StartedAt: noon.Add(time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.N, c.want.Upstream, c.want.Account = 1, "main", "main-1"
			if c.want.StartedAt.IsZero() {
				c.want.StartedAt = noon
			}
			e := entry(t, c.appends...)
			if len(e.Attempts) != 1 || !reflect.DeepEqual(e.Attempts[0], c.want) {
				t.Errorf("have %+v\nwant %+v", e.Attempts, c.want)
			}
		})
	}
	e := entry(t, []events.Fact{admitted, first}, []events.Fact{&broken}, []events.Fact{&extra})
	if e.Cost != 30 || e.UpstreamCost != 57 || *e.TTFTMS != 90 || e.Usage != extra.Usage.Plus(failed.Usage) || e.UsageSource != pricing.Estimated {
		t.Errorf("%+v", e)
	}
}

// Words that have numbers and texts that look like them are told apart.
func TestAWordIsReadAsItWasWritten(t *testing.T) {
	for _, text := range []string{"POST", "ok", "21", "-1", "", "\"", "ünï", "true", "null", "http_5xx", "affinity_hit"} {
		a, s := *admitted, *settled
		a.Method, a.Path, a.Capability, a.Profile, a.Affinity = text, text, text, text, text
		s.Code, s.Reason, s.Stage, s.Class, s.ServiceTier, s.QueueState = text, text, text, text, text, text
		e := entry(t, []events.Fact{&a, &request.Queued{}}, []events.Fact{first}, []events.Fact{&s})
		have := []string{
			e.Method, e.Path, e.Capability, e.ClientProfile, e.Affinity, e.Code, e.Reason, e.FailureStage, e.Attempts[0].Class, e.ServiceTier,
		}
		if text != "" {
			have = append(have, e.Queue.State)
		}
		if slices.ContainsFunc(have, func(s string) bool { return s != text }) {
			t.Errorf("%q: %q", text, have)
		}
	}
}

func TestTextsOfAnyKindSurvive(t *testing.T) {
	a := *admitted
	a.Client, a.Session, a.Path = "a\"b\\c\x00\x1f<>&\u2028", "ünï", "/v1/\xff\xfe"
	e := entry(t, []events.Fact{&a, first})
	if e.Client != a.Client || e.Session != a.Session || e.Path != "/v1/\ufffd\ufffd" {
		t.Errorf("%q %q %q", e.Client, e.Session, e.Path)
	}
}

func TestTheJSONOfAnEntryHasTheNamesOfTheAPI(t *testing.T) {
	const want = `request_id client_request_id upstream_request_id at state key user group method path dialect capability
		model resolved_model upstream_model stream session client client_profile status outcome code reason failure_stage did_send_upstream
		upstream account attempts queue affinity excluded usage usage_source cost upstream_cost unpriced price_version ttft_ms
		duration_ms client_gone price_origin price_inherited service_tier usage_clamped unpriced_reason`
	b, err := json.Marshal(entry(t, []events.Fact{admitted, first}, []events.Fact{failed}))
	if err != nil {
		t.Fatal(err)
	}
	var e map[string]any
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	same(t, e, strings.Fields(want))
	same(t, e["attempts"].([]any)[0].(map[string]any), strings.Fields(`n upstream account status class started_at duration_ms ttft_ms usage cost upstream_cost
		price_version price_origin price_inherited service_tier usage_clamped unpriced`))
	if e["cost"] != money.Amount(30).String() || e["state"] != "in_progress" || e["queue"] != nil {
		t.Errorf("%s", b)
	}
}

func same(t *testing.T, object map[string]any, want []string) {
	t.Helper()
	var have []string
	for name := range object {
		have = append(have, name)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
}

func TestQueriesThatCanNotBeMeantAreRefused(t *testing.T) {
	for field, q := range map[string]requestlog.Query{
		"limit":   {Limit: 1001},
		"outcome": {Outcome: "done"},
		"until":   {Since: noon, Until: noon},
	} {
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	q := requestlog.Query{}
	if err := q.Check(); err != nil || q.Limit != requestlog.LimitDefault {
		t.Errorf("%v, limit %d", err, q.Limit)
	}
}

func TestACursorIsReadAsItWasWritten(t *testing.T) {
	e := requestlog.Entry{At: noon, Position: 7}
	c, err := requestlog.ParseCursor(e.Cursor().String())
	if err != nil || c != e.Cursor() {
		t.Errorf("%v %v", c, err)
	}
	for _, bad := range []string{"x", "1", "1-", "1-0", "1-2x", " 1-2", "01-2"} {
		if _, err := requestlog.ParseCursor(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if c, err := requestlog.ParseCursor(""); err != nil || !c.IsZero() {
		t.Errorf("%v %v", c, err)
	}
}
