package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/request"
)

var capabilities = []dialect.Capability{dialect.CapChat, dialect.CapResponses, dialect.CapMessages, dialect.CapGemini}

// client is one that makes one request; and the upstreams as this request meets them (upstream_test.go). All that it
// does is drawn from dice of its own, at instants of its own.
type client struct {
	w          *world
	node       *process
	id         string
	slot       int64
	dice       *rand.Rand
	call       *actors.Call
	answer     actors.Answer
	got        bytes.Buffer
	err        error
	breaks     int // the write that fails, 0 none
	writes     int
	left       bool // before its end
	opened     bool // it got the head of its answer while it waited
	answered   bool // it got something of an upstream's answer
	recalled   int  // the attempt whose slot the operator took back, 0 none
	recalledAt time.Duration
	calls      []*call
	over       atomic.Bool
}

func newClient(w *world, n int) *client {
	c := &client{w: w, id: fmt.Sprint("r", n+1), slot: clientSlot + int64(n), dice: rand.New(rand.NewPCG(w.seed, uint64(n+10)))}
	model, stream, session := "m", "", ""
	if c.dice.IntN(3) == 0 {
		model = "n"
	}
	if c.dice.IntN(2) == 0 {
		stream = `"stream":true,`
	}
	if c.dice.IntN(2) == 0 {
		session = fmt.Sprint("s", c.dice.IntN(3))
	}
	body := fmt.Sprintf(`{"model":%q,%s"messages":[{"role":"user","content":"hi"}]}`, model, stream)
	if c.dice.IntN(15) == 0 && !w.quiet {
		c.breaks = 1 + c.dice.IntN(4)
	}
	const path = "/v1/chat/completions"
	end, _ := dialect.Route("POST", path)
	scan, err := dialect.ScanRequest([]byte(body), end.Dialect)
	w.law.must("scan", err)
	k := w.snap.Load().Key(w.keys[c.dice.IntN(len(w.keys))].ID)
	c.call = &actors.Call{
		ID: c.id, At: time.Now().UTC(), Endpoint: end, Scan: scan, Body: []byte(body), Key: k, Gone: &actors.Gone{},
		Ask: request.Ask{Key: k.ID, User: k.User, Method: "POST", Path: path, Dialect: end.Dialect.String(), Model: model, Stream: scan.Stream,
			Capability: string(end.Capability), Session: session},
	}
	if c.dice.IntN(2) == 0 {
		c.call.Opener = c
	}
	return c
}

// visit makes the request and reads the answer.
func (c *client) visit(d *actors.Dispatcher) {
	c.pause()
	c.answer = d.Begin(c.call)
	if c.answer.Stream != nil {
		c.err = c.answer.Stream(c)
	} else {
		c.got.Write(c.answer.Body)
	}
	if c.node.isDead() {
		return
	}
	c.w.trace("%s got %d, %x, %v", c.id, c.answer.Status, sha256.Sum256(c.got.Bytes()), c.err)
	c.w.law.answered(c)
}

// Open implements actors.Opener.
func (c *client) Open([]actors.Header) (io.Writer, error) {
	if c.opened {
		c.w.law.fault("%s got a second head", c.id)
	}
	c.opened = true
	c.w.trace("%s got a head", c.id)
	return c, nil
}

// Write takes a part of a stream.
func (c *client) Write(p []byte) (int, error) {
	c.pause()
	if c.writes++; c.writes == c.breaks {
		c.left = true
		return 0, errors.New("broken pipe")
	}
	if n := len(c.calls); !c.answered && n > 0 && c.calls[n-1].content > 0 { // before that, it gets signs of life only
		c.answered = true
		c.w.law.firstByte(c)
	}
	return c.got.Write(p)
}

// pause lets time pass between two steps of the request, as a busy machine does: mostly next to nothing, now and then
// long. Nobody else acts when it ends.
func (c *client) pause() {
	if c.node.isDead() {
		return
	}
	d := time.Duration(1) << c.dice.IntN(20)
	if c.dice.IntN(300) == 0 {
		d = time.Duration(c.dice.Int64N(int64(200 * time.Millisecond)))
	}
	c.w.sleep(d, c.slot)
	if !c.node.isDead() {
		c.w.law.rest()
	}
}

// now, catalog and random are the dispatcher's: where it asks for them, a request may be held up.
func (c *client) now() time.Time { c.pause(); return time.Now() }

func (c *client) catalog() *catalog.Snapshot { c.pause(); return c.w.snap.Load() }

func (c *client) random() uint64 { return c.dice.Uint64() }

// refusal is what an error answer says.
type refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Sent   *bool  `json:"did_send_upstream"`
}

// refused reads our own refusal; false: the answer is none.
func (c *client) refused() (r refusal, ok bool) {
	var b struct {
		Error json.RawMessage `json:"error"`
	}
	if c.answer.Stream != nil || json.Unmarshal(c.got.Bytes(), &b) != nil || json.Unmarshal(b.Error, &r) != nil {
		return r, false
	}
	return r, r.Sent != nil
}
