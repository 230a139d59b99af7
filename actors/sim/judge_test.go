package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/gate"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// tale is one request as the store tells it.
type tale struct {
	rows    []*events.Committed
	sent    []*request.Dispatched
	sentAt  []time.Time
	failed  []*request.Failed
	queued  *request.Queued
	asked   time.Time // when it was queued
	resumed *request.Resumed
	resumes []*request.Resumed
	settled *request.Settled
	refused *request.Rejected
}

// empty judges what is left when all requests are over: nothing.
func (l *law) empty() {
	s, board := l.p.system, l.p.system.Board()
	for _, u := range l.w.ups {
		st, ok := s.Status(u.ID)
		f, _ := board.Figures(u.ID)
		if !ok || len(st.Held) > 0 || len(st.Waiting) > 0 || !f.ProbeFree || f.Held != 0 || f.Waiting != 0 {
			l.fault("%s is not free at the end: %+v, %+v", u.ID, st, f)
		}
		for _, b := range st.Breakers {
			if b.Probing {
				l.fault("the breaker of %s for %s at %s is never probed again", b.Account, b.Model, u.ID)
			}
		}
		l.totals[u.ID] = st.Totals
	}
	for _, a := range l.w.accs {
		if f, _ := board.AccountFigures(a.ID); f.Held != 0 {
			l.fault("account %s holds %d at the end", a.ID, f.Held)
		}
	}
	if st := l.p.journal.Stats(); st.Rooms != 0 || st.Queued != 0 {
		l.fault("the journal is not empty at the end: %+v", st)
	}
	gone := make(chan struct{})
	close(gone)
	users := map[string]*int{}
	for _, u := range l.w.snap.Load().Users() {
		users[u.ID] = u.Slots
	}
	for _, k := range l.w.keys {
		n := min(limit(k.Slots), limit(users[k.User]), 20)
		var passes []actors.Pass
		for i := range n {
			w := actors.Want{ID: gate.LeaseID{Request: "pass-" + strconv.Itoa(i)}, Key: k.ID}
			p, no := s.Admit("", k.ID, w, func() <-chan struct{} { return gone })
			if no != nil {
				l.fault("only %d of %d slots of key %s are free at the end", i, n, k.ID)
				break
			}
			passes = append(passes, p)
		}
		for _, p := range passes {
			s.Leave(p)
		}
	}
	for _, a := range l.w.accs {
		l.tried(a)
	}
}

// tried: what is blocked is so until some time, or on probation, and then nobody probes it any more.
func (l *law) tried(a *catalog.Account) {
	for _, model := range []string{"m", "n"} {
		want := actors.Want{ID: actors.LeaseID{Request: "tries-" + a.ID, Attempt: 1}, Key: l.w.keys[0].ID}
		lease, no := l.p.system.Try(want, actors.Candidate{Upstream: a.Upstream, Accounts: []string{a.ID}, Model: model})
		switch {
		case no == nil:
			l.p.system.Release(lease, nil)
		case no.Reason == actors.NoAccount && no.Until.IsZero() && a.Active && l.spec(a.Upstream).Active:
			l.fault("account %s is never tried again with %s", a.ID, model)
		}
	}
}

// judge reads the store after the end.
func (l *law) judge() {
	open, err := actors.FindOpen(background, l.w.store)
	if l.must("find open", err); len(open) > 0 {
		l.fault("%s has no end", open[0].Story.ID)
	}
	tales := map[string]*tale{}
	l.must("read", l.w.store.After(background, 0, func(c *events.Committed) bool {
		if c.Request == "" {
			return true
		}
		t := tales[c.Request]
		if t == nil {
			t = &tale{}
			tales[c.Request] = t
		}
		t.rows = append(t.rows, c)
		if why := t.read(c); why != "" {
			l.fault("%s: %s", c.Request, why)
		}
		return true
	}))
	for _, c := range l.w.clients {
		t := tales[c.id]
		if t == nil {
			r, _ := c.refused()
			if died := c.node != l.p; !died && r.Code != failure.StoreUnavailable && r.Code != failure.StoreOverloaded {
				l.fault("%s left no trace, and got %d %s", c.id, c.answer.Status, c.got.String())
			}
			continue
		}
		for _, why := range l.story(c, t) {
			l.fault("%s: %s: %s", c.id, why, t)
		}
	}
	l.probes(tales)
	l.queued(tales)
	l.bound()
	l.bill(tales)
}

// read takes a row, and says what is wrong with it.
func (t *tale) read(c *events.Committed) string {
	version := int64(0)
	for _, r := range t.rows[:len(t.rows)-1] {
		version += int64(len(r.Facts))
	}
	if c.Version != version || t.settled != nil || t.refused != nil {
		return fmt.Sprintf("version %d follows %d", c.Version, version)
	}
	for i, f := range c.Facts {
		last := i == len(c.Facts)-1
		switch f := f.(type) {
		case *request.Rejected:
			if t.refused = f; version+int64(i) != 0 || !last {
				return "rejected is not alone"
			}
		case *request.Admitted:
			if version+int64(i) != 0 {
				return "admitted is not first"
			}
		case *request.Queued:
			t.queued, t.asked, t.resumed = f, c.At, nil
		case *request.Resumed:
			t.resumes = append(t.resumes, f)
			if t.resumed = f; t.asked.Equal(c.At) { // both were stored after the wait
				t.asked = t.queued.Deadline
			}
		case *request.Dispatched:
			t.sent, t.sentAt = append(t.sent, f), append(t.sentAt, c.At)
			if f.N != len(t.sent) || len(t.failed) != f.N-1 {
				return "attempts are not 1..n, each failed before the next"
			}
		case *request.Failed:
			if t.failed = append(t.failed, f); f.N != len(t.failed) || f.N != len(t.sent) || f.Class == "" || f.Next == "" {
				return "a failure is not that of the running attempt"
			}
			if f.Cost != 0 || f.UpstreamCost != costOf(f.Usage) {
				return "a failed attempt is not priced"
			}
		case *request.Settled:
			if t.settled = f; !last {
				return "settled is not last"
			}
		}
	}
	if c.Terminal != (t.settled != nil || t.refused != nil) {
		return "the terminal row is not the last one"
	}
	return ""
}

// String is for people who look at a fault.
func (t *tale) String() string {
	var b strings.Builder
	for _, r := range t.rows {
		fmt.Fprintf(&b, "\n    %s %s", r.Types, r.Payload)
	}
	return b.String()
}

// costOf is 1 USD per million input tokens and 2 per million of output, in 1e-10 USD.
func costOf(u pricing.Usage) money.Amount { return money.Amount(u.Input*10_000 + u.Output*20_000) }

// story judges a request by what its client and its upstreams have seen.
func (l *law) story(c *client, t *tale) (wrong []string) {
	law := func(holds bool, says string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Sprintf(says, args...))
		}
	}
	if r := t.refused; r != nil {
		law(r.Code != "" && r.Stage != "", "refused without a reason")
		law(len(c.calls) == 0, "rejected after %d calls", len(c.calls))
		law(c.node != l.p || c.left || r.Status == c.answer.Status, "rejected with %d, the client got %d", r.Status, c.answer.Status)
		return wrong
	}
	s := t.settled
	if s == nil {
		return []string{"it has no end"}
	}
	abandoned, left := s.Outcome == request.Abandoned, len(t.sent)
	if strings.HasSuffix(s.Evidence, "nothing was sent") { // the store had not confirmed it in time
		left--
	}
	law(s.Attempts == left && s.Sent == (left > 0), "settled tells of other attempts")
	law(s.UpstreamCost == costOf(s.Usage), "a usage of %+v costs the operator %v", s.Usage, s.UpstreamCost)
	served := s.Outcome != request.FailedOutcome || s.Stage == failure.StageStreaming
	served = served && !(s.Outcome == request.Cancelled && s.Free) // the client went after its last attempt had failed
	law(served && s.Cost == s.UpstreamCost || !served && s.Cost == 0, "a usage of %+v costs the caller %v", s.Usage, s.Cost)
	law((s.UsageSource == pricing.None) == s.Usage.IsZero(), "usage and its source disagree")
	law(s.Outcome == request.Completed || s.Code+s.Reason != "", "nothing says why")
	law(len(t.sent) == 0 || s.Class != "", "the final attempt has no class")
	if t.queued == nil {
		law(s.QueueState == "", "its wait ended as %q, and there was none", s.QueueState)
	} else {
		law((t.resumed != nil) == (s.QueueState == "resumed"), "its wait ended as %q", s.QueueState)
		law(slices.Contains([]string{"resumed", "timed_out", "aborted", "evicted"}, s.QueueState), "left its queue for no reason")
		law(s.QueueState != "aborted" || s.ClientGone, "left its queue, and its client had not gone")
	}
	if abandoned {
		law(c.node != l.p, "abandoned by a process that lives")
		law(l.w.level != actors.AtDispatch || len(c.calls) <= len(t.sent), "%d calls", len(c.calls))
		return wrong
	}
	law(len(c.calls) == left, "%d calls to upstreams", len(c.calls))
	law(len(t.sent) == 0 || len(t.failed) == len(t.sent)-1, "the final attempt is in attempt.failed and in settled")
	if c.node == l.p && !c.left && len(c.calls) == left {
		law(s.Status == c.answer.Status, "settled with %d, the client got %d", s.Status, c.answer.Status)
	}
	law(c.recalled == 0 || len(c.calls) == c.recalled, "call %d was recalled, and others followed", c.recalled)
	if n := c.recalled; n > 0 {
		law(c.calls[n-1].ended < c.recalledAt+2*time.Second, "call %d was recalled at %s, and ended at %s", n, c.recalledAt, c.calls[n-1].ended)
	}
	law(c.recalled == 0 || s.Outcome == request.Completed || s.Code != "", "it was recalled, and nothing says why it ended")
	law(!s.ClientGone || c.left || c.node != l.p, "the client was not gone")
	for i, k := range c.calls[:min(len(c.calls), len(t.sent))] {
		law(k.upstream == t.sent[i].Upstream && k.account == t.sent[i].Account, "call %d went to %s as %s", i+1, k.upstream, k.account)
	}
	if n := len(c.calls); n > 0 && n == len(t.sent) {
		k := c.calls[n-1]
		law(s.UsageSource != pricing.Reported || k.gaveAll && s.Usage.Input == k.usage.Input && s.Usage.Output == k.usage.Output,
			"the upstream told %+v", k.usage)
		law(s.Outcome != request.Completed || s.UsageSource == pricing.Reported, "a whole answer without its usage")
		law(!k.gaveAll || !k.eof || s.Outcome != request.Cancelled || s.UsageSource == pricing.Reported, "a drained answer without its usage")
	}
	l.failover(t, law)
	if q := t.queued; q != nil {
		most := q.Deadline.Sub(t.asked) + time.Second
		law(t.resumed == nil || t.asked.Equal(q.Deadline) || time.Duration(t.resumed.WaitedUS)*time.Microsecond <= most, "waited beyond its deadline")
	}
	return wrong
}

// failover judges where the next attempts went.
func (l *law) failover(t *tale, law func(bool, string, ...any)) {
	budget, counted := l.w.snap.Load().Settings.MaxAttempts, len(t.sent)
	for i, f := range t.failed {
		from := t.sent[i]
		for _, to := range t.sent[min(i+1, len(t.sent)):] {
			switch f.Next {
			case "next_upstream":
				law(to.Upstream != from.Upstream, "attempt %d went to %s again", to.N, to.Upstream)
			case "next_account":
				law(to.Account != from.Account, "attempt %d used %s again", to.N, to.Account)
			}
		}
		if f.Next == "same_account" {
			counted--
		}
		law(f.Next != "stop" || len(t.sent) == i+1, "an attempt after one that stops")
	}
	law(budget == 0 || counted <= budget, "%d attempts, %d are allowed", counted, budget)
}

// probes judges the half-open spells of all breakers: one probe at a time, and enough good ones close it.
func (l *law) probes(tales map[string]*tale) {
	type probe struct{ from, to time.Duration }
	flights := map[string]map[int][]probe{}
	good := map[string]map[int][]time.Duration{}
	for _, c := range l.w.clients {
		t := tales[c.id]
		if t == nil {
			continue
		}
		for i, d := range t.sent {
			if !d.Probe || i >= len(c.calls) {
				continue
			}
			k, from := c.calls[i], t.sentAt[i].Sub(l.w.start)
			spell := l.spell(d.Upstream, from)
			to := k.ended
			if k.content > 0 {
				to = k.content
			}
			at := d.Upstream
			if l.spec(at).Breaker.PerAccountModel() { // a probe of that account and model, or of all
				at, spell = at+"/"+d.Account+"/"+c.call.Ask.Model, 0
				for _, back := range l.returned[d.Upstream] {
					if back <= from {
						spell++
					}
				}
			}
			if flights[at] == nil {
				flights[at], good[at] = map[int][]probe{}, map[int][]time.Duration{}
			}
			flights[at][spell] = append(flights[at][spell], probe{from, to})
			if k.content > 0 && (c.call.Scan.Stream || k.eof) {
				good[at][spell] = append(good[at][spell], max(k.content, from))
			}
		}
	}
	for id, spells := range flights {
		turns := l.turns[id]
		for n, list := range spells {
			slices.SortFunc(list, func(a, b probe) int { return int(a.from - b.from) })
			for i := 1; i < len(list); i++ {
				if list[i].from < list[i-1].to {
					l.fault("%s: a probe at %s while one was in flight from %s to %s", id, list[i].from, list[i-1].from, list[i-1].to)
				}
			}
			if turns == nil || turns[n].boot || turns[n].to != breaker.StateHalfOpen || l.w.level == actors.Overlapped {
				continue
			}
			enough, ends := good[id][n], l.w.since()
			if n+1 < len(turns) {
				ends = turns[n+1].at
			}
			slices.Sort(enough)
			if k := l.spec(id).Breaker.Successes; len(enough) >= k && ends > enough[k-1]+2*time.Second {
				l.fault("%s: half-open at %s in spite of %d good probes", id, ends, len(enough))
			}
		}
	}
}

// spell is the index of the turn that was the last one before.
func (l *law) spell(id string, at time.Duration) int {
	n := 0
	for i, t := range l.turns[id] {
		if t.at <= at {
			n = i
		}
	}
	return n
}

// bill compares the projection with the sum of all settlements.
func (l *law) bill(tales map[string]*tale) {
	var want billing.Line
	for _, t := range tales {
		for _, f := range t.failed {
			want.Cost, want.UpstreamCost, want.Usage = want.Cost+f.Cost, want.UpstreamCost+f.UpstreamCost, sum(want.Usage, f.Usage)
		}
		if s := t.settled; s != nil && s.Sent {
			want.Requests++
			want.Cost, want.UpstreamCost, want.Usage = want.Cost+s.Cost, want.UpstreamCost+s.UpstreamCost, sum(want.Usage, s.Usage)
		}
	}
	model := memory.NewReadModel(billing.Projection{})
	_, err := projections.Rebuild(background, l.w.store, model, billing.Projection{}, nil)
	l.must("bill", err)
	lines, err := model.Bill(background, billing.Query{})
	l.must("bill", err)
	var got billing.Line
	for _, line := range lines {
		got.Requests, got.Cost, got.UpstreamCost, got.Usage = got.Requests+line.Requests, got.Cost+line.Cost, got.UpstreamCost+line.UpstreamCost, sum(got.Usage, line.Usage)
	}
	if got != want {
		l.fault("the bill is %+v, the settlements sum to %+v", got, want)
	}
	l.w.trace("billed %+v", got)
}

func sum(a, b pricing.Usage) pricing.Usage {
	return pricing.Usage{
		Input: a.Input + b.Input, CachedInput: a.CachedInput + b.CachedInput, CacheWrite5m: a.CacheWrite5m + b.CacheWrite5m,
		CacheWrite1h: a.CacheWrite1h + b.CacheWrite1h, Output: a.Output + b.Output, Reasoning: a.Reasoning + b.Reasoning,
	}
}

// tell writes the high-water marks into the trace.
func (l *law) tell() {
	for _, kind := range []map[string]*owner{l.ups, l.accs, l.callers} {
		var ids []string
		for id := range kind {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			l.w.lines = append(l.w.lines, fmt.Sprintf("high-water %s %d", id, kind[id].most))
		}
	}
}
