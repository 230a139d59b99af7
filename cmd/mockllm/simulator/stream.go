package simulator

// playStream answers with a stream of events, one HTTP chunk each.
func (c *conn) playStream() bool {
	t := &c.t
	c.open(200, c.contentType(), -1)
	switch t.fault {
	case faultGarbage:
		if !t.a.array {
			c.event(append(c.tmp[:0], "data: "...).s(garbage).s("\n\n"))
		} else {
			c.event(append(c.tmp[:0], garbage...))
		}
		return c.endStream(faulted)
	case faultOversized:
		if t.a.array {
			c.event(append(c.tmp[:0], `[{"id":"`...).t(t.rules.text(t.b.oversized())))
		} else {
			c.event(append(c.tmp[:0], `data: {"id":"`...).t(t.rules.text(t.b.oversized())))
		}
		return c.endStream(faulted)
	case faultNoContent:
		c.event(t.d.start(c.tmp[:0], &t.a))
		t.tells(toldStart)
		if t.a.array {
			c.event(c.tmp[:0].s("]"))
		}
		return c.endStream(faulted)
	}
	c.event(t.d.start(c.tmp[:0], &t.a))
	t.tells(toldStart)
	limit := t.b.Chunks
	if t.fault != healthy {
		limit = min(limit, t.b.FaultAfter)
	}
	if !c.playChunks(limit) {
		return false
	}
	switch t.fault {
	case faultStall, faultTrunc:
		return c.breakOff()
	case faultMidstream:
		c.event(t.d.broken(c.tmp[:0], &t.a, t.sent))
		c.endStream(faulted)
		return false
	case faultFailed:
		c.event(t.d.(failing).failedEvent(c.tmp[:0], &t.a, t.sent))
		return c.endStream(faulted)
	}
	c.event(t.d.end(c.tmp[:0], &t.a, t.rules.text(t.b.ChunkBytes), t.sent))
	t.tells(toldWhole)
	return c.endStream(completed)
}

// playChunks sends content chunks; false means that the client is gone. Without a delay the events wait for
// flush_every of them, the start events counting as one, and the last may still be pending on return.
func (c *conn) playChunks(limit int) bool {
	t := &c.t
	flush := max(1, t.b.FlushEvery)
	delay := millis(t.b.ChunkMs)
	txt := t.rules.text(t.b.ChunkBytes)
	pending := 1
	for i := range limit {
		if delay > 0 && i > 0 && !c.pause(delay) {
			return false
		}
		c.event(t.d.delta(c.tmp[:0], &t.a, txt, i))
		t.tells(toldRunning)
		if pending++; delay > 0 || pending >= flush {
			if !c.write() {
				return false
			}
			pending = 0
		}
		t.sent = i + 1
	}
	return true
}

// event appends one event, compressed if need be, as one HTTP chunk. p is kept as the buffer of the next one.
func (c *conn) event(p js) {
	c.tmp = p
	c.chunk(c.t.z.add(p))
}

// endStream ends the body as HTTP wants it and settles the turn.
func (c *conn) endStream(o outcome) bool {
	c.chunk(c.t.z.end())
	c.out = append(c.out, "0\r\n\r\n"...)
	return c.finish(o)
}
