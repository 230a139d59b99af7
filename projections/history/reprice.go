package history

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// repricer prices ended requests anew now and then. It has a chance of its own: all else is the same with it.
type repricer struct {
	rand  *rand.Rand
	facts int64 // that were seen
	rows  int
	open  map[string]*booked
	ended []*booked
	made  int
}

// booked is a request with the row that it began with.
type booked struct {
	request.Booked
	row events.Row
}

// endedMax bounds the requests that may be priced anew: the last ones.
const endedMax = 60

func newRepricer(seed uint64) repricer {
	return repricer{rand: rand.New(rand.NewPCG(seed, 0x72657072696365)), open: map[string]*booked{}}
}

// reprice adds what some request costs now, at about every sixth step. See History.Repriced.
func (w *world) reprice() {
	r := &w.repricer
	for ; r.rows < len(w.out); r.rows++ {
		r.see(&w.out[r.rows].Rows[0])
	}
	if len(r.ended) == 0 || r.rand.IntN(6) > 0 {
		return
	}
	b := r.ended[r.rand.IntN(len(r.ended))]
	row := b.row
	row.Version = b.Facts
	f := r.fact(b)
	if f == nil {
		return
	}
	row.Terminal, row.At, row.Facts = false, w.now, []events.Fact{f}
	w.out = append(w.out, events.Append{Rows: []events.Row{row}})
}

// see follows the requests.
func (r *repricer) see(row *events.Row) {
	at := r.facts + 1
	r.facts += int64(len(row.Facts))
	if !strings.HasPrefix(row.Stream, events.RequestStreams) {
		return
	}
	b := r.open[row.Stream]
	if b == nil {
		if row.Version > 0 { // told behind its end, which is noted already
			return
		}
		b = &booked{row: *row}
		r.open[row.Stream] = b
	}
	for i, f := range row.Facts {
		b.Take(f, at+int64(i), row.At)
	}
	if !row.Terminal {
		return
	}
	delete(r.open, row.Stream)
	if list, err := b.Posted(); err == nil && len(list) > 0 {
		r.ended = append(r.ended, b)
		r.ended = r.ended[max(0, len(r.ended)-endedMax):]
	}
}

// fact makes up what a run has found, and folds it into the story; nil: nothing.
func (r *repricer) fact(b *booked) *request.Repriced {
	list, err := b.Posted()
	if err != nil {
		return nil
	}
	var found pricing.Repriced
	for _, p := range list {
		if r.rand.IntN(4) == 0 {
			continue
		}
		is := pricing.Charge{Version: fmt.Sprintf("p%d", 1+r.rand.IntN(3)), Upstream: money.Amount(r.rand.Int64N(1e9)), Caller: money.Amount(r.rand.Int64N(1e9))}
		c := pricing.Change{N: p.N, Was: p.Charge, Is: is, Origin: pricing.Manual, Upstream: is.Upstream - p.Charge.Upstream, Caller: is.Caller - p.Charge.Caller}
		found.Changes = append(found.Changes, c)
		found.Upstream, found.Caller = found.Upstream+c.Upstream, found.Caller+c.Caller
	}
	f := b.Reprice(fmt.Sprintf("run-%d", 1+r.made/20), &found)
	if f == nil {
		return nil
	}
	r.made++
	b.Take(f, 0, b.row.At)
	return f
}
