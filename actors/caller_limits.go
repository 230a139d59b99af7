package actors

import (
	"net/netip"
	"slices"
	"time"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// entrance is what the limits of a caller look at.
type entrance struct {
	at      time.Time // of arrival
	tokens  int64     // estimate of the input
	address netip.Addr
}

// limitFault is the code of a limit that could not be asked.
const limitFault limit.Code = "LOCAL_FAULT"

func limited(no limit.Refusal) Refusal {
	return Refusal{Reason: Limited, Until: no.Reopens, Limit: &no}
}

// comesIn looks at the addresses of the key and at all limits, and charges the request to them. Else it has answered.
func (d *callerDesk) comesIn(m *admit, now time.Time) bool {
	b := d.bound[m.key]
	if b != nil {
		tell, ok := b.Use(m.entry.address, now)
		if !ok {
			m.replies <- admitted{refusal: Refusal{Reason: TooManyIPs, Until: b.Opens()}}
			return false
		}
		if tell {
			d.sys.record("access/"+m.key, "", &access.Bound{Key: m.key, Address: access.Site(m.entry.address)}, now)
		}
	}
	no := d.limits.Admit(limit.Request{ID: m.want.ID.Request, Key: m.key, At: m.entry.at, Tokens: m.entry.tokens})
	switch {
	case no.OK():
		return true
	case no.Reason == limit.ReasonUnknown:
		m.refuse(UnknownCaller)
	default:
		m.replies <- admitted{refusal: limited(no)}
	}
	return false
}

// rated says whether a policy has a window of rates.
func rated(p *limit.Policy) bool {
	return p.Rate != limit.Rate{} || slices.ContainsFunc(p.Keys, func(k limit.Key) bool { return k.Rate != limit.Rate{} })
}

// turnBack refuses one that was charged already.
func (d *callerDesk) turnBack(m *admit, r Reason) {
	d.limits.Refund(m.want.ID.Request)
	m.refuse(r)
}

// settle ends what the limits know of a request: at what it has cost, or as if it had never been.
func (d *callerDesk) settle(m *leaveCaller) {
	if !m.paid {
		d.limits.Refund(m.id.Request)
		return
	}
	_, over, ok := d.limits.Settle(m.id.Request, m.bill)
	if ok {
		d.pass(limit.Spent{Key: m.key, At: m.bill.At, Cost: m.bill.Cost, Moved: true})
	}
	if over > 0 {
		d.sys.log.Warn("a request has cost more than was set aside for it", "request_id", m.id.Request, "key", m.key, "over", over.String())
	}
}

// pass tells what a key has spent to whom it has moved, or moves: that one counts it as the key's. A key that is gone may come to
// somebody, too.
func (d *callerDesk) pass(x limit.Spent) {
	list, moving := d.late[x.Key]
	switch heir := d.heirs[x.Key]; {
	case heir != nil:
		d.sys.send(heir, &spendCaller{Spent: x, left: true})
	case moving || d.keys[x.Key] == nil:
		d.late[x.Key] = append(list, x)
	}
}

// bind keeps the addresses of the keys that bound them.
func (d *callerDesk) bind(keys []catalog.Key) {
	was := d.bound
	d.bound = map[string]*access.Bindings{}
	for i := range keys {
		most, window := keys[i].AddressLimit()
		if most == 0 {
			continue
		}
		b := was[keys[i].ID]
		if b == nil {
			b = access.NewBindings(most, window)
		}
		b.Reconfigure(most, window)
		d.bound[keys[i].ID] = b
	}
}

// reserveCaller sets the worst case of all attempts of a request aside.
type reserveCaller struct {
	quiet
	id    string
	worst money.Amount
	reply chan reserved
}

// reserved answers: who of the user's own money pays, or why nobody does.
type reserved struct {
	paidBy  string
	refusal limit.Refusal
}

func unreserved(r Reason) reserved {
	return reserved{refusal: limit.Refusal{Code: limitFault, Reason: string(r)}}
}

func (m *reserveCaller) refuse(r Reason) { tell(m.reply, unreserved(r)) }

// reserve sets the worst case of a request aside at its caller; again with the new total of all its attempts.
func (s *System) reserve(p Pass, worst money.Amount) (paidBy string, no limit.Refusal) {
	m := &reserveCaller{id: p.ID.Request, worst: worst, reply: make(chan reserved, 1)}
	s.send(p.pid, m)
	is := answered(m.reply, p.gone, unreserved(Stopped))
	return is.paidBy, is.refusal
}

// spendCaller counts what was not reserved: the difference that a repricing makes, or what a request has cost whose key has moved
// to another caller meanwhile.
type spendCaller struct {
	quiet
	limit.Spent
	left bool // of such a request
}
