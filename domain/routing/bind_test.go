package routing

import (
	"testing"
	"time"

	"github.com/penstock/penstock/domain/affinity"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
)

// bound is a session that is bound to an account.
func bound(upstream, account string) affinity.Lookup {
	return affinity.Lookup{Binding: affinity.Binding{Upstream: upstream, Account: account, Tokens: 1000, Since: now, Used: now}}
}

func migration(priority int, metric string, threshold int64, direction string) func(*catalog.Upstream) {
	return func(u *catalog.Upstream) {
		u.Priority = priority
		u.AffinityMigration = &catalog.Migration{Enabled: true, Metric: metric, Threshold: threshold, Direction: direction}
	}
}

// C56-C58, B13, B48, pains 54 (a session never holds a request back), sub2api#5262 (slow but answering).
func TestABoundSessionGoesWhereItWasServedUnlessThereIsAReason_C56_C57_B13_B48(t *testing.T) {
	full, open := Figures{Held: 1, Slots: 1}, Figures{Breaker: Open, Until: now.Add(time.Minute)}
	slow, bad := Figures{TTFT: 16 * time.Second}, Figures{Failures: 0.5}
	gone := AccountFigures{Active: true, BlockedUntil: now.Add(time.Minute)}
	ab := [][]catalog.Resource{up("a", nil, 2), up("b", priority(1), 2), up("c", priority(2), 1)}
	type figures = map[string]Figures
	for _, c := range []struct {
		name  string
		extra [][]catalog.Resource
		ups   figures
		accs  map[string]AccountFigures
		q     Query
		want  string // first candidate with its accounts
		is    string
	}{
		{"no binding", nil, nil, nil, Query{}, "a[a-1 a-2]", ""},
		{"the binding wins over a better tier", nil, nil, nil, Query{Session: bound("b", "b-2")}, "b[b-2 b-1]", "affinity_hit"},
		{"within the first tier", nil, nil, nil, Query{Session: bound("a", "a-2")}, "a[a-2 a-1]", "affinity_hit"},
		{"half open and due is usable", nil, figures{"b": {Breaker: HalfOpen, ProbeFree: true}}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"out of service", nil, figures{"b": open}, nil, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_circuit_open"},
		{"failed in this request (B54)", nil, nil, nil, Query{Session: bound("b", "b-1"), Exclude: []string{"b"}}, "a[a-1 a-2]", "affinity_escaped_excluded"},
		{"its account failed in this request", nil, nil, nil, Query{Session: bound("b", "b-1"), ExcludeAccounts: []string{"b-1"}}, "a[a-1 a-2]", "affinity_escaped_excluded"},
		{"its account is blocked", nil, nil, map[string]AccountFigures{"b-1": gone}, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_blocked"},
		{"all its accounts are blocked", nil, nil, map[string]AccountFigures{"b-1": gone, "b-2": gone}, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_blocked"},
		{"its account is dead", nil, nil, map[string]AccountFigures{"b-1": {}}, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_dead"},
		{"full", nil, figures{"b": full}, nil, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_full"},
		{"its account is full", nil, nil, map[string]AccountFigures{"b-1": {Active: true, Held: 1, Slots: 1}}, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_full"},
		{"full like all others: it waits where its cache is", nil, figures{"a": full, "b": full, "c": full}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"slow", nil, figures{"b": slow}, nil, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_slow"},
		{"slow like all others", nil, figures{"a": slow, "b": slow, "c": slow}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"slow, and the others full", nil, figures{"a": full, "b": slow, "c": full}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"slow, but nobody minds", [][]catalog.Resource{setting("affinity.escape_ttft", "0")}, figures{"b": slow}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"failing", nil, figures{"b": bad}, nil, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_failing"},
		{"failing, but nobody minds", [][]catalog.Resource{setting("affinity.escape_failures", "0")}, figures{"b": bad}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"removed", nil, nil, nil, Query{Session: bound("x", "x-1")}, "a[a-1 a-2]", "affinity_escaped_gone"},
		{"its account removed", nil, nil, nil, Query{Session: bound("b", "b-9")}, "a[a-1 a-2]", "affinity_escaped_gone"},
		{"off", [][]catalog.Resource{setting("affinity.mode", "off")}, nil, nil, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", ""},
		{"leading run: the tier wins (E21)", [][]catalog.Resource{setting("affinity.mode", "leading_run")}, nil, nil, Query{Session: bound("b", "b-1")}, "a[a-1 a-2]", "affinity_escaped_tier"},
		{"leading run: first among equals", [][]catalog.Resource{setting("affinity.mode", "leading_run"), up("a2", weight(0), 2)}, nil, nil, Query{Session: bound("a2", "a2-2")}, "a2[a2-2 a2-1]", "affinity_hit"},
		{"leading run: the better tier is out of service", [][]catalog.Resource{setting("affinity.mode", "leading_run")}, figures{"a": open}, nil, Query{Session: bound("b", "b-2")}, "b[b-2 b-1]", "affinity_hit"},
		{"migration: a small session moves up", [][]catalog.Resource{up("m", migration(-1, "tokens", 1001, ""), 1)}, nil, nil, Query{Session: bound("b", "b-1")}, "m[m-1]", "affinity_migrated"},
		{"migration: a large one keeps its cache", [][]catalog.Resource{up("m", migration(-1, "tokens", 1000, ""), 1)}, nil, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"migration, the other direction", [][]catalog.Resource{up("m", migration(-1, "tokens", 1000, "at_or_above"), 1)}, nil, nil, Query{Session: bound("b", "b-1")}, "m[m-1]", "affinity_migrated"},
		{"migration by length", [][]catalog.Resource{up("m", migration(-1, "length", 500, ""), 1)}, nil, nil, Query{Session: bound("b", "b-1"), Length: 499}, "m[m-1]", "affinity_migrated"},
		{"migration by a length that is not known", [][]catalog.Resource{up("m", migration(-1, "length", 500, ""), 1)}, nil, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"migration: not to a full one", [][]catalog.Resource{up("m", migration(-1, "tokens", 2000, ""), 1)}, figures{"m": full}, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
		{"migration: not within a tier or down", [][]catalog.Resource{up("m", migration(1, "tokens", 2000, ""), 1)}, nil, nil, Query{Session: bound("b", "b-1")}, "b[b-1 b-2]", "affinity_hit"},
	} {
		p := plan(snapshot(t, append(append([][]catalog.Resource{}, ab...), c.extra...)...), board{c.ups, c.accs}, c.q)
		first := *p
		first.Candidates, first.Excluded = p.Candidates[:1], nil
		why := c.is
		if why == "" {
			why = p.Candidates[0].Why
		}
		if got := show(&first); got != c.want+":"+why || p.Affinity != c.is {
			t.Errorf("%s: %s, %s; want %s %s", c.name, show(p), p.Affinity, c.want, c.is)
		}
	}
}

func TestAffinityLosesAndDoublesNoCandidate(t *testing.T) {
	snap := snapshot(t, up("a", nil, 2), up("b", priority(1), 2), up("c", priority(2), 1))
	p := plan(snap, board{}, Query{Session: bound("c", "c-1")})
	if show(p) != "c[c-1]:affinity_hit a[a-1 a-2]:single_candidate_remaining b[b-1 b-2]:single_candidate_remaining" {
		t.Error(show(p))
	}
}

// sub2api#2991: what only one account can go on with is served by it or refused.
func TestAPinIsServedByItsAccountOrRefused(t *testing.T) {
	open := map[string]Figures{"b": {Breaker: Open, Until: now.Add(time.Minute)}}
	pin := func(p affinity.Pin) Query {
		l := bound("b", "b-2")
		l.Pin = p
		return Query{Session: l}
	}
	resources := [][]catalog.Resource{up("a", nil, 2), up("b", priority(1), 2)}
	strict := snapshot(t, resources...)
	loose := snapshot(t, append(resources, setting("affinity.reasoning", "drop"))...)
	off := snapshot(t, append(resources, setting("affinity.mode", "off"))...)
	for _, c := range []struct {
		name         string
		snap         *catalog.Snapshot
		live         board
		q            Query
		want, origin string
	}{
		{"a continuation", strict, board{}, pin(affinity.PinContinuation), "b[b-2]:affinity_pinned | a=pinned_elsewhere", ""},
		{"also without affinity", off, board{}, pin(affinity.PinContinuation), "b[b-2]:affinity_pinned | a=pinned_elsewhere", ""},
		{"it may wait for a full one", strict, board{upstreams: map[string]Figures{"b": {Held: 1, Slots: 1}}}, pin(affinity.PinContinuation), "b[b-2]:affinity_pinned | a=pinned_elsewhere", ""},
		{"a blocked one is its last resort", strict, board{accounts: map[string]AccountFigures{"b-2": {Active: true, BlockedUntil: now.Add(1)}}}, pin(affinity.PinContinuation), "b[b-2]:affinity_pinned | a=pinned_elsewhere", ""},
		{"out of service: refused", strict, board{upstreams: open}, pin(affinity.PinContinuation), "| b=circuit_open a=pinned_elsewhere", ""},
		{"dead: refused", strict, board{accounts: map[string]AccountFigures{"b-2": {}}}, pin(affinity.PinContinuation), "| b=no_account a=pinned_elsewhere", ""},
		{"reasoning", strict, board{}, pin(affinity.PinReasoning), "b[b-2]:affinity_pinned | a=pinned_elsewhere", "b-2"},
		{"reasoning, out of service: refused", strict, board{upstreams: open}, pin(affinity.PinReasoning), "| b=circuit_open a=pinned_elsewhere", "b-2"},
		{"reasoning that may be dropped", loose, board{}, pin(affinity.PinReasoning), "b[b-2 b-1]:affinity_hit a[a-1 a-2]:single_candidate_remaining", "b-2"},
		{"reasoning that must be dropped", loose, board{upstreams: open}, pin(affinity.PinReasoning), "a[a-1 a-2]:affinity_escaped_circuit_open | b=circuit_open", "b-2"},
		{"a compaction cannot be dropped", loose, board{upstreams: open}, pin(affinity.PinCiphertext), "| b=circuit_open a=pinned_elsewhere", ""},
	} {
		p := plan(c.snap, c.live, c.q)
		if show(p) != c.want || p.Origin != c.origin {
			t.Errorf("%s:\ngot  %s of %q\nwant %s", c.name, show(p), p.Origin, c.want)
		}
		if len(p.Candidates) == 0 && (p.Refusal.Reason != failure.ContinuationPinned || p.Refusal.Status != 503 || p.Affinity != WhyPinned) {
			t.Errorf("%s: %+v", c.name, p.Refusal)
		}
	}
	if p := plan(strict, board{upstreams: open}, pin(affinity.PinContinuation)); p.Refusal.RetryAfter != time.Minute {
		t.Errorf("retry after %v", p.Refusal.RetryAfter)
	}
}

func TestAPlanWithAffinityDoesNotAllocate(t *testing.T) {
	snap := snapshot(t, up("a", nil, 2), up("b", priority(1), 2), up("m", migration(-1, "tokens", 1, ""), 1))
	var p Plan
	var live Live = board{upstreams: map[string]Figures{"b": {TTFT: time.Minute}}}
	for _, l := range []affinity.Lookup{bound("b", "b-2"), bound("a", "a-2"), bound("x", "x")} {
		q := Query{Capability: "openai_chat_compatible", Key: snap.Key("all"), Now: now, Model: "x", Session: l}
		Make(&q, snap, live, &p)
		if n := testing.AllocsPerRun(100, func() { Make(&q, snap, live, &p) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
