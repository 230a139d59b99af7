package stats_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/stats"
)

var at = time.Date(2026, 3, 1, 12, 59, 58, 0, time.UTC)

// tell folds the facts of one request, one second apart, and returns the figures by "hour upstream model key".
func tell(facts ...events.Fact) map[string]stats.Figures {
	story := request.Story{ID: "req-1"}
	var out projections.Changes
	for i, fact := range facts {
		now := at.Add(time.Duration(i) * time.Second)
		story.Evolve(fact, now)
		stats.Projection{}.Fold(&story, fact, projections.Place{Position: events.Position(1 + i), First: 1, At: now}, &out)
	}
	found := map[string]stats.Figures{}
	for c := range out.All() {
		key := stats.HourTime(c.Values[0].Int()).Format("15h")
		for _, v := range c.Values[1:stats.Hours.Key] {
			key += " " + v.Text()
		}
		found[key] = stats.FromSums(c.Values[stats.Hours.Key:])
	}
	return found
}

var (
	admitted = &request.Admitted{Ask: request.Ask{Key: "k", Model: "fast"}}
	first    = &request.Dispatched{N: 1, Upstream: "main", ResolvedModel: "gpt-5"}
	second   = &request.Dispatched{N: 2, Upstream: "spare"}
	failed   = &request.Failed{N: 1, Class: "http_5xx", Usage: pricing.Usage{Input: 1, CachedInput: 2}, Cost: 3}
	settled  = &request.Settled{
		Outcome: request.Completed, Status: 200, Sent: true, Usage: pricing.Usage{Input: 10, Output: 5}, Cost: 7,
		TTFTUS: 250_000, DurationUS: 1_500_000,
	}
)

func average(ms float64) *float64 { return &ms }

func check(t *testing.T, have map[string]stats.Figures, want map[string]stats.Figures) {
	t.Helper()
	if len(have) != len(want) {
		t.Errorf("have %v, want %v", have, want)
	}
	for key, w := range want {
		h := have[key]
		for _, pair := range [][2]*float64{{h.TTFTMS, w.TTFTMS}, {h.DurationMS, w.DurationMS}} {
			if (pair[0] == nil) != (pair[1] == nil) || pair[0] != nil && *pair[0] != *pair[1] {
				t.Errorf("%s: averages %+v, want %+v", key, h, w)
			}
		}
		h.TTFTMS, h.DurationMS, w.TTFTMS, w.DurationMS = nil, nil, nil, nil
		if h != w {
			t.Errorf("%s:\nhave %+v\nwant %+v", key, h, w)
		}
	}
}

// E41: attempts and what they used count where they went, the request where it ended, each in its own hour.
func TestAttemptsCountWhereTheyWentAndRequestsWhereTheyEnded(t *testing.T) {
	check(t, tell(first, failed, admitted, second, settled), map[string]stats.Figures{
		"12h main gpt-5 ":  {Attempts: 1, FailedAttempts: 1, InputTokens: 3, Cost: 3},
		"13h spare fast k": {Requests: 1, Completed: 1, Attempts: 1, InputTokens: 10, OutputTokens: 5, Cost: 7, TTFTMS: average(250), DurationMS: average(1500)},
	})
}

// Pain 80: what was repriced counts in the hours of use, and counts nothing else.
func TestARepricingChangesTheCostOfTheHoursOfUse(t *testing.T) {
	later := &request.Repriced{Reprice: "run", Changes: []request.Repricing{
		{N: 1, At: at.Add(time.Second), Was: request.Charge{Cost: 3}, Is: request.Charge{Cost: 1}},
		{N: 2, At: at.Add(4 * time.Second), Was: request.Charge{Cost: 7}, Is: request.Charge{Cost: 70}},
	}}
	check(t, tell(first, failed, admitted, second, settled, later), map[string]stats.Figures{
		"12h main gpt-5 ":  {Attempts: 1, FailedAttempts: 1, InputTokens: 3, Cost: 3},
		"12h main gpt-5 k": {Cost: -2},
		"13h spare fast k": {Requests: 1, Completed: 1, Attempts: 1, InputTokens: 10, OutputTokens: 5, Cost: 70, TTFTMS: average(250), DurationMS: average(1500)},
	})
}

func TestEveryEndIsCountedAsWhatItWas(t *testing.T) {
	end := func(o request.Outcome, status int, sent bool) *request.Settled {
		return &request.Settled{Outcome: o, Status: status, Sent: sent, DurationUS: 9}
	}
	for name, c := range map[string]struct {
		facts []events.Fact
		key   string
		want  stats.Figures
	}{
		"failed":    {[]events.Fact{admitted, first, end(request.FailedOutcome, 503, true)}, "13h main gpt-5 k", stats.Figures{Requests: 1, Errors: 1, Failed: 1, Attempts: 1, FailedAttempts: 1}},
		"cancelled": {[]events.Fact{admitted, first, end(request.Cancelled, 499, true)}, "13h main gpt-5 k", stats.Figures{Requests: 1, Cancelled: 1, Attempts: 1}},
		"abandoned": {[]events.Fact{admitted, first, end(request.Abandoned, 0, true)}, "13h main gpt-5 k", stats.Figures{Requests: 1, Errors: 1, Abandoned: 1, Attempts: 1, FailedAttempts: 1}},
		// A48: nothing was sent, so no upstream has an attempt.
		"timed out in the queue": {[]events.Fact{admitted, end(request.RejectedOut, 504, false)}, "12h  fast k", stats.Figures{Requests: 1, Errors: 1, Rejected: 1}},
		// The model is the client's own text: it must not make rows.
		"rejected": {[]events.Fact{&request.Rejected{Status: 404, Code: "UNKNOWN_MODEL", Ask: request.Ask{Key: "k", Model: "xyzzy"}}}, "12h   k", stats.Figures{Requests: 1, Errors: 1, Rejected: 1}},
	} {
		t.Run(name, func(t *testing.T) { check(t, tell(c.facts...), map[string]stats.Figures{c.key: c.want}) })
	}
}

func TestAveragesAreOverAnswersWithSuccessOnly(t *testing.T) {
	if f := stats.FromSums(make([]projections.Value, len(stats.Sums))); f.TTFTMS != nil || f.DurationMS != nil {
		t.Errorf("averages of nothing: %+v", f)
	}
	silent := *settled
	silent.TTFTUS = 0 // a body without a measured first content
	have := tell(first, admitted, &silent)["13h main gpt-5 k"]
	if have.TTFTMS != nil || have.DurationMS == nil || *have.DurationMS != 1500 {
		t.Errorf("%+v", have)
	}
}

func TestQueriesAreCheckedAndWidenedToWholeHours(t *testing.T) {
	for field, q := range map[string]stats.Query{
		"by": {By: "colour"}, "order": {Order: "name"}, "limit": {Limit: -1}, "until": {Since: at, Until: at},
	} {
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	q := stats.Query{Since: at, Until: at.Add(time.Second)}
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	noon := at.Truncate(time.Hour)
	if !q.Since.Equal(noon) || !q.Until.Equal(noon.Add(time.Hour)) || q.By != "model" || q.Order != "requests" || q.Limit != stats.LimitDefault {
		t.Errorf("%+v", q)
	}
	q = stats.Query{Until: noon}
	if err := q.Check(); err != nil || !q.Until.Equal(noon) {
		t.Errorf("%v %+v", err, q)
	}
}
