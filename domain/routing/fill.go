package routing

import (
	"slices"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
)

// fill makes the candidates of one pool, without those that declare also, whose pool was filled before.
func (m *maker) fill(pool, also dialect.Capability) (t tally) {
	m.draws = m.draws[:0]
	from := len(m.Candidates)
	for _, u := range m.snap.Pool(pool) {
		if !m.inScope(u) || also != "" && slices.Contains(u.Capabilities, also) {
			continue
		}
		t.pool++
		if !m.grant.Upstream(u) {
			m.miss(u, NotGranted)
			continue
		}
		t.granted++
		if m.pin && u.ID != m.q.Session.Binding.Upstream {
			continue // told below, so that they do not hide what is wrong with the one that counts
		}
		if n := len(m.Candidates); n > from && m.Candidates[n-1].Tier != u.Priority {
			m.order(from)
			from = n
		}
		m.consider(u, pool, &t)
	}
	m.order(from)
	if m.pin {
		for _, u := range m.snap.Pool(pool) {
			if m.inScope(u) && m.grant.Upstream(u) && u.ID != m.q.Session.Binding.Upstream {
				m.exclude(u.ID, PinnedElsewhere)
			}
		}
	}
	return t
}

// consider makes a candidate of a granted upstream, or says why not.
func (m *maker) consider(u *catalog.CompiledUpstream, pool dialect.Capability, t *tally) {
	match := u.Match(m.name.Model)
	if match.Matched && m.set.PublicOnly && m.name.Model != "" && m.name.Upstream == nil {
		match.Matched = m.snap.Names(u, m.name.Model)
	}
	if !match.Matched {
		m.drop(u, ModelNotAllowed)
		return
	}
	t.matched++
	f := m.live.Upstream(u.ID)
	probing, reason := breaker(&f, m.q.Now)
	if reason == "" && slices.Contains(m.q.Exclude, u.ID) {
		reason = Excluded
	}
	if reason == CircuitOpen {
		t.open++
		t.soon(f.Until, m.q.Now)
	}
	if reason != "" {
		m.drop(u, reason)
		return
	}
	c := Candidate{Upstream: u.Upstream, ResolvedModel: match.Resolved, Redirect: match.Redirect,
		UpstreamModel: u.BodyModel(m.name.Model, match.Resolved), Tier: u.Priority, Why: m.why, Capability: pool,
		full: f.full(), ttft: f.TTFT, failures: f.Failures}
	if c.UpstreamModel == "" && m.name.Upstream != nil {
		c.UpstreamModel = m.name.Model // the body names the upstream too
	}
	got := m.prefer(u, c.Asks(m.q.Model))
	if len(got.accounts) == 0 {
		t.soon(got.blocked, m.q.Now)
		if got.failed {
			m.drop(u, Excluded)
		} else {
			m.drop(u, NoAccount)
		}
		return
	}
	c.Accounts, c.LastResort, c.account = got.accounts, got.last, got.free
	if probing {
		c.Why = WhyProbe
	}
	if got.last {
		c.Why = WhyLastResort
		m.last = append(m.last, c)
		return
	}
	m.free = m.free || !c.full && got.free
	m.draws = append(m.draws, draw{full: c.full || !got.free})
	if m.strategy != catalog.StrategyWeighted { // which needs no more than the candidate has
		m.figures = append(m.figures, figures{f, float64(u.Input), got.quota, got.reset})
	}
	m.Candidates = append(m.Candidates, c)
}

// drop leaves an upstream out.
func (m *maker) drop(u *catalog.CompiledUpstream, reason string) {
	m.miss(u, reason)
	m.exclude(u.ID, reason)
}

// miss notes why the bound account is no candidate; an account's own reason comes first.
func (m *maker) miss(u *catalog.CompiledUpstream, reason string) {
	if m.lost == "" && u.ID == m.q.Session.Binding.Upstream {
		m.lost = reason
	}
}

// breaker says whether an upstream is a probe, or out of service (A41).
func breaker(f *Figures, now time.Time) (probing bool, reason string) {
	switch {
	case f.Breaker == Open && now.Before(f.Until), f.Breaker == HalfOpen && !f.ProbeFree:
		return false, CircuitOpen
	}
	return f.Breaker != Closed, ""
}
