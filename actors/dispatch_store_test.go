package actors_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// The store fails at each append of a request in turn, under each durability: what was sent is always in the log in the
// end, and who was refused sent nothing more.
func TestStoreFailsAtEachAppend(t *testing.T) {
	for _, c := range []struct {
		name, types string
		level       actors.Durability
		queued      bool
		story       string
		status      int
		sent        int
	}{
		{"first, dispatched", "request.admitted attempt.dispatched", actors.AtDispatch, false, "rejected(503 STORE_UNAVAILABLE)", 503, 0},
		{"first, overlapped", "request.admitted attempt.dispatched", actors.Overlapped, false,
			"admitted dispatched(1 a1) | settled(failed 503 STORE_UNAVAILABLE ok reported)", 503, 1},
		{"first, relaxed", "request.admitted attempt.dispatched", actors.Relaxed, false,
			"admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, 1},
		{"second, dispatched", "attempt.failed attempt.dispatched", actors.AtDispatch, false,
			"admitted dispatched(1 a1) | settled(failed 503 STORE_UNAVAILABLE http_5xx none)", 503, 1},
		{"second, overlapped", "attempt.failed attempt.dispatched", actors.Overlapped, false,
			"admitted dispatched(1 a1) | failed(1 http_5xx next_upstream) dispatched(2 b1) | settled(failed 503 STORE_UNAVAILABLE ok reported)", 503, 2},
		{"second, relaxed", "attempt.failed attempt.dispatched", actors.Relaxed, false,
			"admitted dispatched(1 a1) | failed(1 http_5xx next_upstream) dispatched(2 b1) | settled(completed 200 ok reported)", 200, 2},
		{"settlement, dispatched", "request.settled@2", actors.AtDispatch, false, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, 1},
		{"settlement, overlapped", "request.settled@2", actors.Overlapped, false, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, 1},
		{"settlement, settled", "request.settled@2", actors.AtSettlement, false, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, 1},
		{"settlement, relaxed", "request.settled@2", actors.Relaxed, false, "admitted dispatched(1 a1) | settled(completed 200 ok reported)", 200, 1},
		{"queued, dispatched", "request.admitted request.queued", actors.AtDispatch, true, "rejected(503 STORE_UNAVAILABLE)", 503, 1},
		{"queued, overlapped", "request.admitted request.queued", actors.Overlapped, true, "rejected(503 STORE_UNAVAILABLE)", 503, 1},
		{"queued, relaxed", "request.admitted request.queued", actors.Relaxed, true,
			"admitted queued | resumed dispatched(1 a1) | settled(completed 200 ok reported)", 200, 2},
		{"resumed, dispatched", "request.resumed attempt.dispatched", actors.AtDispatch, true, "admitted queued | resumed settled(rejected 503 STORE_UNAVAILABLE none)", 503, 1},
		{"resumed, overlapped", "request.resumed attempt.dispatched", actors.Overlapped, true,
			"admitted queued | resumed dispatched(1 a1) | settled(failed 503 STORE_UNAVAILABLE ok reported)", 503, 2},
	} {
		for _, stream := range []bool{false, true} {
			name := c.name
			if stream {
				name += ", stream"
			}
			t.Run(name, func(t *testing.T) {
				// When the store is back before the settlement is made, the story is the same.
				rs := pair()
				if c.queued {
					rs = []catalog.Resource{upstream("a", slots(1), queue(time.Minute)), account("a1", "a"), key("k")}
				}
				r := newRig(t, rs...)
				r.Durability = c.level
				call := r.chat()
				good := whole(okBody)
				if stream {
					call, good = r.stream(), okStream()
				}
				var h *begun
				var free chan struct{}
				if c.queued {
					h, free = r.holder()
				} else if strings.HasPrefix(c.types, "attempt.failed") {
					r.reply("a", refusing(500, ""))
				}
				r.reply("a", good)
				r.reply("b", good)
				r.store.breakOn(c.types, 1)
				x := r.begin(call)
				if c.queued {
					r.until("the queue or the end", func() bool {
						select {
						case <-x.over:
							return true
						default:
							return r.waiting("a")()
						}
					})
					if strings.HasPrefix(c.types, "request.admitted") {
						r.until("the fault", func() bool { return r.journal.Stats().Faults > 0 })
						r.until("the store to be back", func() bool { return r.journal.Fault() == nil })
					}
					close(free)
					<-h.over
				}
				<-x.over
				if x.Status != c.status || c.status == 503 && x.header("Retry-After") != "1" {
					t.Errorf("answer %d %s", x.Status, x.body())
				}
				if c.level == actors.Overlapped && c.status == 503 && x.Stream != nil {
					t.Error("a byte left before the commit")
				}
				if n := len(r.ups.calls); n != c.sent {
					t.Errorf("%d calls to upstreams", n)
				}
				story := c.story
				if stream && c.level == actors.Overlapped && c.status == 503 { // it had not been read to its usage
					story = strings.Replace(story, "ok reported", "ok estimated", 1)
				}
				r.expect(x.id, story)
				if r.journal.Stats().Faults == 0 {
					t.Error("the store never failed")
				}
			})
		}
	}
}

// With the commit beside the call, no byte of any answer leaves before it, not even an error's.
func TestOverlappedAnswersWaitForTheCommit(t *testing.T) {
	for name, rep := range map[string]reply{"answer": whole(okBody), "stream": okStream(), "error": refusing(400, "{}"), "fault": {fail: actors.PhaseLocal}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			r.Durability = actors.Overlapped
			hold, read := make(chan struct{}), make(chan struct{})
			r.store.mu.Lock()
			r.store.check = func(string) (chan struct{}, bool) { return hold, false }
			r.store.mu.Unlock()
			rep.do = func() { close(read) }
			r.reply("a", rep)
			call := r.chat()
			if name == "stream" {
				call = r.stream()
			}
			answered := make(chan actors.Answer, 1)
			go func() { answered <- r.Begin(call) }()
			<-read // the call does not wait
			for range 100 {
				runtime.Gosched()
			}
			select {
			case a := <-answered:
				t.Errorf("answered %d before the commit", a.Status)
				answered <- a
			default:
			}
			close(hold)
			if a := <-answered; a.Stream != nil {
				if err := a.Stream(&client{}); err != nil {
					t.Error(err)
				}
			}
			r.laws()
		})
	}
}
