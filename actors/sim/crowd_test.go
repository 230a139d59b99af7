package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// Every eighth world is a crowd: one or two upstreams with next to no slots, long queues, and keys of different weights, each
// of which nearly always has somebody there. Upstreams fail, clients go away and slots come and go, but whoever waits may be
// served by whatever frees; so the shares of the keys are a law there. One crowd in three is served in the order of arrival, by
// classes that age.
const (
	crowdEvery = 8
	crowdLong  = 32 * time.Millisecond // of each part of an answer, at most
)

// crowdStatuses are failures that block no account.
var crowdStatuses = []int{400, 404, 500, 502, 503}

func (w *world) furnishCrowd() {
	d := w.dice
	w.level = []actors.Durability{actors.AtDispatch, actors.Overlapped, actors.Relaxed, actors.AtSettlement}[d.IntN(4)]
	w.polls, w.quiet = true, d.IntN(3) == 0
	w.apply(&catalog.Price{Model: "*", Input: "1", Output: "2"},
		&catalog.Setting{Name: "affinity.mode", Value: []string{"bound_wins", "off"}[d.IntN(2)]})
	queue := catalog.Queue{Enabled: true, Timeout: catalog.Duration(time.Minute), Discipline: "fair"}
	ranks := []string{"high"} // of which all are the first, so that nobody ages
	if d.IntN(3) == 0 {
		queue.Discipline, queue.AgeEvery = "fifo", span(d, 50*time.Millisecond, 500*time.Millisecond)
		ranks = []string{"high", "", "low"}
	}
	for i := range 1 + d.IntN(2) {
		u := &catalog.Upstream{
			ID: string(rune('a' + i)), Active: true, Weight: 1, Capabilities: capabilities, BaseURL: fmt.Sprintf("http://%c.test", 'a'+i),
			Slots: count(1 + d.IntN(2)), OnDisconnect: "cancel",
			Breaker: catalog.Breaker{Failures: 1_000_000, Successes: 1, OpenFor: catalog.Duration(time.Second), ProbeEvery: catalog.Duration(time.Second)},
			Queue:   &queue,
		}
		a := &catalog.Account{ID: u.ID + "1", Upstream: u.ID, SecretVersion: 1, Active: true, Masked: catalog.Mask("secret-of-" + u.ID + "1")}
		w.ups, w.accs = append(w.ups, u), append(w.accs, a)
		w.apply(u, a)
	}
	for i := range 2 + d.IntN(3) {
		k := &catalog.Key{ID: fmt.Sprint("k", i), Access: "unrestricted", Hash: fmt.Sprintf("sha256:%064x", i+1), Weight: count(1 + d.IntN(5))}
		k.Priority = ranks[d.IntN(len(ranks))]
		w.keys = append(w.keys, k)
		w.apply(k)
	}
}

// crowdGap is short: as a rule, who waits at one look still waits at the next.
func (w *world) crowdGap() time.Duration {
	return time.Duration(w.dice.Int64N(int64(40 * time.Millisecond)))
}

func (w *world) crowdStep() {
	d := w.dice
	switch n := d.IntN(100); {
	case len(w.clients) == 0:
		w.take() // all that there are, so that several upstreams can become free at once
		w.arrive(30)
	case n < 40:
		w.arrive(8)
	case n < 45:
		w.take()
	case n < 55:
		w.letGo(2 + d.IntN(4))
	case w.quiet:
	case n < 65:
		w.abort()
	case n < 70:
		w.recall()
	case n < 75: // by turns so many that an upstream serves a whole row, and another one meanwhile, and next to none
		w.resize(func() *int { return count(1 + d.IntN(2)*d.IntN(8)) })
	case n < 80:
		w.echo()
	}
}

// pair is two keys that wait at one upstream, a before b.
type pair struct{ upstream, a, b string }

// spell is how many of two keys were served while both have waited without a pause.
type spell struct{ a, b uint64 }

// inTurn: while two keys wait, each gets its share. How often they were served, divided by their weights, differs by one
// turn of each at most.
func (l *law) inTurn(was, is lookAt) {
	for i := range l.w.keys {
		for j := range i {
			a, b := l.w.keys[j], l.w.keys[i]
			p := pair{is.ID, a.ID, b.ID}
			if !l.stays(was, is, a.ID) || !l.stays(was, is, b.ID) {
				delete(l.spells, p)
				continue
			}
			s := l.spells[p]
			if s == nil {
				s = &spell{}
				l.spells[p] = s
			}
			s.a += served(is, a.ID) - served(was, a.ID)
			s.b += served(is, b.ID) - served(was, b.ID)
			wa, wb := uint64(a.FairWeight()), uint64(b.FairWeight())
			if turns := wa + wb; s.a*wb > s.b*wa+turns || s.b*wa > s.a*wb+turns {
				l.fault("while both waited at %s, %s (weight %d) was served %d times and %s (weight %d) %d times", is.ID, a.ID, wa, s.a, b.ID, wb, s.b)
			}
		}
	}
}

// stays says that a key has waited all the time between two looks, because one of its requests has.
func (l *law) stays(was, is lookAt, key string) bool {
	return slices.ContainsFunc(was.Waiting, func(p actors.WaitingPlace) bool { return p.Key == key && waits(is, p) })
}

func served(st lookAt, key string) uint64 {
	for _, s := range st.Shares {
		if s.Key == key {
			return s.Served
		}
	}
	return 0
}
