package simulator

import (
	"cmp"
	"strconv"
)

const silenceMs = 60_000 // of a hang or stall that gives none

const (
	garbage = `{"id":"mock","choices":[{"message":{"role":"assistant","content": oops`
	page    = "<!DOCTYPE html><html><head><title>mock</title></head><body><h1>Welcome</h1></body></html>\n"
)

// play sends the answer, or the fault that was drawn. It returns whether the connection lives on; when it
// returns without having settled, the client went away.
func (c *conn) play() bool {
	t, b := &c.t, c.t.b
	wait := b.TTFBMs
	if b.TTFBJitterMs > 0 {
		wait += b.TTFBJitterMs * chance(c.s.seed, t.a.n, saltJitter)
	}
	if !c.pause(millis(wait)) {
		return false
	}
	c.out = c.out[:0]
	switch t.fault {
	case faultReset:
		return c.reset()
	case faultHang:
		return c.pause(millis(cmp.Or(b.HangMs, silenceMs))) && c.reset()
	case faultStatus:
		return c.playStatus()
	case faultResetAfterHeaders:
		c.open(200, c.contentType(), -1)
		return c.write() && c.reset()
	case faultWrongType:
		return c.body200("text/html; charset=utf-8", js(page), faulted)
	case faultEmpty:
		c.open(200, c.contentType(), 0)
		return c.finish(faulted)
	}
	if t.stream {
		return c.playStream()
	}
	return c.playWhole()
}

// contentType is that of a good answer.
func (c *conn) contentType() string {
	if c.t.stream && !c.t.a.array {
		return "text/event-stream"
	}
	return "application/json"
}

// open begins the response of this turn: status, request id, encoding. A negative length means chunked.
func (c *conn) open(status int, ctype string, length int) {
	t := &c.t
	t.status = status
	c.more = append(append(append(c.more[:0], "\r\n"...), t.d.idHeader()...), ": req_"...)
	c.more = strconv.AppendUint(c.more, t.a.n, 10)
	if t.z != nil && length != 0 {
		c.more = append(append(c.more, "\r\nContent-Encoding: "...), t.b.Compress...)
	}
	if t.fault == faultStatus && t.b.RetryAfter > 0 {
		c.more = strconv.AppendInt(append(c.more, "\r\nRetry-After: "...), int64(t.b.RetryAfter), 10)
	}
	c.head(status, ctype, length, c.more)
}

// body200 answers 200 with one body.
func (c *conn) body200(ctype string, body js, o outcome) bool {
	p := c.t.z.all(body)
	c.open(200, ctype, len(p))
	c.out = append(c.out, p...)
	return c.finish(o)
}

// playStatus answers an error status. As HTTP that is a whole answer.
func (c *conn) playStatus() bool {
	t, b := &c.t, c.t.b
	status := cmp.Or(b.ErrStatus, 500)
	if b.ErrBody != "" {
		c.tmp = c.tmp[:0].s(b.ErrBody)
	} else {
		c.tmp = t.d.refusal(c.tmp[:0], &t.a, status, b.ErrType)
	}
	p := t.z.all(c.tmp)
	c.open(status, cmp.Or(b.ErrContentType, "application/json"), len(p))
	c.out = append(c.out, p...)
	return c.finish(completed)
}

// playWhole answers with one JSON body.
func (c *conn) playWhole() bool {
	t := &c.t
	switch t.fault {
	case faultGarbage:
		return c.body200("application/json", js(garbage), faulted)
	case faultOversized:
		return c.body200("application/json", append(c.tmp[:0], `{"id":"`...).t(t.rules.text(t.b.oversized())), faulted)
	case faultFailed:
		return c.body200("application/json", t.d.(failing).failedWhole(c.tmp[:0], &t.a), faulted)
	}
	c.tmp = t.d.whole(c.tmp[:0], &t.a, t.rules.text(t.b.RespBytes))
	if t.fault == healthy {
		t.sent = 1
		t.tells(toldWhole)
		return c.body200("application/json", c.tmp, completed)
	}
	p := t.z.all(c.tmp) // stall or cut: half of the body, then the fault
	c.open(200, "application/json", len(p))
	c.out = append(c.out, p[:len(p)/2]...)
	return c.breakOff()
}

// breakOff writes what is pending and ends in the midst: by FIN, or by silence and RST.
func (c *conn) breakOff() bool {
	if !c.write() {
		return false
	}
	if c.t.fault == faultStall {
		return c.pause(millis(cmp.Or(c.t.b.StallMs, silenceMs))) && c.reset()
	}
	c.settle(faulted)
	return false
}
