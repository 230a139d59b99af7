package request

import (
	"cmp"
	"time"
)

// Attempt is one try as its facts told it.
type Attempt struct {
	Dispatched Dispatched
	At         time.Time
	Failed     *Failed // nil while running, and for the final attempt
}

// Story is the fold of one request's facts. Projections read it beside the fact that just came, so that facts need
// not repeat what an earlier one said. The zero value is a request of which nothing is known.
type Story struct {
	ID         string
	AdmittedAt time.Time
	Rejected   *Rejected
	Admitted   *Admitted
	Queued     *Queued
	Resumed    *Resumed
	Attempts   []Attempt
	Progressed *Progressed
	Settled    *Settled
	EndedAt    time.Time
	Facts      int64 // seen, = version of the stream
}

// Evolve folds one fact that happened at the given time into the story. It is total: an unknown fact changes only the
// count.
func (s *Story) Evolve(fact any, at time.Time) {
	s.Facts++
	switch f := fact.(type) {
	case *Rejected:
		s.Rejected, s.AdmittedAt, s.EndedAt = f, at, at
	case *Admitted:
		s.Admitted, s.AdmittedAt = f, at
	case *Queued:
		s.Queued = f
	case *Resumed:
		s.Resumed = f
	case *Dispatched:
		s.Attempts = append(s.Attempts, Attempt{Dispatched: *f, At: at})
	case *Failed:
		if i := f.N - 1; i >= 0 && i < len(s.Attempts) {
			s.Attempts[i].Failed = f
		}
	case *Progressed:
		s.Progressed = f
	case *Settled:
		s.Settled, s.EndedAt = f, at
	case *Repriced:
		for i := range f.Changes {
			s.reprice(&f.Changes[i])
		}
	}
}

// reprice changes what an attempt costs in copies: the facts are not the story's.
func (s *Story) reprice(c *Repricing) {
	if failed := s.Failed(c.N); failed != nil {
		f := *failed
		f.PriceVersion, f.PriceOrigin, f.Inherited = c.Is.PriceVersion, c.Is.PriceOrigin, c.Is.Inherited
		f.UpstreamCost, f.Cost, f.Unpriced = c.Is.UpstreamCost, c.Is.Cost, c.Is.Unpriced
		f.UnpricedReason = unlessPriced(f.UnpricedReason, c.Is)
		s.Attempts[c.N-1].Failed = &f
		return
	}
	if s.Settled != nil {
		f := *s.Settled
		f.PriceVersion, f.PriceOrigin, f.Inherited = c.Is.PriceVersion, c.Is.PriceOrigin, c.Is.Inherited
		f.UpstreamCost, f.Cost, f.Unpriced = c.Is.UpstreamCost, c.Is.Cost, c.Is.Unpriced
		f.UnpricedReason = unlessPriced(f.UnpricedReason, c.Is)
		s.Settled = &f
	}
}

func unlessPriced(reason string, is Charge) string {
	if is.Unpriced {
		return reason
	}
	return ""
}

// Ended says that the terminal fact has been seen.
func (s *Story) Ended() bool { return s.Settled != nil || s.Rejected != nil }

// Failed is the fact of attempt n that failed on its own; nil when its end is that of the request, and of every other number.
func (s *Story) Failed(n int) *Failed {
	if n < 1 || n > len(s.Attempts) {
		return nil
	}
	return s.Attempts[n-1].Failed
}

// Sent is the dispatch of attempt n, as a Repricing counts them: 0 is the last one. The zero value when the story does not
// tell of it.
func (s *Story) Sent(n int) Dispatched {
	if n == 0 {
		n = len(s.Attempts)
	}
	if n < 1 || n > len(s.Attempts) {
		return Dispatched{}
	}
	return s.Attempts[n-1].Dispatched
}

// PricedModel is the model that an attempt is priced and billed by, of a request that asked for one.
func (d *Dispatched) PricedModel(asked string) string { return cmp.Or(d.ResolvedModel, asked) }

// Unpriced says that an attempt was used and has no price.
func (s *Story) Unpriced() bool {
	for i := range s.Attempts {
		if f := s.Attempts[i].Failed; f != nil && f.Unpriced {
			return true
		}
	}
	return s.Settled != nil && s.Settled.Unpriced
}

// Final is the last attempt, nil when nothing was sent.
func (s *Story) Final() *Attempt {
	if len(s.Attempts) == 0 {
		return nil
	}
	return &s.Attempts[len(s.Attempts)-1]
}

// PaidBy is whose money the request spends, see Admitted.
func (s *Story) PaidBy() string {
	if s.Admitted == nil {
		return ""
	}
	return s.Admitted.PaidBy
}

// Ask is what the client wanted.
func (s *Story) Ask() Ask {
	switch {
	case s.Admitted != nil:
		return s.Admitted.Ask
	case s.Rejected != nil:
		return s.Rejected.Ask
	}
	return Ask{}
}
