package routing

import (
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
)

// tally counts why upstreams fell out.
type tally struct {
	pool, granted, matched, open int
	until                        time.Time // earliest end of an open breaker or a block
}

// soon keeps the earliest time at which something comes back.
func (t *tally) soon(until, now time.Time) {
	if until.After(now) && (t.until.IsZero() || until.Before(t.until)) {
		t.until = until
	}
}

// merge adds what the second pool says to a first one that nobody could serve from.
func (t *tally) merge(second tally) {
	t.pool, t.granted, t.matched, t.open = t.pool+second.pool, t.granted+second.granted, t.matched+second.matched, t.open+second.open
	if t.until.IsZero() || !second.until.IsZero() && second.until.Before(t.until) {
		t.until = second.until
	}
}

// refuse says why there is no candidate.
func (m *maker) refuse(t tally) {
	code, reason := failure.AllUpstreamsUnavailable, failure.NoHealthyCandidates
	switch {
	case m.snap.ActiveUpstreams() == 0:
		code, reason = failure.NoUpstreamsConfigured, ""
	case m.grant.NoAccounts:
		code, reason = failure.NoAccountsInGroup, ""
	case t.pool == 0:
		reason = failure.CapabilityNotSupported
	case t.granted == 0:
		code, reason = failure.NoAuthorizedUpstreams, ""
	case m.unknownModel():
		code, reason = failure.UnknownModel, ""
	case m.pin:
		reason = failure.ContinuationPinned
	case t.matched == 0:
		reason = failure.ModelNotAllowed
	case t.open == t.matched:
		reason = failure.UpstreamCircuitOpen
	}
	m.Refusal = failure.New(code, reason).WithUntil(t.until, m.q.Now)
	if reason == failure.ContinuationPinned {
		m.Affinity = WhyPinned
	}
	if t.granted == t.pool {
		return
	}
	for _, u := range m.snap.Pool(m.Capability) {
		if m.inScope(u) && !m.grant.Upstream(u) {
			m.exclude(u.ID, NotGranted)
		}
	}
}

// unknownModel says that only public names are served and this is none of the key's (E14).
func (m *maker) unknownModel() bool {
	return m.set.PublicOnly && m.name.Model != "" && m.name.Upstream == nil && !m.snap.Lists(m.q.Key, m.name.Model)
}

// inScope says that the name of the model does not select another upstream.
func (m *maker) inScope(u *catalog.CompiledUpstream) bool {
	return m.name.Upstream == nil || m.name.Upstream == u
}
