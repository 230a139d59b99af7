package routing

import (
	"slices"

	"github.com/penstock/penstock/domain/catalog"
)

// Why a bound account was not taken. The binding stays until another account has served the session.
const (
	escapeFull = "full"    // no free slot, and another candidate has one
	escapeSlow = "slow"    // its time to the first content is above affinity.escape_ttft, and that of another is not
	escapeFail = "failing" // its share of failures is at affinity.escape_failures, and that of another is not
	escapeTier = "tier"    // leading_run: a better tier, or a healthier candidate, is there
	escapeGone = "gone"    // the upstream or account is no more, or not in the pool
)

// escapes are the values of Plan.Affinity and Candidate.Why for each reason.
var escapes = map[string]string{
	escapeFull: "affinity_escaped_full", escapeSlow: "affinity_escaped_slow", escapeFail: "affinity_escaped_failing",
	escapeTier: "affinity_escaped_tier", escapeGone: "affinity_escaped_gone",
	NotGranted: "affinity_escaped_not_granted", ModelNotAllowed: "affinity_escaped_model_not_allowed",
	CircuitOpen: "affinity_escaped_circuit_open", Excluded: "affinity_escaped_excluded", NoAccount: "affinity_escaped_no_account",
	AccountDisabled: "affinity_escaped_disabled", AccountExpired: "affinity_escaped_expired", AccountDead: "affinity_escaped_dead",
	AccountBlocked: "affinity_escaped_blocked", ModelBlocked: "affinity_escaped_model_blocked",
}

// bind puts the candidate of the session's account first, unless it is to be left for a reason (C56-C58, B13, E21).
func (m *maker) bind() {
	b := &m.q.Session.Binding
	if b.IsZero() {
		return
	}
	if m.pin {
		m.say(WhyPinned)
		return
	}
	mode := m.snap.AffinityOf(m.q.Key)
	if mode == catalog.AffinityOff && m.Origin == "" {
		return
	}
	at := slices.IndexFunc(m.Candidates, func(c Candidate) bool { return c.Upstream.ID == b.Upstream })
	account := -1
	if at >= 0 {
		account = slices.Index(m.Candidates[at].Accounts, b.Account)
	}
	if account < 0 || m.Candidates[at].LastResort {
		m.escape(m.lost)
		return
	}
	c := &m.Candidates[at]
	if reason := m.leaves(c); reason != "" {
		m.escape(reason)
		return
	}
	if mode == catalog.AffinityLeadingRun {
		if !m.leads(at) {
			m.escape(escapeTier)
			return
		}
	} else if up := m.migrates(c.Tier); up >= 0 {
		m.first(up)
		m.say(WhyMigrated)
		return
	}
	front(c.Accounts, account)
	m.first(at)
	m.say(WhyBound)
}

// leaves says why the bound candidate is to be left, "" for not at all. There must be somebody better to go to: a
// session gains nothing from leaving a full upstream for another full one.
func (m *maker) leaves(c *Candidate) string {
	f := m.live.Account(m.q.Session.Binding.Account)
	full := c.full || f.full()
	ttft, failures := max(c.ttft, f.TTFT), max(c.failures, f.Failures)
	slow := m.set.EscapeTTFT > 0 && ttft > m.set.EscapeTTFT
	failing := m.set.EscapeFailures > 0 && failures >= m.set.EscapeFailures
	if !full && !slow && !failing {
		return ""
	}
	for i := range m.Candidates {
		o := &m.Candidates[i]
		if o == c && (!full || c.full || len(c.Accounts) < 2) || o.LastResort || o.full || !o.account {
			continue
		}
		switch {
		case full:
			return escapeFull
		case slow && o.ttft <= m.set.EscapeTTFT:
			return escapeSlow
		case failing && o.failures < m.set.EscapeFailures:
			return escapeFail
		}
	}
	return ""
}

// leads says that a candidate is among the equals of the first one: same tier, same health.
func (m *maker) leads(at int) bool {
	a, b := &m.Candidates[0], &m.Candidates[at]
	return a.Tier == b.Tier && (a.full || !a.account) == (b.full || !b.account) && a.Capability == b.Capability
}

// migrates finds the upstream of a better tier that the session moves up to: the first that wants sessions and has a
// free slot decides (C58); -1 when there is none.
func (m *maker) migrates(tier int) int {
	for i := range m.Candidates {
		c := &m.Candidates[i]
		want := c.Upstream.AffinityMigration
		if c.Tier >= tier || c.LastResort || c.full || !c.account || want == nil || !want.Enabled {
			continue
		}
		if want.Moves(m.q.Session.Binding.Tokens, m.q.Length) {
			return i
		}
		return -1
	}
	return -1
}

// escape leaves the order as it is and says why.
func (m *maker) escape(reason string) {
	why, known := escapes[reason]
	if !known {
		why = escapes[escapeGone]
	}
	if c := &m.Candidates[0]; c.Why == WhyProbe {
		m.Affinity = why // that it is a probe says more of who is first instead
		return
	}
	m.say(why)
}

// say notes the outcome, and why the first candidate is first.
func (m *maker) say(why string) { m.Affinity, m.Candidates[0].Why = why, why }

func (m *maker) first(at int) { front(m.Candidates, at) }

// front moves one element to the front; the others keep their order.
func front[T any](list []T, at int) {
	v := list[at]
	copy(list[1:at+1], list[:at])
	list[0] = v
}
