package penstock_test

import (
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
)

// wrongTariffs are the prices that somebody has got wrong at first: flat ones, and two models without any.
var wrongTariffs = tariffs{
	{"model": "mixed", "input": "9", "output": "0.5", "reasoning": "77"},
	{"model": "listed", "input": "0.1", "output": "0.2", "per_request": "0.01"},
}

// corrected are documents with the right prices, which count since an hour ago.
func corrected(list tariffs) (docs []map[string]any) {
	for i, t := range list {
		doc := map[string]any{"kind": "price", "id": "right-" + strconv.Itoa(i), "effective_from": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)}
		maps.Copy(doc, t)
		docs = append(docs, doc)
	}
	return docs
}

func (r *rig) reprice(body map[string]any) actors.Repricing {
	r.t.Helper()
	return ask[actors.Repricing](r, "POST", "/api/v1/reprice", body)
}

// settled waits until all that was sent has ended.
func (r *rig) settled(sent map[string]asked) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		done := 0
		for _, e := range r.recountLog() {
			if e.State == "done" {
				done++
			}
		}
		return done == len(sent)
	}, 2*time.Minute, 50*time.Millisecond, "every request ends")
	r.recorded()
}

// recorded waits until the upstreams have written down how their calls ended, which they do behind the last byte.
func (r *rig) recorded() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		for _, s := range r.up {
			if slices.ContainsFunc(s.Calls(), func(k simulator.Call) bool { return k.Outcome == "" }) {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, "every call is recorded")
}

// billIs wants the bill to be what the upstreams' own records and the tariffs add up to.
func (r *rig) billIs(want map[string]*sum) {
	r.t.Helper()
	have := r.billed()
	for at, w := range want {
		h := have[at]
		require.NotNil(r.t, h, at)
		if h.caller.Cmp(&w.caller) != 0 || h.upstream.Cmp(&w.upstream) != 0 || h.requests != w.requests || h.unpriced != w.unpriced {
			r.t.Errorf("%s: billed %s (upstream %s) for %d requests (%d unpriced), it adds up to %s (%s) for %d (%d)", at, dollars(&h.caller),
				dollars(&h.upstream), h.requests, h.unpriced, dollars(&w.caller), dollars(&w.upstream), w.requests, w.unpriced)
		}
		for class, n := range w.used {
			require.Equal(r.t, n, h.used[class], "%s: %s", at, class)
		}
	}
	require.Len(r.t, have, len(want))
}

// movement is by how much one bill is more than another, by key and model.
func movement(was, is map[string]*sum) map[string]*[2]big.Int {
	all := map[string]*[2]big.Int{}
	for at, s := range is {
		words := strings.Split(at, " ")
		of := words[0] + " " + words[1]
		if all[of] == nil {
			all[of] = &[2]big.Int{}
		}
		all[of][0].Add(&all[of][0], new(big.Int).Sub(&s.caller, &was[at].caller))
		all[of][1].Add(&all[of][1], new(big.Int).Sub(&s.upstream, &was[at].upstream))
	}
	return all
}

// head is the position of the last fact.
func (r *rig) head() string {
	page := ask[items[struct{ Position events.Position }]](r, "GET", "/api/v1/events?newest=true&limit=1", nil)
	return strconv.FormatInt(int64(page.Items[len(page.Items)-1].Position), 10)
}

// Show: a price was wrong, of two models there was none; the right ones are set with an effective date in the past. The preview
// is what an independent script makes of it by key and model, to the last digit, and after it is booked so are the bill, the log and
// the statistics. The bill as it stood stays what it was, a second run changes nothing, and the read models are what the events tell,
// before and after (E40, E41, A79, A82, pains 5, 80).
func TestAWrongPriceIsPutRightForWhatIsSettled(t *testing.T) {
	right := recountTariffs
	t.Cleanup(func() { recountTariffs = right })
	recountTariffs = wrongTariffs
	r := newRig(t, nil)
	r.recountRig()
	sent := r.recountTraffic(0, max(300, *recounted/3))
	r.settled(sent)
	was := r.recount(sent)
	r.billIs(was)
	before := r.head()
	old := r.billText("")

	recountTariffs = right
	r.apply(corrected(right)...)
	is := r.recount(sent)
	r.billIs(was)
	r.verify()

	preview := r.reprice(map[string]any{})
	require.False(t, preview.Applied)
	require.EqualValues(t, 0, preview.Open)
	moved := movement(was, is)
	for _, l := range preview.Lines {
		at := l.Key + " " + l.Model
		require.NotNil(t, moved[at], at)
		require.Equal(t, dollars(&moved[at][0]), dollars(big.NewInt(int64(l.Difference))), "%s: the callers'", at)
		require.Equal(t, dollars(&moved[at][1]), dollars(big.NewInt(int64(l.UpstreamDifference))), "%s: the upstreams'", at)
		require.Equal(t, l.Is-l.Was, l.Difference)
		delete(moved, at)
	}
	for at, m := range moved {
		require.True(t, m[0].Sign() == 0 && m[1].Sign() == 0, "%s is not in the preview", at)
	}
	require.Positive(t, preview.Resolved)
	require.NotEmpty(t, preview.Missing, "one model has no price yet")
	for _, m := range preview.Missing {
		require.Equal(t, "unpriced", m.Model)
	}
	r.billIs(was)

	status, body := r.admin("POST", "/api/v1/reprice", map[string]any{"apply": true, "expect": map[string]any{"prices": "other"}})
	require.Equal(t, http.StatusPreconditionFailed, status, "%s", body)
	status, body = r.admin("POST", "/api/v1/reprice", map[string]any{"apply": true, "expect": map[string]any{"difference": "0.0000000001"}})
	require.Equal(t, http.StatusPreconditionFailed, status, "%s", body)

	// Step by step: what has no price, one key, the rest.
	total := money.Amount(0)
	for _, scope := range []map[string]any{
		{"unpriced_only": true}, {"key": "paying"}, {"model": "li*"}, {"upstream": "sound", "since": time.Now().Add(-time.Hour)}, {},
	} {
		part := r.reprice(scope)
		scope["apply"], scope["run"] = true, "fix"
		scope["expect"] = map[string]any{"prices": part.Prices, "difference": part.Difference, "upstream_difference": part.UpstreamDifference}
		done := r.reprice(scope)
		require.True(t, done.Applied)
		require.Equal(t, "fix", done.Run)
		require.Equal(t, part.Lines, done.Lines)
		require.Positive(t, done.Requests, "%v", scope)
		total += done.Difference
	}
	require.Equal(t, preview.Difference, total)
	r.billIs(is)
	r.verify()
	require.JSONEq(t, old, r.billText("as_of="+before), "the books as they stood")

	second := r.reprice(map[string]any{"apply": true})
	require.Zero(t, second.Requests)
	require.Equal(t, preview.Read, second.Read)
	head := r.head()
	require.Equal(t, second.To, actorsPosition(t, head), "nothing was appended")
	r.showsThatItCosts(is)

	r.close()
	r.open()
	r.billIs(is)
	r.verify()
	require.Zero(t, r.reprice(map[string]any{}).Requests)
}

func actorsPosition(t *testing.T, text string) events.Position {
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return events.Position(n)
}

func (r *rig) billText(query string) string {
	lines := ask[items[json.RawMessage]](r, "GET", "/api/v1/billing?by=key,model,upstream,price_version&"+query, nil)
	text, err := json.Marshal(lines.Items)
	require.NoError(r.t, err)
	return string(text)
}

// showsThatItCosts wants log, statistics and the stories of requests to tell the same costs as the bill.
func (r *rig) showsThatItCosts(is map[string]*sum) {
	r.t.Helper()
	var want, owed big.Int
	for _, s := range is {
		want.Add(&want, &s.caller)
		owed.Add(&owed, &s.upstream)
	}
	type entry struct {
		ID           string       `json:"request_id"`
		Cost         money.Amount `json:"cost"`
		UpstreamCost money.Amount `json:"upstream_cost"`
		Unpriced     bool         `json:"unpriced"`
		Attempts     []struct {
			Version string       `json:"price_version"`
			Cost    money.Amount `json:"cost"`
		} `json:"attempts"`
	}
	var logged, upstream money.Amount
	told := 0
	for before := ""; ; {
		page := ask[struct {
			Items []entry
			Next  string
		}](r, "GET", "/api/v1/requests?limit=1000&before="+before, nil)
		for _, e := range page.Items {
			logged, upstream = logged+e.Cost, upstream+e.UpstreamCost
			for _, a := range e.Attempts {
				if strings.HasPrefix(a.Version, "right-") && told < 5 {
					told++
					r.tells(e.ID, e.Cost)
					break
				}
			}
		}
		if before = page.Next; before == "" {
			break
		}
	}
	require.Equal(r.t, 5, told)
	require.Equal(r.t, dollars(&want), dollars(big.NewInt(int64(logged))))
	require.Equal(r.t, dollars(&owed), dollars(big.NewInt(int64(upstream))))
	overview := ask[struct{ Cost money.Amount }](r, "GET", "/api/v1/stats/overview", nil)
	require.Equal(r.t, dollars(&want), dollars(big.NewInt(int64(overview.Cost))))
}

// tells wants the story of a request to say what it was, is, and by which run.
func (r *rig) tells(id string, cost money.Amount) {
	story := ask[struct {
		Request struct{ Cost money.Amount }
		Events  []struct {
			Type string
			Data struct {
				Reprice string
				Changes []struct{ Was, Is struct{ Cost money.Amount } }
			}
		}
	}](r, "GET", "/api/v1/requests/"+id, nil)
	last := story.Events[len(story.Events)-1]
	require.Equal(r.t, "request.repriced", last.Type)
	require.Equal(r.t, "fix", last.Data.Reprice)
	require.NotEmpty(r.t, last.Data.Changes)
	require.Equal(r.t, cost, story.Request.Cost)
}

// A balance and a limit follow what was repriced: a strict budget opens again, and stays open over a restart; what is dearer closes
// it (pain 80).
func TestBalancesAndLimitsFollowARepricing(t *testing.T) {
	r := newRig(t, nil)
	r.cheap(0) // 0.007 each
	r.apply(map[string]any{"kind": "user", "id": "ann"})
	r.book(&ledger.Credited{User: "ann", ID: "c1", Amount: 3 * money.USD / 100})
	lives := r.key("lives", map[string]any{"user": "ann"})
	limited := r.key("limited", map[string]any{"budget": "strict", "limits": map[string]any{"spending": []any{map[string]any{"period": "daily", "limit": "0.03"}}}})
	spend := func(key string) (n int) {
		for ; n < 50; n++ {
			if _, _, how := r.chat(key); !strings.HasPrefix(how, "paid by") {
				return n
			}
		}
		return n
	}
	n, m := spend(lives), spend(limited)
	require.Positive(t, n)
	require.Positive(t, m)
	require.Zero(t, spend(lives)+spend(limited), "used up")

	price := func(id, input, output string) {
		r.apply(map[string]any{"kind": "price", "id": id, "model": "m-*", "input": input, "output": output,
			"effective_from": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339)})
	}
	price("half", "50", "250")
	require.LessOrEqual(t, spend(limited), 1, "a price that is set changes nothing that is settled, but the next may fit by it")
	done := r.reprice(map[string]any{"apply": true})
	require.EqualValues(t, n+m, done.Requests)
	require.Equal(t, -money.Amount(n+m)*35*money.USD/10_000, done.Difference)
	more, again := spend(lives), spend(limited)
	require.Positive(t, more, "the balance has got something back")
	require.Positive(t, again, "the budget has opened")

	r.close()
	r.open()
	require.Zero(t, spend(lives)+spend(limited), "it is as full after a restart")
	price("half", "5", "25")
	r.reprice(map[string]any{"apply": true, "key": "limited"})
	require.Zero(t, spend(lives), "of another key")
	require.Positive(t, spend(limited))
	price("half", "5000", "25000")
	r.reprice(map[string]any{"apply": true})
	require.Zero(t, spend(lives)+spend(limited), "what is dearer now has used it up")
	r.verify()
}

// Requests go on while others are priced anew: none waits for it, none is booked twice, and what was under way when a price was set
// is found by the next run.
func TestRequestsGoOnWhileOthersAreRepriced(t *testing.T) {
	r := newRig(t, nil)
	r.cheap(0)
	key := r.key("k", nil)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if resp, body := r.post("/v1/chat/completions", limitedChat, "Authorization", key); resp.StatusCode != 200 {
					t.Errorf("a request beside a repricing: %d %s", resp.StatusCode, body)
					return
				}
			}
		})
	}
	repriced := int64(0)
	for i := range 6 {
		r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": strconv.Itoa(200 + i), "output": "500"})
		repriced += r.reprice(map[string]any{"apply": true}).Requests
	}
	close(stop)
	load.Wait()
	require.Positive(t, repriced)
	r.reprice(map[string]any{"apply": true})
	require.Zero(t, r.reprice(map[string]any{}).Requests)
	line := ask[items[struct {
		Requests int64
		Cost     money.Amount
	}]](r, "GET", "/api/v1/billing", nil).Items[0]
	require.Equal(t, money.Amount(line.Requests)*(20*205+10*500)*money.USD/1_000_000, line.Cost, "all by the last price")
	r.verify()
	equalChain(t, r)
}

func equalChain(t *testing.T, r *rig) {
	t.Helper()
	report := ask[events.Report](r, "POST", "/api/v1/audit/verify", map[string]any{})
	require.True(t, report.Equal, "%+v", report)
}

func TestARepricingThatCanNotBeIsRefused(t *testing.T) {
	r := newRig(t, nil)
	for _, c := range []struct {
		body   map[string]any
		status int
		text   string
	}{
		{map[string]any{"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, 422, "until"},
		{map[string]any{"since": "yesterday"}, 422, "since"},
		{map[string]any{"run": "x"}, 422, "apply"},
		{map[string]any{"apply": true, "expect": map[string]any{"difference": "a lot"}}, 422, "difference"},
		{map[string]any{"colour": "red"}, 422, "colour"},
	} {
		status, body := r.admin("POST", "/api/v1/reprice", c.body)
		require.Equal(t, c.status, status, "%v: %s", c.body, body)
		require.Contains(t, string(body), c.text)
	}
	require.Zero(t, r.reprice(map[string]any{"since": time.Now().Add(time.Hour)}).Read)
}
