package postgres

import (
	"slices"

	"github.com/penstock/penstock/events"
)

// doubt is a commit whose connection was lost before its answer came. The hash of its link covers all its rows and
// all before it, so that the link in the table can only be this commit: whoever holds the append lock (the lost
// session has then ended) looks there and knows.
type doubt struct {
	end     chain
	appends []*past
}

// past is an append with rows that the store has numbered. The places of others tell by themselves whether they are
// stored; this one would be stored again, at the next version, if the store did not recall it.
type past struct {
	rows    []placed
	secrets []events.Secret
}

func (p *past) versions() []int64 {
	versions := make([]int64, len(p.rows))
	for i := range p.rows {
		versions[i] = p.rows[i].version
	}
	return versions
}

// recallMax bounds the appends that wait for their repetition; beyond it the oldest knowledge goes first.
const recallMax = 1 << 13

// decided ends the doubt. What went through is kept until it is repeated, which its caller does soon, or never.
func (s *Store) decided(wentThrough bool) {
	d := s.doubt
	s.doubt = nil
	if !wentThrough {
		return
	}
	n := len(d.appends)
	for _, list := range s.stored {
		n += len(list)
	}
	if n > recallMax {
		clear(s.stored)
	}
	for _, p := range d.appends {
		stream := p.rows[0].Stream
		s.stored[stream] = append(s.stored[stream], p)
	}
}

// unnumbered are the group's appends with rows that came without a version.
func (g *group) unnumbered() (list []*past) {
	next := 0 // of the draft's rows
	for i := range g.batch {
		a := &g.batch[i]
		if next == len(g.rows) || g.results[i].First != g.rows[next].position {
			continue // nothing of it is in the draft
		}
		from := next
		next += len(a.Rows)
		if g.numbers[i] == nil {
			continue
		}
		p := &past{secrets: slices.Clone(a.Secrets)}
		for _, r := range g.rows[from:next] {
			was := *r.Row // the caller may write to its own
			r.Row = &was
			p.rows = append(p.rows, r)
		}
		list = append(list, p)
	}
	return list
}

// recall finds an append that went through in a commit that was in doubt. Each is found once.
func (g *group) recall(a *events.Append) *past {
	for _, p := range g.s.stored[a.Rows[0].Stream] {
		if !slices.Contains(g.recalled, p) && g.is(p, a) {
			g.recalled = append(g.recalled, p)
			return p
		}
	}
	return nil
}

// is says that a has the same content as p in all its rows.
func (g *group) is(p *past, a *events.Append) bool {
	if len(p.rows) != len(a.Rows) || len(p.secrets) != len(a.Secrets) {
		return false
	}
	for i := range a.Rows {
		r, was := &a.Rows[i], &p.rows[i]
		if r.Version != was.Version || g.hash(r, was.version, was.position) != was.hash {
			return false
		}
	}
	for i := range a.Secrets {
		if !sameSecret(&p.secrets[i], &a.Secrets[i]) {
			return false
		}
	}
	return true
}

// forget drops an append that was repeated.
func (s *Store) forget(p *past) {
	stream := p.rows[0].Stream
	rest := slices.DeleteFunc(s.stored[stream], func(q *past) bool { return q == p })
	if s.stored[stream] = rest; len(rest) == 0 {
		delete(s.stored, stream)
	}
}
