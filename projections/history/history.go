// Package history makes plausible event histories: for the laws of projections, and to fill a store with.
package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// History says which history to make. The same values make the same history.
type History struct {
	Seed     uint64
	Requests int
	Parallel int           // requests that are open at once (default 8)
	Start    time.Time     // default 2026-03-01 21:30 UTC, so that histories cross midnight
	Step     time.Duration // mean time between two appends (default 40 s)
	Plain    bool          // every request succeeds at its first attempt: two appends each
	Unended  int           // requests at the end that are left open
	Keys     int           // API keys, of as many users, each with habits of its own (default: three, and requests without one)
	Repriced bool          // some requests are priced anew; the places that this tells are those in a store that has nothing else
	ASCII    bool          // texts are what most clients send, without the odd ones that laws are held against
}

// Appends makes the history: one append per row, in the order of commits, encoded, with versions and terminal marks
// as the gateway sets them.
func (h History) Appends() ([]events.Append, error) {
	w := &world{
		History: h, rand: rand.New(rand.NewPCG(h.Seed, 0x70656e73746f636b)), now: h.Start, operator: newOperator(h.Seed),
		repricer: newRepricer(h.Seed),
	}
	if w.Parallel == 0 {
		w.Parallel = 8
	}
	if w.now.IsZero() {
		w.now = time.Date(2026, 3, 1, 21, 30, 0, 0, time.UTC)
	}
	if w.Step == 0 {
		w.Step = 40 * time.Second
	}
	w.run()
	for i := range w.out {
		if err := events.Encode(&w.out[i].Rows[0]); err != nil {
			return nil, fmt.Errorf("history of seed %d: append %d: %w", h.Seed, i, err)
		}
	}
	return w.out, nil
}

// Names in histories.
var (
	keys      = []string{"key-a", "key-b", "key-c", ""}
	users     = []string{"ann", "", "cyd", ""}
	models    = []string{"gpt-5", "fast", "claude-sonnet-4-5", "gémini \"2\"\xff"}
	plain     = []string{"gpt-5", "fast", "claude-sonnet-4-5", "gemini-2.5-pro"}
	upstreams = []string{"openai-main", "openai-spare", "anthropic", "relay"}
	classes   = []string{"http_429", "http_5xx", "network", "first_byte_timeout", "overloaded"}
	codes     = []string{"API_KEY_RATE_LIMITED", "NO_AUTHORIZED_UPSTREAMS", "ALL_UPSTREAMS_UNAVAILABLE", "UNKNOWN_MODEL"}
)

// world makes a history step by step.
type world struct {
	History
	rand    *rand.Rand
	now     time.Time
	begun   int
	running []*life
	out     []events.Append

	operator operator
	repricer repricer
}

// life is a request that has not ended.
type life struct {
	id       string
	version  int64
	key      string
	model    string
	began    time.Time
	attempts int
	failed   bool // the last attempt has failed on its own
	waiting  bool
	waited   int64
}

func (w *world) run() {
	for w.begun < w.Requests || len(w.running) > w.Unended {
		w.now = w.now.Add(time.Duration(w.rand.Int64N(int64(2*w.Step)/1000)) * time.Microsecond)
		w.book()
		if w.Repriced {
			w.reprice()
		}
		if w.begun < w.Requests && (len(w.running) == 0 || len(w.running) < w.Parallel && w.chance(50)) {
			w.begin()
			continue
		}
		i := w.rand.IntN(len(w.running))
		if w.advance(w.running[i]) {
			w.running = append(w.running[:i], w.running[i+1:]...)
		}
		if !w.Plain && w.chance(4) {
			w.breaker()
		}
	}
}

func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

func pick(w *world, list []string) string { return list[w.rand.IntN(len(list))] }

func (w *world) begin() {
	l := &life{id: w.id(), began: w.now}
	w.begun++
	ask := w.ask()
	l.key, l.model = ask.Key, ask.Model
	if !w.Plain && w.chance(12) {
		w.append(l, true, "", &request.Rejected{
			Stage: "auth_filter", Code: pick(w, codes), Status: 429, Reason: w.reason(), Ask: ask,
			Excluded: w.excluded(), DurationUS: w.rand.Int64N(900),
		})
		return
	}
	admitted := &request.Admitted{Ask: ask, InputEstimate: w.rand.Int64N(4000), Excluded: w.excluded(), PaidBy: w.operator.pays(ask.User)}
	for i := range 1 + w.rand.IntN(3) {
		admitted.Plan = append(admitted.Plan, request.Candidate{Upstream: pick(w, upstreams), Tier: i, Why: "weighted_selection"})
	}
	if w.Plain || w.chance(75) {
		d := w.dispatched(l)
		w.append(l, false, d.Upstream, admitted, d)
	} else {
		l.waiting = true
		w.append(l, false, "", admitted, w.queued())
	}
	w.running = append(w.running, l)
}

func (w *world) ask() request.Ask {
	i := w.rand.IntN(len(keys))
	a := request.Ask{
		Key: keys[i], User: users[i], Group: []string{"", "team"}[w.rand.IntN(2)], Method: "POST", Path: "/v1/chat/completions",
		Dialect: "openai-chat", Capability: "openai_chat_compatible", Model: pick(w, models), Stream: w.chance(60),
		Client: "openai-python/2.1 <tést>",
	}
	if w.chance(30) {
		a.ClientID, a.Session = fmt.Sprintf("client-%d", w.rand.IntN(1000)), "sess\u2028ion"
	}
	if w.ASCII {
		a.Model, a.Client, a.Session = plain[slices.Index(models, a.Model)], "openai-python/2.1", strings.ReplaceAll(a.Session, "\u2028", "-")
	}
	if w.Keys > 0 {
		n := w.rand.IntN(w.Keys)
		a.Key, a.User = fmt.Sprintf("key-%03d", n), fmt.Sprintf("user-%03d", n)
		a.Group = []string{"", "team"}[n%2]
		if w.chance(90) {
			a.Model = plain[n%len(plain)]
		}
	}
	return a
}

func (w *world) reason() string {
	if w.ASCII {
		return "rate limited"
	}
	return "rate \xff limited"
}

func (w *world) excluded() []request.Exclusion {
	if w.Plain || w.chance(80) {
		return nil
	}
	return []request.Exclusion{{Upstream: pick(w, upstreams), Reason: "circuit_open"}}
}

func (w *world) queued() *request.Queued {
	return &request.Queued{
		Upstreams: []string{pick(w, upstreams)}, Position: 1 + w.rand.IntN(5), Ticket: w.rand.Uint64(),
		Deadline: w.now.Add(30 * time.Second),
	}
}

func (w *world) dispatched(l *life) *request.Dispatched {
	l.attempts++
	l.failed, l.waiting = false, false
	d := &request.Dispatched{N: l.attempts, Upstream: pick(w, upstreams), Why: "weighted_selection"}
	resolved := w.chance(40)
	if w.Keys > 0 {
		resolved = l.model == "fast"
		if l.attempts == 1 && w.chance(90) {
			d.Upstream = upstreams[len(l.model)%len(upstreams)]
		}
	}
	d.Account = d.Upstream + "-1"
	if resolved {
		d.ResolvedModel = "gpt-5-mini"
	}
	if w.chance(10) {
		d.Why, d.UpstreamModel = "affinity_hit", "house"
	}
	return d
}

// advance takes a request one append further and says whether it has ended.
func (w *world) advance(l *life) (ended bool) {
	switch {
	case l.waiting && w.chance(70):
		l.waited = w.rand.Int64N(30e6)
		d := w.dispatched(l)
		w.append(l, false, d.Upstream, &request.Resumed{Upstream: d.Upstream, WaitedUS: l.waited}, d)
		return false
	case l.waiting || l.failed && w.chance(20):
		return w.stop(l)
	case l.failed:
		if w.chance(30) {
			l.waiting = true
			w.append(l, false, "", w.queued())
			return false
		}
		d := w.dispatched(l)
		w.append(l, false, d.Upstream, d)
		return false
	case !w.Plain && w.chance(20):
		l.failed = true
		w.append(l, false, "", w.failed(l))
		return false
	case !w.Plain && w.chance(10):
		w.append(l, false, "", &request.Progressed{N: l.attempts, Usage: w.usage(), UsageSource: pricing.Partial})
		return false
	}
	return w.settle(l)
}

// stop ends a request of which nothing is under way.
func (w *world) stop(l *life) bool {
	s := &request.Settled{
		Outcome: request.RejectedOut, Status: 504, Code: "QUEUE_WAIT_TIMEOUT", Stage: "queue", Attempts: l.attempts,
		Sent: l.attempts > 0, UsageSource: pricing.None, QueueState: "timed_out", WaitedUS: 30e6, DurationUS: w.since(l),
	}
	if w.chance(40) {
		s.Outcome, s.Status, s.Code, s.QueueState, s.ClientGone = request.Cancelled, 499, "CLIENT_DISCONNECTED", "aborted", true
	}
	w.append(l, true, "", s)
	return true
}

func (w *world) failed(l *life) *request.Failed {
	f := &request.Failed{
		N: l.attempts, Class: pick(w, classes), UpstreamStatus: 529, Evidence: "overloaded", Next: "next_upstream",
		Counted: true, TookUS: 1 + w.rand.Int64N(5e6),
	}
	if w.chance(30) {
		f.Usage, f.UsageSource, f.PriceVersion, f.PriceOrigin = w.usage(), pricing.Partial, "p1", pricing.Synced
		f.UpstreamCost, f.Cost = w.amount(), w.amount()
	}
	return f
}

func (w *world) settle(l *life) bool {
	s := &request.Settled{
		Outcome: request.Completed, Status: 200, Class: "ok", UpstreamStatus: 200, UpstreamID: "up-" + l.id[:8],
		Attempts: l.attempts, Sent: true, Usage: w.usage(), UsageSource: pricing.Reported, PriceVersion: "p1", PriceOrigin: pricing.Manual,
		UpstreamCost: w.amount(), Cost: w.amount(), TTFTUS: 1 + w.rand.Int64N(2e6), AttemptUS: 1 + w.rand.Int64N(9e6), DurationUS: w.since(l),
	}
	if l.waited > 0 {
		s.QueueState, s.WaitedUS = "resumed", l.waited
	}
	switch n := w.rand.IntN(100); {
	case w.Plain || n < 70:
	case n < 78:
		s.Outcome, s.Status, s.Class, s.UpstreamStatus, s.Code = request.FailedOutcome, 503, "http_5xx", 502, "UPSTREAM_HTTP_ERROR"
	case n < 86:
		s.Outcome, s.Status, s.ClientGone, s.OnDisconnect, s.UsageSource = request.Cancelled, 499, true, "cancel", pricing.Estimated
	case n < 92:
		s.Outcome, s.Status, s.Class, s.UsageSource, s.TTFTUS = request.Abandoned, 0, "", pricing.Partial, 0
	default:
		s.Unpriced, s.UnpricedReason, s.PriceVersion, s.Cost, s.UpstreamCost = true, pricing.PriceNotFound, "", 0, 0
		s.PriceOrigin = ""
	}
	w.append(l, true, "", s)
	return true
}

func (w *world) usage() pricing.Usage {
	output := w.rand.Int64N(3000)
	u := pricing.Usage{
		Input: w.rand.Int64N(5000), CachedInput: w.rand.Int64N(1000), CacheWrite5m: w.rand.Int64N(3), Output: output,
		Reasoning: output / 3,
	}
	if output%8 == 0 { // few have more than text
		u.CacheWrite1h, u.AudioInput, u.AudioOutput = output/2, output/3, output/4
		u.ImageInput, u.ImageOutput, u.Images, u.WebSearches, u.FileSearches = output/5, output/6, 1, output%5, output%3
	}
	return u
}

func (w *world) amount() money.Amount { return money.Amount(w.rand.Int64N(int64(money.USD) / 10)) }

func (w *world) since(l *life) int64 { return w.now.Sub(l.began).Microseconds() }

// id is a UUIDv7 of the history's clock and chance.
func (w *world) id() string {
	b := fmt.Sprintf("%012x7%03x%04x%012x", w.now.UnixMilli(), w.rand.IntN(1<<12), 0x8000|w.rand.IntN(1<<14), w.rand.Int64N(1<<48))
	return strings.Join([]string{b[:8], b[8:12], b[12:16], b[16:20], b[20:]}, "-")
}

func (w *world) append(l *life, terminal bool, upstream string, facts ...events.Fact) {
	at := w.now
	if w.chance(20) { // positions are in the order of commits, which need not be that of the clock
		at = at.Add(-time.Duration(w.rand.Int64N(int64(w.Step)/1000)) * time.Microsecond)
	}
	w.out = append(w.out, events.Append{Rows: []events.Row{{
		Stream: "request/" + l.id, Version: l.version, Terminal: terminal, At: at, Node: "node-1", Request: l.id,
		Key: l.key, Upstream: upstream, Facts: facts,
	}}})
	l.version += int64(len(facts))
}

// breaker adds a fact that belongs to no request.
func (w *world) breaker() {
	u := pick(w, upstreams)
	w.out = append(w.out, events.Append{Rows: []events.Row{{
		Stream: "upstream/" + u, Version: events.AnyVersion, At: w.now, Node: "node-1", Upstream: u,
		Facts: []events.Fact{&breaker.Opened{Upstream: u, Failures: 5, Until: w.now.Add(time.Minute), By: "failures"}},
	}}})
}
