package actors_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
)

// begun is a request that runs in a goroutine.
type begun struct {
	*client
	id   string
	call *actors.Call
	over chan struct{}
}

func (r *rig) begin(c *actors.Call) *begun {
	b := &begun{client: &client{}, id: c.ID, call: c, over: make(chan struct{})}
	go func() { defer close(b.over); r.runAs(b.client, c) }()
	return b
}

// holder begins a request that holds a slot of a until the channel is closed.
func (r *rig) holder() (*begun, chan struct{}) {
	r.t.Helper()
	free := make(chan struct{})
	r.reply("a", reply{header: jsonHeader, hold: free, body: texts(okBody)})
	b := r.begin(r.chat())
	r.until("the call to be made", func() bool { return r.sent("a") == 1 })
	return b, free
}

// queued is one upstream with one slot and a queue, and a request that waits behind the holder of the slot.
func queued(t *testing.T, more ...catalog.Resource) (*rig, *begun, *begun, chan struct{}) {
	t.Helper()
	r := newRig(t, append([]catalog.Resource{upstream("a", slots(1), queue(time.Minute)), account("a1", "a"), key("k")}, more...)...)
	h, free := r.holder()
	w := r.begin(r.chat())
	r.until("the queue", r.waiting("a"))
	return r, h, w, free
}

// What a request that waits for an upstream comes to (A51-A60, A64, C62, D50).
func TestWhatAWaitComesTo(t *testing.T) {
	const resumed = "admitted queued | resumed dispatched(1 a1) | settled(completed 200 ok reported)"
	for _, c := range []struct {
		name   string
		change func(*rig, *begun)
		free   bool // the slot, after the change
		story  string
		status int
		body   string
	}{
		{"served", func(*rig, *begun) {}, true, resumed, 200, "hello"},
		{"the client goes", func(_ *rig, w *begun) { w.call.Gone.Fire() }, false, "admitted queued | settled(cancelled 499 CLIENT_DISCONNECTED none)", 499, ""},
		{"another key is made meanwhile", func(r *rig, _ *begun) { r.apply(key("other")) }, true, resumed, 200, "hello"},
		{"key revoked", func(r *rig, _ *begun) { r.apply(key("k", func(k *catalog.Key) { k.Revoked = true })) }, true,
			"admitted queued | resumed settled(rejected 401 INVALID_API_KEY none)", 401, `{"error":"Invalid API key"}`},
		{"key expired", func(r *rig, _ *begun) {
			r.apply(key("k", func(k *catalog.Key) { past := time.Now().Add(-time.Hour); k.ExpiresAt = &past }))
		}, true, "admitted queued | resumed settled(rejected 401 API_KEY_EXPIRED none)", 401, ""},
		{"model no longer allowed", func(r *rig, _ *begun) { r.apply(key("k", func(k *catalog.Key) { k.Models = []string{"x"} })) }, true,
			"admitted queued | resumed settled(rejected 403 API_KEY_MODEL_NOT_ALLOWED none)", 403, "API_KEY_MODEL_NOT_ALLOWED"},
		{"upstream no longer granted", func(r *rig, _ *begun) {
			r.apply(key("k", func(k *catalog.Key) { k.Access = "restricted" }))
		}, true, "admitted queued | resumed settled(rejected 403 NO_AUTHORIZED_UPSTREAMS none)", 403, ""},
		{"upstream takes the model no more", func(r *rig, _ *begun) {
			r.apply(upstream("a", slots(1), queue(time.Minute), func(u *catalog.Upstream) {
				u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "x"}}
			}))
		}, true, "admitted queued | resumed settled(rejected 503 ALL_UPSTREAMS_UNAVAILABLE none)", 503, failure.ModelNotAllowed},
		{"upstream inactive", func(r *rig, _ *begun) {
			r.apply(upstream("a", slots(1), queue(time.Minute), func(u *catalog.Upstream) { u.Active = false }))
		}, false, "admitted queued | settled(rejected 503 ALL_UPSTREAMS_UNAVAILABLE none)", 503, failure.NoHealthyCandidates},
		{"breaker opened", func(r *rig, _ *begun) { _ = r.system.Breaker("a", "open") }, false,
			"admitted queued | settled(rejected 503 ALL_UPSTREAMS_UNAVAILABLE none)", 503, failure.UpstreamCircuitOpen},
		{"another upstream has come, and the old one takes the model no more", func(r *rig, _ *begun) {
			r.apply(upstream("b", second), account("b1", "b"), upstream("a", slots(1), queue(time.Minute), func(u *catalog.Upstream) {
				u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "x"}}
			}))
		}, true, "admitted queued | resumed dispatched(1 b1) | settled(completed 200 ok reported)", 200, "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, h, w, free := queued(t)
			c.change(r, w)
			if !c.free {
				<-w.over
			}
			close(free)
			<-w.over
			<-h.over
			if w.Status != c.status || !strings.Contains(w.body(), c.body) {
				t.Errorf("answer %d %s", w.Status, w.body())
			}
			r.expect(w.id, c.story)
		})
	}
}

// Nobody waits when the queue is full.
func TestFullQueue(t *testing.T) {
	one := 1
	r := newRig(t, upstream("a", slots(1), queue(time.Minute), func(u *catalog.Upstream) { u.Queue.MaxLength = &one }), account("a1", "a"), key("k"))
	h, free := r.holder()
	w := r.begin(r.chat())
	r.until("the queue", r.waiting("a"))
	full := r.chat()
	r.run(full)
	close(free)
	<-w.over
	<-h.over
	r.expect(full.ID, "rejected(503 ALL_UPSTREAMS_UNAVAILABLE QUEUE_FULL)")
}

// A wait ends with the queue's timeout.
func TestQueueTimeout(t *testing.T) {
	r := newRig(t, upstream("a", slots(1), queue(30*time.Millisecond)), account("a1", "a"), key("k"))
	h, free := r.holder()
	w := r.begin(r.chat())
	<-w.over
	close(free)
	<-h.over
	r.expect(w.id, "admitted queued | settled(rejected 504 QUEUE_WAIT_TIMEOUT none)")
	if s := r.settlement(w.id); s.QueueState != "timed_out" || s.Reason != "QUEUE_WAIT_TIMEOUT" || s.Stage != "queue" || s.WaitedUS < 20_000 {
		t.Errorf("settled %+v", s)
	}
}

// After a failed attempt a wait tells its story with the next dispatch.
func TestWaitAfterAFailedAttempt(t *testing.T) {
	r := newRig(t, upstream("b"), upstream("a", second, slots(1), queue(time.Minute)), account("a1", "a"), account("b1", "b"), key("k"))
	blocker := r.chat()
	free := make(chan struct{})
	r.reply("b", refusing(500, ""), refusing(500, ""))
	r.reply("a", reply{header: jsonHeader, hold: free, body: texts(okBody)})
	h := r.begin(blocker)
	r.until("the call to be made", func() bool { return r.sent("a") == 1 })
	w := r.begin(r.chat())
	r.until("the queue", r.waiting("a"))
	close(free)
	<-h.over
	<-w.over
	r.expect(w.id, "admitted dispatched(1 b1) | failed(1 http_5xx next_upstream) queued resumed dispatched(2 a1) | settled(completed 200 ok reported)")
}

// A plan that is made anew after a wait leaves out what has failed in this request.
func TestANewPlanLeavesOutWhatHasFailed(t *testing.T) {
	r := newRig(t, upstream("b"), upstream("a", second, slots(1), queue(time.Minute)), account("a1", "a"), account("b1", "b"), key("k"))
	r.reply("b", refusing(500, ""), refusing(500, ""))
	h, free := r.holder()
	w := r.begin(r.chat())
	r.until("the queue", r.waiting("a"))
	r.apply(upstream("a", second, slots(1), queue(time.Minute), func(u *catalog.Upstream) {
		u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "x"}}
	}))
	close(free)
	<-h.over
	<-w.over
	r.expect(w.id, "admitted dispatched(1 b1) | queued resumed settled(failed 503 UPSTREAM_HTTP_ERROR http_5xx none)")
}

// However a wait ends, before the first attempt or after one, its beginning is told, and the settlement says how it ended
// (dispatch_law_test.go holds that of every request).
func TestTheEndOfAWaitIsToldWithItsBeginning(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*rig, *begun)
		state string
	}{
		{"its time is over", func(*rig, *begun) {}, "timed_out"},
		{"its client goes", func(_ *rig, w *begun) { w.call.Gone.Fire() }, "aborted"},
		{"the breaker opens", func(r *rig, _ *begun) { _ = r.system.Breaker("a", "open") }, "evicted"},
		{"the upstream goes out of service", func(r *rig, _ *begun) {
			r.apply(upstream("a", second, slots(1), queue(time.Minute), func(u *catalog.Upstream) { u.Active = false }))
		}, "evicted"},
	} {
		for _, failed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, after a failure: %v", c.name, failed), func(t *testing.T) {
				timeout := time.Minute
				if c.state == "timed_out" {
					timeout = 30 * time.Millisecond
				}
				r := newRig(t, upstream("b", func(u *catalog.Upstream) { u.Active = failed }), upstream("a", second, slots(1), queue(timeout)),
					account("a1", "a"), account("b1", "b"), key("k"))
				free := make(chan struct{})
				r.reply("b", refusing(500, ""), refusing(500, ""))
				r.reply("a", reply{header: jsonHeader, hold: free, body: texts(okBody)})
				h := r.begin(r.chat())
				r.until("the call to be made", func() bool { return r.sent("a") == 1 })
				w := r.begin(r.chat())
				if c.state != "timed_out" {
					r.until("the queue", r.waiting("a"))
				}
				c.end(r, w)
				<-w.over
				close(free)
				<-h.over
				if got := r.settlement(w.id).QueueState; got != c.state {
					t.Errorf("its wait ended as %q", got)
				}
				before := "admitted queued | settled("
				if failed {
					before = "admitted dispatched(1 b1) | queued settled("
				}
				if told := r.told(w.id); !strings.HasPrefix(told, before) {
					t.Errorf("told %s", told)
				}
				r.laws()
			})
		}
	}
}

// What a request that waits for its caller's own slots comes to (B10, B47): the key is looked at again.
func TestWaitingForACallersSlot(t *testing.T) {
	slot := func(k *catalog.Key) { k.Slots = count(1) }
	for _, c := range []struct {
		name   string
		change func(*rig, *begun)
		free   bool
		story  string
	}{
		{"served", func(*rig, *begun) {}, true, "admitted dispatched(1 a1) | settled(completed 200 ok reported)"},
		{"the client goes", func(_ *rig, w *begun) { w.call.Gone.Fire() }, false, "rejected(499 CLIENT_DISCONNECTED)"},
		{"key revoked", func(r *rig, _ *begun) { r.apply(key("k", slot, func(k *catalog.Key) { k.Revoked = true })) }, true, "rejected(401 INVALID_API_KEY)"},
		{"key removed", func(r *rig, _ *begun) { r.remove(catalog.KindKey, "k") }, false, "rejected(401 INVALID_API_KEY)"},
		{"model no longer allowed", func(r *rig, _ *begun) {
			r.apply(key("k", slot, func(k *catalog.Key) { k.Models = []string{"x"} }))
		}, true, "rejected(403 API_KEY_MODEL_NOT_ALLOWED)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, append(pair()[:4], key("k", slot))...)
			h, free := r.holder()
			call := r.chat()
			w := r.begin(call)
			r.until("it to wait", func() bool { return !r.passes("k", 1) && r.journal.Stats().Rooms == 2 })
			c.change(r, w)
			if !c.free {
				<-w.over
			}
			close(free)
			<-h.over
			<-w.over
			r.expect(w.id, c.story)
		})
	}
}

// A47, A64: a client that has gone before its request was admitted, or between grant and dispatch, sends nothing.
func TestClientGoneBeforeDispatch(t *testing.T) {
	r := newRig(t, pair()...)
	early := r.chat()
	early.Gone.Fire()
	if x := r.run(early); x.Status != 499 {
		t.Errorf("answer %d", x.Status)
	}
	r.expect(early.ID, "admitted settled(cancelled 499 CLIENT_DISCONNECTED none)")

	hold := make(chan struct{})
	r.store.check = func(types string) (chan struct{}, bool) { return hold, false }
	during := r.begin(r.chat())
	r.until("the commit", func() bool { return r.held("a")() })
	during.call.Gone.Fire()
	close(hold)
	<-during.over
	r.expect(during.id, "admitted dispatched(1 a1) | settled(cancelled 499 CLIENT_DISCONNECTED cancelled none)")
	if len(r.ups.calls) != 1 {
		t.Errorf("%d calls", len(r.ups.calls))
	}
}

// A gateway that drains refuses what is new; a full journal refuses without a word in it.
func TestDrainingAndOverload(t *testing.T) {
	r := newRig(t, pair()...)
	r.drain.Store(true)
	call := r.chat()
	if x := r.run(call); x.Status != 503 || x.header("Retry-After") != "1" {
		t.Errorf("answer %d %v", x.Status, x.Headers)
	}
	r.expect(call.ID, "rejected(503 DRAINING)")
	r.drain.Store(false)
	for range 64 {
		if err := r.journal.Room(); err != nil {
			t.Fatal(err)
		}
	}
	over := r.chat()
	if x := r.run(over); x.Status != 503 || !strings.Contains(x.body(), "STORE_OVERLOADED") || x.header("Retry-After") != "1" {
		t.Errorf("answer %d %s", x.Status, x.body())
	}
	for range 64 {
		r.journal.Leave()
	}
	r.expect(over.ID, "")
}

// exploding is a client whose connection fails us when it is to get a sign of life.
type exploding struct{}

func (exploding) Open([]actors.Header) (io.Writer, error) { panic("scripted: open") }

// A fault of ours in a request that waits takes it out of its queues: else it would be granted a slot that nobody gives back.
func TestAPanicWhileItWaitsLeavesItsQueues(t *testing.T) {
	for name, c := range map[string]struct {
		up    *catalog.Upstream
		slots int
		story string
	}{
		"for an upstream":  {upstream("a", slots(1), queue(time.Minute)), 5, "admitted queued | settled(rejected 503 LOCAL_FAULT none)"},
		"for its own slot": {upstream("a"), 1, "rejected(503 LOCAL_FAULT panic)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.up, account("a1", "a"), key("k", func(k *catalog.Key) { k.Slots = count(c.slots) }), setting("keepalive.after", "1s"))
			h, free := r.holder()
			call := r.stream()
			call.At, call.Opener = call.At.Add(-time.Hour), exploding{} // the sign is due at once
			r.run(call)
			close(free)
			<-h.over
			r.expect(call.ID, c.story) // and nothing is held
		})
	}
}
