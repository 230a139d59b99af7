package actors

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/gate"
)

// ErrNoLease says that a request holds no slot where it was looked for.
var ErrNoLease = errors.New("holds no slot")

// FreedLease tells what became of a slot that an operator wanted back.
type FreedLease struct {
	RequestID string    `json:"request_id"`
	Attempt   int       `json:"attempt"`
	Key       string    `json:"key"`
	Account   string    `json:"account"` // "" while granting
	Since     time.Time `json:"since"`
	Freed     bool      `json:"freed"` // false: its attempt was cut, but has not ended yet
}

// recallLease asks for a slot back.
type recallLease struct {
	quiet
	request string
	attempt int // 0: whichever holds one
	reason  string
	reply   chan *recalled // of capacity 1; nil: the actor failed
}

// recalled is the answer. Its zero value: there is no such lease.
type recalled struct {
	holder gate.Holder
	cut    *Gone           // ends the attempt; nil: it ends by itself, or its owner cannot be reached
	free   <-chan struct{} // closed when the slot is free
}

// Free takes a slot back by hand. Its attempt is cut first, whatever it hangs on; the slot is freed when the attempt has
// ended, so that the upstream never has more calls than slots. attempt 0 is the one that holds it. It returns when the slot is
// free or ctx ends. ErrNoLease when there is no such holder; another error when the upstream is not known. A holder that has
// no Want.Recall is only noted.
func (s *System) Free(ctx context.Context, upstream, request string, attempt int, reason string) (FreedLease, error) {
	r, no := s.upstream(upstream)
	if no != nil {
		return FreedLease{}, errors.Newf("upstream %q is not known", upstream)
	}
	m := &recallLease{request: request, attempt: attempt, reason: reason, reply: make(chan *recalled, 1)}
	s.send(r.pid, m)
	is := answered(m.reply, r.gone, nil)
	switch {
	case is == nil:
		return FreedLease{}, errors.Wrapf(reasonError(LocalFault), "upstream %q", upstream)
	case is.free == nil:
		return FreedLease{}, errors.Wrapf(ErrNoLease, "request %s at upstream %s", request, upstream)
	}
	if is.cut != nil {
		is.cut.Fire()
	}
	h := &is.holder
	f := FreedLease{RequestID: h.ID.Request, Attempt: h.ID.Attempt, Key: h.Key, Account: h.Account, Since: h.Since}
	select {
	case <-is.free:
		f.Freed = true
	case <-r.gone:
		f.Freed = true
	case <-ctx.Done():
	}
	return f, nil
}

// recall notes that a slot is wanted back. One that is only set aside is given back by its grant.
func (u *upstreamDesk) recall(m *recallLease) *recalled {
	var id LeaseID
	for h := range u.gate.Holders {
		if h.ID.Request == m.request && (m.attempt == 0 || m.attempt == h.ID.Attempt) {
			id = h.ID
		}
	}
	h, _ := u.gate.Evict(id, m.reason)
	if h == nil {
		return &recalled{}
	}
	is := &recalled{holder: *h, free: u.awaited(id)}
	if g := u.pending.find(id); g == nil {
		is.cut, _ = h.Tag.(*Gone)
	} else if g.void == "" {
		g.void = Recalled
	}
	return is
}

// awaited is closed when a slot is free.
func (u *upstreamDesk) awaited(id LeaseID) <-chan struct{} {
	if u.recalls == nil {
		u.recalls = map[LeaseID]chan struct{}{}
	}
	free := u.recalls[id]
	if free == nil {
		free = make(chan struct{})
		u.recalls[id] = free
	}
	return free
}

// gone tells who waits for a slot that it is free.
func (u *upstreamDesk) gone(id LeaseID) {
	if free := u.recalls[id]; free != nil {
		close(free)
		delete(u.recalls, id)
	}
}
