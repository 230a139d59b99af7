package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

var dispatchSeed = flag.Uint64("dispatch-seed", 0, "run only this seed of the random requests")

// chance is a source that many goroutines may ask.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (c *chance) n(max int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(max)
}

func (c *chance) in(times int) bool { return c.n(times) == 0 }

// soon is closed in a moment.
func (c *chance) soon() chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(time.Duration(c.n(2000))*time.Microsecond, func() { close(ch) })
	return ch
}

// reply makes an answer of an upstream: good ones mostly, else any fault at any place.
func (c *chance) reply(stream bool) reply {
	phases := []actors.Phase{
		actors.PhaseConnect, actors.PhaseConnectTimeout, actors.PhaseWrite, actors.PhaseFirstByte, actors.PhaseFirstTimeout,
		actors.PhaseStale, actors.PhaseMalformed, actors.PhaseLocal,
	}
	statuses := []int{400, 401, 403, 404, 408, 422, 429, 500, 502, 503, 529, 302}
	r := whole(okBody)
	if stream {
		r = okStream()
	}
	switch c.n(12) {
	case 0:
		r = reply{fail: phases[c.n(len(phases))]}
	case 1:
		r = refusing(statuses[c.n(len(statuses))], `{"error":{"message":"no"}}`)
	case 2:
		r = whole([]string{"", "<html>", `{"error":{"message":"x"}}`, "{}"}[c.n(4)])
	case 3:
		r = streaming([]string{role, inError, hello, ""}[c.n(4)], []string{role, inError, hello, done}[c.n(4)])
	case 4:
		r = gzipped(role, hello, usage, done)
	case 5:
		if c.in(3) {
			r.panics = []string{"send", "headers"}[c.n(2)]
		}
	case 6:
		at := c.n(len(r.body) + 1)
		r.body = append(r.body[:at:at], chunk{err: []actors.Phase{actors.PhaseBody, actors.PhaseIdle}[c.n(2)]})
	case 7:
		if c.in(3) {
			r.body = append([]chunk{{panic: true}}, r.body...)
		}
	}
	if c.in(2) {
		r.hold = c.soon()
	}
	if n := len(r.body); n > 0 && c.in(3) {
		r.body[c.n(n)].hold = c.soon()
	}
	return r
}

// mark is in what a client says, and in what an upstream answers to it.
var mark = regexp.MustCompile(`of r[0-9]+\.`)

// own says whether a text has marks of that request only.
func own(text, id string) bool {
	for _, m := range mark.FindAllString(text, -1) {
		if m != "of "+id+"." {
			return false
		}
	}
	return true
}

// marked is an answer with the mark of what an upstream was sent, which is all of one request.
func (r *rig) marked(o *actors.Outgoing, answer reply) reply {
	m := mark.FindString(string(o.Body))
	for _, h := range o.Headers {
		if h.Name == "X-Mark" && h.Value != m {
			r.t.Errorf("an upstream was sent the body %s with the header %s", o.Body, h.Value)
		}
	}
	header := map[string]string{"Request-Id": m}
	for k, v := range answer.header {
		header[k] = v
	}
	answer.header = header
	if answer.header["Content-Encoding"] == "" {
		body := answer.body
		answer.body = nil
		for _, c := range body {
			c.data = strings.ReplaceAll(c.data, "hello", "hello "+m)
			answer.body = append(answer.body, c)
		}
	}
	return answer
}

// connection is what the data plane lends to one request after the other.
type connection struct {
	room    actors.Room
	headers [8]actors.Header
}

// lend makes a call of one on the connection.
func (n *connection) lend(c *actors.Call) {
	c.Room, c.Headers = &n.room, append(n.headers[:0], actors.Header{Name: "X-Mark", Value: mark.FindString(string(c.Body))})
}

// Whatever upstreams, clients, the store and the operator do at once: every request has one lawful story, its bill is
// right, slots are never exceeded, and nothing is left behind.
func TestRandomRequestsKeepTheLaws(t *testing.T) {
	seeds := uint64(25)
	if testing.Short() {
		seeds = 5
	}
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		if *dispatchSeed != 0 {
			seed, seeds = *dispatchSeed, 0
		}
		randomRequests(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d; repeat: go test -race ./actors -run '^%s$' -dispatch-seed %d", seed, t.Name(), seed)
		}
	}
}

func randomRequests(t *testing.T, seed uint64) {
	c := &chance{r: rand.New(rand.NewPCG(seed, 1))}
	policies := []string{"cancel", "drain", "drain_up_to:1ms"}
	small := func(u *catalog.Upstream) {
		u.Breaker.Failures, u.Breaker.OpenFor, u.Breaker.ProbeEvery = 3, catalog.Duration(3*time.Millisecond), catalog.Duration(time.Millisecond)
	}
	ups := map[string]*catalog.Upstream{
		"a": upstream("a", small, slots(3), queue(20*time.Millisecond), disconnect(policies[c.n(3)])),
		"b": upstream("b", small, slots(2), queue(5*time.Millisecond), disconnect(policies[c.n(3)])),
		"c": upstream("c", small, second, slots(1), disconnect(policies[c.n(3)])),
	}
	r := newRig(t, ups["a"], ups["b"], ups["c"], account("a1", "a"), account("a2", "a"), account("b1", "b"), account("c1", "c"),
		key("k", func(k *catalog.Key) { k.Slots = count(6) }), setting("failover.max_attempts", []string{"0", "2", "6"}[c.n(3)]),
		setting("on_exhausted", []string{"unified", "last_answer", "bad_gateway"}[c.n(3)]))
	r.Durability = []actors.Durability{actors.AtDispatch, actors.Overlapped, actors.Relaxed, actors.AtSettlement}[c.n(4)]
	r.Random = func() uint64 { return uint64(c.n(1 << 30)) }
	r.ups.script = func(o *actors.Outgoing) reply {
		return r.marked(o, c.reply(strings.Contains(string(o.Body), `"stream":true`) != c.in(20)))
	}
	r.store.mu.Lock()
	r.store.check = func(string) (chan struct{}, bool) {
		if c.in(30) {
			return c.soon(), false
		}
		return nil, c.in(100)
	}
	r.store.mu.Unlock()

	calls := make(chan *actors.Call)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			var from connection
			for call := range calls {
				from.lend(call)
				x := &client{}
				switch c.n(9) {
				case 8:
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					time.AfterFunc(time.Duration(c.n(3000))*time.Microsecond, func() {
						defer cancel()
						_, _ = r.system.Free(ctx, []string{"a", "b", "c"}[c.n(3)], call.ID, 0, "")
					})
				case 0:
					call.Gone.Fire()
				case 1:
					time.AfterFunc(time.Duration(c.n(3000))*time.Microsecond, call.Gone.Fire)
				case 2:
					at := c.n(3)
					x.write = func(n int) error {
						if n > at {
							return errors.New("broken pipe")
						}
						return nil
					}
				case 3:
					if c.in(4) {
						x.write = func(int) error { panic("scripted: write") }
					}
				}
				if r.runAs(x, call); x.Status == 0 {
					t.Errorf("%s has no answer", call.ID)
				}
				if !own(x.body()+fmt.Sprint(x.Headers), call.ID) {
					t.Errorf("%s got what is another one's: %v %s", call.ID, x.Headers, x.body())
				}
				r.until("the store to be back", func() bool { return r.journal.Fault() == nil })
			}
		})
	}
	for range 120 {
		body := chat
		if c.in(2) {
			body = chatStream
		}
		call := r.call("/v1/chat/completions", strings.TrimSuffix(body, "}")+fmt.Sprintf(`,"user":"of r%d."}`, r.calls+1))
		call.Ask.Session = []string{"", "s", "t"}[c.n(3)]
		calls <- call
		if c.in(10) {
			r.reconfigure(c, ups)
		}
	}
	close(calls)
	wg.Wait()
	r.store.mu.Lock()
	r.store.check = nil
	r.store.mu.Unlock()
	r.until("the store to be back", func() bool { return r.journal.Fault() == nil })
	r.apply(key("k", func(k *catalog.Key) { k.Slots = count(6) }))
	r.laws()
	for stream, rows := range r.streams() {
		for _, row := range rows {
			if told, _ := json.Marshal(row.Facts); !own(string(told), strings.TrimPrefix(stream, "request/")) {
				t.Errorf("%s tells of another one: %s", stream, told)
			}
		}
	}
	if n := len(r.streams()); n < 60 {
		t.Errorf("only %d of 120 requests have a story", n)
	}
	for host, limit := range map[string]int{"a.test": 3, "b.test": 2, "c.test": 1} {
		if n := r.ups.most[host]; n > limit {
			t.Errorf("%d calls at once to %s, %d slots", n, host, limit)
		}
	}
}

// reconfigure changes something of the catalogue, never above the slots of the start.
func (r *rig) reconfigure(c *chance, ups map[string]*catalog.Upstream) {
	id := []string{"a", "b", "c"}[c.n(3)]
	u := *ups[id]
	r.apply(key("k", func(k *catalog.Key) { k.Slots = count(6) }))
	switch c.n(6) {
	case 0:
		u.Active = false
	case 1:
		u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "x"}}
	case 2:
		r.apply(key("k", func(k *catalog.Key) { k.Slots, k.Revoked = count(6), c.in(3) }))
	case 3:
		r.apply(key("k", func(k *catalog.Key) { k.Slots, k.Models = count(6), [][]string{{"x"}, {"m"}}[c.n(2)] }))
	case 4:
		r.apply(key("k", func(k *catalog.Key) { k.Slots = count(1 + c.n(6)) }))
	case 5:
		_ = r.system.Breaker(id, []string{"open", "close"}[c.n(2)])
	}
	r.apply(&u)
}
