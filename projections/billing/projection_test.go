package billing_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

var evening = time.Date(2026, 3, 1, 23, 59, 58, 0, time.UTC)

// tell folds the facts of one request, one second apart, and returns the changes by table.
func tell(facts ...events.Fact) map[string][]projections.Change {
	story := request.Story{ID: "req-1"}
	var out projections.Changes
	for i, fact := range facts {
		at := evening.Add(time.Duration(i) * time.Second)
		story.Evolve(fact, at)
		billing.Projection{}.Fold(&story, fact, projections.Place{Position: events.Position(10 + i), First: 10, At: at}, &out)
	}
	found := map[string][]projections.Change{}
	for c := range out.All() {
		found[c.Table.Name] = append(found[c.Table.Name], *c)
	}
	return found
}

// line sums changes as a bill without groups does.
func line(changes []projections.Change) billing.Line {
	sum := make([]projections.Value, len(billing.Sums))
	for _, c := range changes {
		from := c.Table.Column(billing.Sums[0])
		for i := range sum {
			sum[i] = projections.Int(sum[i].Int() + c.Values[from+i].Int())
		}
	}
	return billing.FromRow(nil, sum)
}

var (
	admitted = &request.Admitted{Ask: request.Ask{Key: "key-a", User: "ann", Group: "team", Model: "fast"}}
	first    = &request.Dispatched{N: 1, Upstream: "main", Account: "main-1", ResolvedModel: "gpt-5"}
	second   = &request.Dispatched{N: 2, Upstream: "spare", Account: "spare-1"}
	used     = pricing.Usage{
		Input: 100, CachedInput: 1, CacheWrite5m: 2, CacheWrite1h: 3, Output: 50, Reasoning: 4, AudioInput: 5, AudioOutput: 6, ImageInput: 7,
		ImageOutput: 8, Images: 9, WebSearches: 10, FileSearches: 11,
	}
	failed  = &request.Failed{N: 1, Class: "stream_cut", Next: "next_upstream", Usage: pricing.Usage{Input: 7}, PriceVersion: "p1", PriceOrigin: pricing.Synced, UpstreamCost: 50, Cost: 30}
	settled = &request.Settled{
		Outcome: request.Completed, Status: 200, Sent: true, Attempts: 2, Usage: used,
		UsageSource: pricing.Reported, PriceVersion: "p2", PriceOrigin: pricing.Manual, UpstreamCost: 200, Cost: 300,
	}
)

// A48, A81: what was not sent is not billed, however it ended.
func TestWhatWasNotSentLeavesNoEntry(t *testing.T) {
	for name, facts := range map[string][]events.Fact{
		"rejected":               {&request.Rejected{Stage: "auth_filter", Code: "API_KEY_RATE_LIMITED", Status: 429}},
		"timed out in the queue": {admitted, &request.Queued{}, &request.Settled{Outcome: request.RejectedOut, Status: 504, QueueState: "timed_out"}},
		"cancelled in the queue": {admitted, &request.Queued{}, &request.Settled{Outcome: request.Cancelled, Status: 499}},
		"abandoned before it":    {admitted, &request.Settled{Outcome: request.Abandoned}},
		"still running":          {admitted, first},
	} {
		if changes := tell(facts...); len(changes) != 0 {
			t.Errorf("%s: %v", name, changes)
		}
	}
}

// A79, A82, B25, B37, E41: one entry per attempt that was sent, each with its own usage and cost; the bill is the sum.
func TestEveryAttemptThatWasSentHasItsOwnEntry(t *testing.T) {
	changes := tell(admitted, first, failed, second, settled)
	entries := changes["bill_entries"]
	if len(entries) != 2 {
		t.Fatalf("%d entries, want 2", len(entries))
	}
	for i, want := range []struct {
		position, n, requests, cost int64
		model, upstream, account    string
		price, origin               string
	}{
		{12, 1, 0, 30, "gpt-5", "main", "main-1", "p1", "synced"},
		{14, 2, 1, 300, "fast", "spare", "spare-1", "p2", "manual"},
	} {
		at := func(column string) projections.Value { return entries[i].Values[billing.Entries.Column(column)] }
		if entries[i].Op != projections.Append || at("position").Int() != want.position || at("n").Int() != want.n ||
			at("requests").Int() != want.requests || at("attempts").Int() != 1 || at("cost").Int() != want.cost ||
			at("model").Text() != want.model || at("upstream").Text() != want.upstream || at("account").Text() != want.account ||
			at("price_version").Text() != want.price || at("price_origin").Text() != want.origin || at("key").Text() != "key-a" || at("user").Text() != "ann" || at("group").Text() != "team" {
			t.Errorf("entry %d: %v, want %+v", i, entries[i].Values, want)
		}
	}
	want := billing.Line{Requests: 1, Attempts: 2, Usage: used.Plus(failed.Usage), Cost: 330, UpstreamCost: 250}
	if have := line(entries); have != want {
		t.Errorf("bill %+v, want %+v", have, want)
	}
	if have := line(changes["bill_days"]); have != want {
		t.Errorf("bill by days %+v, want %+v", have, want)
	}
}

// E40, pain 5: no price means a cost of 0 that says so.
func TestAnUnpricedRequestIsCounted(t *testing.T) {
	s := *settled
	s.Unpriced, s.Cost, s.UpstreamCost, s.PriceVersion = true, 0, 0, ""
	if have := line(tell(admitted, first, &s)["bill_entries"]); have.UnpricedRequests != 1 || have.Cost != 0 || have.Usage.Output != 50 || have.Requests != 1 {
		t.Errorf("%+v", have)
	}
}

// The end of a request whose last attempt failed on its own closes the request and adds no attempt.
func TestTheEndAfterAFailedLastAttemptCountsNoAttempt(t *testing.T) {
	end := &request.Settled{Outcome: request.FailedOutcome, Status: 503, Sent: true, Attempts: 1}
	have := line(tell(admitted, first, failed, end)["bill_entries"])
	if want := (billing.Line{Requests: 1, Attempts: 1, Usage: failed.Usage, Cost: 30, UpstreamCost: 50}); have != want {
		t.Errorf("%+v, want %+v", have, want)
	}
}

// Bills are by day of use: an attempt belongs to the UTC day in which it ended.
func TestAnAttemptBelongsToTheDayInWhichItEnded(t *testing.T) {
	for _, c := range []struct {
		facts []events.Fact // one second apart, from two seconds before midnight
		day   string
	}{
		{[]events.Fact{first, failed}, "2026-03-01"},
		{[]events.Fact{admitted, first, failed}, "2026-03-02"},
	} {
		days := tell(c.facts...)["bill_days"]
		if len(days) != 1 || billing.DayText(days[0].Values[0].Int()) != c.day {
			t.Errorf("%d facts: %v, want one row of %s", len(c.facts), days, c.day)
		}
	}
}

// What the bill is not grouped by is left out; what it is grouped by is there even when it is empty.
func TestALineShowsTheFieldsThatItIsGroupedBy(t *testing.T) {
	row := append([]projections.Value{projections.Int(billing.DayOf(evening)), projections.Text("")}, make([]projections.Value, len(billing.Sums))...)
	b, err := json.Marshal(billing.FromRow([]string{"day", "user"}, row))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"day":"2026-03-01","user":"","requests":0,"attempts":0,"usage":{"input":0,"cached_input":0,"cache_write_5m":0,` +
		`"cache_write_1h":0,"output":0,"reasoning":0},"cost":"0","upstream_cost":"0","unpriced_requests":0}`
	if string(b) != want {
		t.Errorf("have %s\nwant %s", b, want)
	}
}

func TestQueriesThatCanNotBeAnsweredAreRefused(t *testing.T) {
	for text, q := range map[string]billing.Query{
		`"colour" is not one of`: {By: []string{"key", "colour"}},
		"named twice":            {By: []string{"key", "day", "key"}},
		"until:":                 {Since: evening, Until: evening.Add(-1)},
	} {
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Pains 5, 80, E40: what was used stays on its day, and moves from the price of then to that of now; nothing is counted twice, and
// the request is unpriced no more.
func TestARepricingPutsEntriesAnewOnTheDayOfUse(t *testing.T) {
	paid := &request.Admitted{Ask: admitted.Ask, PaidBy: "balance"}
	lost := *failed
	lost.Unpriced, lost.PriceVersion, lost.PriceOrigin, lost.Cost, lost.UpstreamCost = true, "", "", 0, 0
	story := request.Booked{}
	facts := []events.Fact{paid, first, &lost, second, settled}
	for i, f := range facts {
		story.Take(f, int64(10+i), evening.Add(time.Duration(i)*time.Second))
	}
	later := story.Reprice("run", &pricing.Repriced{Changes: []pricing.Change{
		{N: 1, Is: pricing.Charge{Version: "p9", Upstream: 70}, Origin: pricing.Manual},
		{N: 2, Is: pricing.Charge{Version: "p9", Upstream: 500, Caller: 600}, Origin: pricing.Manual},
	}})
	changes := tell(append(facts, later)...)
	want := billing.Line{Requests: 1, Attempts: 2, Usage: used.Plus(lost.Usage), Cost: 600, UpstreamCost: 570}
	for _, table := range []string{"bill_entries", "bill_days"} {
		if have := line(changes[table]); have != want {
			t.Errorf("%s: %+v, want %+v", table, have, want)
		}
	}
	entries := changes["bill_entries"]
	if len(entries) != 2 {
		t.Fatalf("%d entries", len(entries))
	}
	for i, position := range []int64{12, 14} {
		at := func(column string) projections.Value { return entries[i].Values[billing.Entries.Column(column)] }
		if at("position").Int() != position || at("price_version").Text() != "p9" || at("began").Int() != 10 || at("paid_by").Text() != "balance" {
			t.Errorf("%v", entries[i].Values)
		}
	}
	left := 0
	for _, c := range changes["bill_days"] {
		if day := billing.DayText(c.Values[0].Int()); day != "2026-03-02" {
			t.Errorf("something is on %s", day)
		}
		l := billing.FromRow([]string{"price_version"}, append([]projections.Value{c.Values[billing.Days.Column("price_version")]}, c.Values[billing.Days.Key:]...))
		if l.Nothing() != (*l.PriceVersion != "p9") {
			t.Errorf("%s: %+v", *l.PriceVersion, l)
		}
		left++
	}
	if left != 4 {
		t.Errorf("%d rows of days", left)
	}
}

// A request of which one attempt was unpriced is not so any more when that has got a price, also where its end costs the same.
func TestTheEndOfARequestIsToldPricedWhenItsLastUnpricedAttemptIs(t *testing.T) {
	lost := *failed
	lost.Unpriced, lost.PriceVersion, lost.Cost, lost.UpstreamCost = true, "", 0, 0
	alone := &request.Settled{Outcome: request.FailedOutcome, Sent: true, Attempts: 1}
	for name, facts := range map[string][]events.Fact{
		"behind its own fact": {admitted, first, &lost, alone}, "behind another attempt": {admitted, first, &lost, second, settled},
	} {
		story := request.Booked{}
		for i, f := range facts {
			story.Take(f, int64(10+i), evening.Add(time.Duration(i)*time.Second))
		}
		later := story.Reprice("run", &pricing.Repriced{Changes: []pricing.Change{{N: 1, Is: pricing.Charge{Version: "p9", Upstream: 70}}}})
		before, after := tell(facts...), tell(append(facts, later)...)
		for _, table := range []string{"bill_entries", "bill_days"} {
			was, is := line(before[table]), line(after[table])
			if was.UnpricedRequests != 1 || is.UnpricedRequests != 0 || is.Requests != 1 || is.Attempts != was.Attempts || is.UpstreamCost != was.UpstreamCost+70 {
				t.Errorf("%s, %s: was %+v, is %+v", name, table, was, is)
			}
		}
	}
}
