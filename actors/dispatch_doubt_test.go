package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// The answer to an append is lost while the store may refuse: whether the append was stored or not, what it announces is not
// done, the client is refused, and the log says so once the store is back. The request is never left open.
func TestAnAppendInDoubtEndsAsRefusedWhetherItWasStoredOrNot(t *testing.T) {
	for _, c := range []struct {
		name, types string
		queued      bool
		unstored    string
		stored      string
		calls       int
	}{
		{"first dispatch", "request.admitted attempt.dispatched", false,
			"rejected(503 STORE_UNAVAILABLE)",
			"admitted dispatched(1 a1) | settled(rejected 503 STORE_UNAVAILABLE local_fault none)", 0},
		{"second dispatch", "attempt.failed attempt.dispatched", false,
			"admitted dispatched(1 a1) | settled(failed 503 STORE_UNAVAILABLE http_5xx none)",
			"admitted dispatched(1 a1) | failed(1 http_5xx next_upstream) dispatched(2 b1) | settled(failed 503 STORE_UNAVAILABLE local_fault none)", 1},
		{"the queue", "request.admitted request.queued", true,
			"rejected(503 STORE_UNAVAILABLE)",
			"admitted queued | settled(rejected 503 STORE_UNAVAILABLE none)", 1},
		{"dispatch after the queue", "request.resumed attempt.dispatched", true,
			"admitted queued | resumed settled(rejected 503 STORE_UNAVAILABLE none)",
			"admitted queued | resumed dispatched(1 a1) | settled(rejected 503 STORE_UNAVAILABLE local_fault none)", 1},
	} {
		for i := range 4 {
			stored, level := i%2 == 1, []actors.Durability{actors.AtDispatch, actors.AtSettlement}[i/2]
			for _, again := range []int{0, 3} { // how often the end is in doubt, too
				t.Run(fmt.Sprintf("%s, %s, stored=%v, end in doubt %d times", c.name, level, stored, again), func(t *testing.T) {
					rs := pair()
					if c.queued {
						rs = []catalog.Resource{upstream("a", slots(1), queue(time.Minute)), account("a1", "a"), key("k")}
					}
					r := newRig(t, rs...)
					r.Durability = level
					var h *begun
					var free chan struct{}
					if c.queued {
						h, free = r.holder()
					} else if strings.HasPrefix(c.types, "attempt.failed") {
						r.reply("a", refusing(500, ""))
					}
					first, ends := true, 0
					r.store.mu.Lock()
					r.store.doubt = func(types string) (lost, in bool) {
						switch {
						case first && types == c.types:
							first = false
							return true, stored
						case !first && ends < again && (strings.HasPrefix(types, "request.settled") || types == "request.rejected"):
							ends++
							return true, ends == 2
						}
						return false, false
					}
					r.store.mu.Unlock()
					x := r.begin(r.chat())
					if c.queued {
						r.until("the queue", r.waiting("a"))
						if strings.HasPrefix(c.types, "request.admitted") {
							r.until("the fault", func() bool { return r.journal.Stats().Faults > 0 })
							r.until("the store to be back", func() bool { return r.journal.Fault() == nil })
						}
						close(free)
						<-h.over
					}
					<-x.over
					if x.Status != 503 || !strings.Contains(x.body(), "STORE_UNAVAILABLE") {
						t.Errorf("answer %d %s", x.Status, x.body())
					}
					if n := len(r.ups.calls); n != c.calls {
						t.Errorf("%d calls to upstreams, want %d", n, c.calls)
					}
					want := c.unstored
					if stored {
						want = c.stored
					}
					r.expect(x.id, want)
					if open, err := actors.FindOpen(t.Context(), r.store); err != nil || len(open) > 0 {
						t.Errorf("left open: %v, %v", open, err)
					}
					if c.name == "first dispatch" && stored {
						r.saysNothingWasSent(x.id)
					}
				})
			}
		}
	}
}

// saysNothingWasSent wants a settlement that did not come to an upstream.
func (r *rig) saysNothingWasSent(id string) {
	r.t.Helper()
	var end *request.Settled
	err := r.store.Stream(r.t.Context(), "request/"+id, 0, func(c *events.Committed) bool {
		for _, f := range c.Facts {
			if s, ok := f.(*request.Settled); ok {
				end = s
			}
		}
		return true
	})
	if err != nil || end == nil || end.Sent || end.Attempts != 0 || end.Cost != 0 {
		r.t.Errorf("the end says %+v (%v)", end, err)
	}
}
