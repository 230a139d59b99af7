package sim

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/pricing"
)

// call is one call to an upstream, and its answer.
type call struct {
	c        *client
	n        int // of the request, from 1
	upstream string
	account  string
	cut      chan struct{}
	gone     *actors.Gone
	script   script
	rest     []byte
	usage    pricing.Usage
	at       time.Duration // when it came
	content  time.Duration // when the first content was given, 0 never
	gaveAll  bool          // its usage was told
	eof      bool
	ended    time.Duration // when the caller was told of its end
	closed   bool
}

// script is what an upstream does with one call.
type script struct {
	wait   time.Duration // before the headers
	fail   actors.Phase  // instead of headers
	status int
	header map[string]string
	body   []part
}

// part is one read of a body.
type part struct {
	wait    time.Duration
	data    string
	fail    actors.Phase
	content bool
	usage   bool
}

const (
	role    = `data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	hello   = `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n\n"
	finish  = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done    = "data: [DONE]\n\n"
	inError = `data: {"error":{"message":"boom","type":"server_error"}}` + "\n\n"
)

var (
	failPhases = []actors.Phase{
		actors.PhaseConnect, actors.PhaseConnectTimeout, actors.PhaseWrite, actors.PhaseFirstByte, actors.PhaseFirstTimeout,
		actors.PhaseStale, actors.PhaseMalformed, actors.PhaseLocal,
	}
	failStatuses = []int{400, 401, 402, 403, 404, 408, 422, 429, 429, 500, 500, 502, 503, 529}
)

// plan draws what becomes of a call. Some upstreams of a seed are worse than others.
func (k *call) plan() {
	d := k.c.dice
	k.usage = pricing.Usage{Input: 100 + d.Int64N(900), Output: 10 + d.Int64N(90)}
	long := time.Duration(1) << (14 + d.IntN(16))
	if k.c.w.crowd {
		long = crowdLong
	}
	wait := func() time.Duration { return time.Duration(d.Int64N(int64(long))) }
	s := &k.script
	*s = script{wait: wait(), status: 200, header: map[string]string{"Content-Type": "application/json"}}
	told := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, k.usage.Input, k.usage.Output, k.usage.Input+k.usage.Output)
	s.body = []part{{wait: wait(), usage: true, content: true, data: `{"id":"c1","model":"m","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],` + told + `}`}}
	if k.c.call.Scan.Stream {
		s.header["Content-Type"] = "text/event-stream"
		s.body = []part{
			{wait: wait(), data: role}, {wait: wait(), data: hello, content: true}, {wait: wait(), data: finish},
			{data: `data: {"id":"c1","choices":[],` + told + "}\n\n", usage: true}, {data: done},
		}
		if d.IntN(20) == 0 {
			s.body[2].wait = 40 * time.Second // long enough for a progress report
		}
	}
	bad := 5 + int(k.c.w.seed+uint64(k.upstream[0])*7)%25
	if d.IntN(100) >= bad {
		return
	}
	switch d.IntN(6) {
	case 0:
		s.fail = failPhases[d.IntN(len(failPhases))]
	case 1, 2:
		s.status = failStatuses[d.IntN(len(failStatuses))]
		if k.c.w.crowd {
			s.status = crowdStatuses[d.IntN(len(crowdStatuses))]
		}
		s.header = map[string]string{"Content-Type": "application/json"}
		if d.IntN(2) == 0 {
			s.header["Retry-After"] = fmt.Sprint(1 + d.IntN(3))
		}
		s.body = []part{{data: `{"error":{"message":"no","type":"server_error"}}`}}
		if s.status == 429 && d.IntN(2) == 0 {
			s.body[0].data = `{"error":{"message":"Rate limit reached for ` + k.c.call.Ask.Model + ` in organization o","type":"requests"}}`
		}
	case 3: // an answer that is none
		s.body = []part{{wait: wait(), data: []string{"", "<html>", inError, `{"error":{"message":"x"}}`, role}[d.IntN(5)]}}
		if d.IntN(3) == 0 && !k.c.call.Scan.Stream { // one that costs the operator nevertheless
			s.body[0] = part{wait: wait(), usage: true, data: `{"error":{"message":"x"},` + told + "}"}
		}
	default: // broken off
		at := d.IntN(len(s.body) + 1)
		s.body = append(s.body[:at:at], part{wait: wait(), fail: []actors.Phase{actors.PhaseBody, actors.PhaseIdle}[d.IntN(2)]})
	}
}

type closer func()

// Close implements io.Closer.
func (f closer) Close() error { f(); return nil }

func broken(p actors.Phase) error { return &actors.SendError{Phase: p, Err: errors.New("scripted")} }

// Send implements actors.Transport: a call of this client's request.
func (c *client) Send(o *actors.Outgoing) (actors.Incoming, error) {
	if c.node.isDead() {
		o.Gone.Release()
		return nil, broken(actors.PhaseLocal)
	}
	k := &call{c: c, n: len(c.calls) + 1, upstream: strings.TrimSuffix(o.Host, ".test"), gone: o.Gone, cut: make(chan struct{}), at: c.w.since()}
	for _, h := range o.Headers {
		if h.Name == "Authorization" {
			k.account = strings.TrimPrefix(h.Value, "Bearer secret-of-")
		}
	}
	k.plan()
	c.calls = append(c.calls, k)
	c.w.law.sent(k)
	fail := func(p actors.Phase) (actors.Incoming, error) {
		o.Gone.Release()
		k.end()
		return nil, broken(p)
	}
	if !o.Gone.Hold(closer(sync.OnceFunc(func() { close(k.cut) }))) || !k.wait(k.script.wait) {
		return fail(actors.PhaseCancelled)
	}
	if k.script.fail != "" {
		return fail(k.script.fail)
	}
	return k, nil
}

// end is when the process no longer uses the upstream.
func (k *call) end() {
	if k.ended == 0 {
		k.ended = k.c.w.since()
	}
	if !k.closed {
		k.closed = true
		k.c.w.law.left(k)
	}
}

// wait waits at the upstream; false: the call was cut.
func (k *call) wait(d time.Duration) bool {
	timer := time.NewTimer(k.c.w.until(d, k.c.slot))
	defer timer.Stop()
	k.c.w.law.turn()
	defer k.c.w.law.turn()
	select {
	case <-timer.C:
		if !k.c.node.isDead() {
			k.c.w.law.rest()
		}
		return true
	case <-k.cut:
	case <-k.c.node.dead:
	}
	return false
}

// Read implements actors.Incoming.
func (k *call) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		if len(k.script.body) == 0 {
			k.ended, k.eof = k.c.w.since(), true
			return 0, io.EOF
		}
		next := k.script.body[0]
		k.script.body = k.script.body[1:]
		if !k.wait(next.wait) {
			k.ended = k.c.w.since()
			return 0, broken(actors.PhaseCancelled)
		}
		if next.fail != "" {
			k.ended = k.c.w.since()
			return 0, broken(next.fail)
		}
		if next.content && k.content == 0 {
			k.content = k.c.w.since()
		}
		k.gaveAll = k.gaveAll || next.usage
		k.rest = []byte(next.data)
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// Close implements actors.Incoming.
func (k *call) Close() error {
	if k.closed {
		k.c.w.law.fault("%s: an answer of %s was closed twice", k.c.id, k.upstream)
	}
	k.gone.Release()
	k.end()
	return nil
}

// Status implements actors.Incoming.
func (k *call) Status() int { return k.script.status }

// Header implements actors.Incoming.
func (k *call) Header(name string) string { return k.script.header[name] }

// Headers implements actors.Incoming.
func (k *call) Headers(yield func(name, value []byte)) {
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if v := k.script.header[name]; v != "" {
			yield([]byte(name), []byte(v))
		}
	}
}

// Length implements actors.Incoming.
func (k *call) Length() int { return -1 }

// Decode implements actors.Incoming.
func (k *call) Decode(r io.Reader) (io.Reader, error) { return r, nil }

// Buffered implements actors.Incoming.
func (k *call) Buffered() int { return len(k.rest) }
