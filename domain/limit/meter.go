package limit

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// Money is what an operator allows one owner to spend. All rules must hold. The zero value allows everything.
type Money struct {
	Mode  Mode
	Rules []Rule
}

// meter is the one machine of everything that money limits: what was spent under each rule, and what is set aside for
// requests that are running.
type meter struct {
	mode     Mode
	sums     []sum
	reserved money.Amount
	blind    bool // what was spent before could not be read: see Unread
}

// configure sets other rules. A rule whose period was there before keeps its sum, whatever its limit is now. A new one
// counts from now on; then it says true: what was spent before must be told by fill.
func (m *meter) configure(p Money, since int64) (missing bool) {
	m.mode = p.Mode
	sums := make([]sum, 0, len(p.Rules))
	for _, r := range p.Rules {
		r = r.whole()
		if i := slices.IndexFunc(sums, func(s sum) bool { return s.same(r.Period) }); i >= 0 {
			sums[i].Limit = min(sums[i].Limit, r.Limit)
			continue
		}
		s := newSum(r, since)
		if old := m.sum(r.Period); old != nil {
			s = *old
			s.Limit = r.Limit
		}
		missing = missing || s.since != math.MinInt64
		sums = append(sums, s)
	}
	m.sums = sums
	return missing
}

func (m *meter) sum(p Period) *sum {
	for i := range m.sums {
		if m.sums[i].same(p) {
			return &m.sums[i]
		}
	}
	return nil
}

func (m *meter) limited() bool { return len(m.sums) > 0 }

// spend counts a settlement.
func (m *meter) spend(at int64, a money.Amount) {
	if a == 0 {
		return
	}
	for i := range m.sums {
		if s := &m.sums[i]; at >= s.since {
			s.add(at, a)
		}
	}
}

// fill counts what was spent before a rule was there.
func (m *meter) fill(at int64, a money.Amount) {
	for i := range m.sums {
		if s := &m.sums[i]; at < s.since {
			s.add(at, a)
		}
	}
}

// lacks says that a strict limit does not know yet all that was spent.
func (m *meter) lacks() bool {
	return m.mode == Strict && slices.ContainsFunc(m.sums, func(s sum) bool { return s.since != math.MinInt64 })
}

// unread lets the sums that miss something begin anew at a time: what was told of them is told again, to the end.
func (m *meter) unread(since int64) {
	m.blind = true
	for i := range m.sums {
		if s := &m.sums[i]; s.since != math.MinInt64 {
			*s = newSum(s.Rule, since)
		}
	}
}

// filled says that nothing is missing any more.
func (m *meter) filled() {
	m.blind = false
	for i := range m.sums {
		m.sums[i].since = math.MinInt64
	}
}

// missing is how much of the past the sums still miss. A sum misses nothing of what was settled since it is there.
func (m *meter) missing(now time.Time) Past {
	at := now.UnixMicro()
	of := Past{Since: micro(at)}
	for i := range m.sums {
		s := &m.sums[i]
		if s.since == math.MinInt64 {
			continue
		}
		from := min(at, s.since)
		switch s.Kind {
		case Total:
			of.Whole = true
		case Rolling:
			from = min(from, at-s.length()-s.width)
		default:
			start, _ := s.bounds(at)
			from = min(from, start)
		}
		of = of.With(Past{Since: micro(from)})
	}
	return of
}

// need is how much must be free for a request: its worst case when the account is strict; else that the limit is not
// reached yet.
func (m *meter) need(worst money.Amount) money.Amount {
	if m.mode == Strict {
		return worst
	}
	return smallest
}

const (
	smallest money.Amount = 1
	worstMax money.Amount = 1 << 62 // so that differences have room
)

// room says whether need is free, without what the request itself has set aside already. The refusal has no code yet.
func (m *meter) room(need, own money.Amount, now int64) (ok bool, no Refusal) {
	if m.blind && m.lacks() {
		return false, Refusal{Reason: ReasonUnread}
	}
	ok = true
	var latest int64
	reserved := m.reserved - own
	for i := range m.sums {
		s := &m.sums[i]
		spent, _ := s.at(now)
		if spent <= s.Limit-reserved-need {
			continue
		}
		opens := s.reopens(s.Limit-reserved-need, now)
		reason := s.Period.String()
		if spent <= s.Limit-need {
			reason = ReasonReserved
		}
		if ok || opens == 0 && latest != 0 || opens > latest && latest != 0 {
			no.Reason, latest = reason, opens
		}
		ok = false
	}
	if !ok && latest != 0 {
		no.Reopens = micro(latest)
	}
	return ok, no
}

// grant sets need aside for a request that holds own already, or says why not: the code of a refusal is code, or that
// the request cannot be bounded. held is what it holds afterwards.
func (m *meter) grant(code Code, owner string, worst, own money.Amount, now int64) (held money.Amount, no Refusal) {
	if !m.limited() {
		m.reserved -= own
		return 0, Refusal{}
	}
	if worst = min(worst, worstMax); worst < 0 {
		if m.mode == Strict {
			return own, Refusal{Code: BudgetUnboundable, Owner: owner}
		}
		worst = 0
	}
	if ok, no := m.room(m.need(worst), own, now); !ok {
		no.Code, no.Owner = code, owner
		return own, no
	}
	m.reserved += worst - own
	return worst, Refusal{}
}

// check is grant without setting anything aside: whether there is anything left.
func (m *meter) check(code Code, owner string, now int64) Refusal {
	if ok, no := m.room(smallest, 0, now); !ok {
		no.Code, no.Owner = code, owner
		return no
	}
	return Refusal{}
}

// Sum is the state of one rule, for people.
type Sum struct {
	Rule     Rule
	Spent    money.Amount
	Reserved money.Amount // for requests that are running; it counts under every rule
	Percent  int          // of the limit that is spent, at most 999
	Exceeded bool         // spent is at the limit or beyond
	ResetsAt time.Time    // end of the present period; zero for Rolling and Total
	Recovers time.Time    // when it is not exceeded any more; zero when it is not exceeded, or nothing is known to open it
}

// views is the state of each rule.
func (m *meter) views(now int64) (list []Sum) {
	for i := range m.sums {
		s := &m.sums[i]
		spent, end := s.at(now)
		v := Sum{Rule: s.Rule, Spent: spent, Reserved: m.reserved, Percent: percent(spent, s.Limit), Exceeded: spent >= s.Limit}
		if end != 0 {
			v.ResetsAt = micro(end)
		}
		if v.Exceeded {
			if at := s.reopens(s.Limit-smallest, now); at != 0 {
				v.Recovers = micro(at)
			}
		}
		list = append(list, v)
	}
	return list
}

func percent(spent, limit money.Amount) int {
	const most = 999
	if spent <= 0 {
		return 0
	}
	if limit <= 0 {
		return most
	}
	high, low := bits.Mul64(uint64(spent), 100)
	if high >= uint64(limit) {
		return most
	}
	q, _ := bits.Div64(high, low, uint64(limit))
	return int(min(q, most))
}

func micro(at int64) time.Time { return time.UnixMicro(at).UTC() }
