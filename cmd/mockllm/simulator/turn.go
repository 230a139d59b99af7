package simulator

import "strings"

// turn is one request being answered.
type turn struct {
	d       dialect
	b       *Behavior
	rules   *ruleSet
	a       answer
	stream  bool
	fault   fault
	gauges  [4]*gauge
	rec     *record // nil when not tracked
	call    *Call   // nil when not tracked
	told    string  // how much of the usage; "" is none
	z       *squeezer
	status  int // sent; 0 = none
	sent    int // content chunks
	settled bool
}

// answer serves one request; it returns false when the connection is to be closed.
func (c *conn) answer(d dialect, model string) bool {
	s, t := c.s, &c.t
	if model == "" {
		model = intern(word(c.body, `"model"`), c.model)
	}
	c.model = model
	*t = turn{d: d, rules: s.rules.Load()}
	t.stream, t.a.array = d.streams(c.path, c.body)
	n := s.seq.Add(1)
	t.gauges = c.gauges()
	if s.exact && s.all.now.Load() >= s.all.max.Load() {
		s.discount(c)
	}
	c.counted.Store(true) // first: who is in a gauge can be taken out of it
	for _, g := range t.gauges {
		g.enter()
	}
	if s.track {
		t.rec = s.diary.arrive(n, c)
	}
	t.b = t.rules.pick(c.key, model, c.path)
	_, canFail := d.(failing)
	t.fault = t.b.draw(s.seed, n, t.stream, canFail)
	t.a.model, t.a.n, t.a.created = model, n, s.began
	t.a.usage = usageOf(t.b, len(c.body), t.stream)
	t.a.askedUsage = t.b.AlwaysUsage || (t.stream && isTrue(c.body, `"include_usage"`))
	t.a.retryAfter = t.b.RetryAfter
	if err := t.a.usage.choose(c.body); err != nil {
		c.decline(err)
	}
	t.a.usage.keep(d)
	if s.track {
		t.call = s.diary.begin(c, t)
	}
	t.z = newSqueezer(t.b.Compress)
	// From here the body is not looked at again: pause may move the buffer.
	keep := c.play()
	if !t.settled {
		c.settle(aborted)
	}
	return keep
}

// decline has a request answered with an error that says what is wrong with it.
func (c *conn) decline(err error) {
	b := *c.t.b
	_, body := failure(400, err.Error())
	b.ErrStatus, b.ErrBody, b.ErrContentType = 400, string(body), ""
	c.t.b, c.t.fault = &b, faultStatus
}

// content is how many bytes of text were sent.
func (t *turn) content() int {
	if t.stream {
		return t.sent * t.b.ChunkBytes
	}
	return t.sent * t.b.RespBytes
}

// gauges are those of all requests and of this one's key, model and path.
func (c *conn) gauges() [4]*gauge {
	s := c.s
	p, _, _ := strings.Cut(c.path, "?")
	if c.gKey == nil || c.key != c.lastKey {
		c.lastKey, c.gKey = c.key, s.byKey.get(c.key)
	}
	if c.gModel == nil || c.model != c.lastModel {
		c.lastModel, c.gModel = c.model, s.byModel.get(c.model)
	}
	if c.gPath == nil || p != c.lastPath {
		c.lastPath, c.gPath = p, s.path.get(p)
	}
	return [4]*gauge{&s.all, c.gKey, c.gModel, c.gPath}
}

// settle counts the end of the turn. It comes before the last write, so that whoever has seen the end of an
// answer finds it counted.
func (c *conn) settle(o outcome) {
	s, t := c.s, &c.t
	t.settled = true
	s.chunks.Add(int64(t.sent))
	switch t.status {
	case 0:
	case 200:
		s.ok.Add(1)
	default:
		s.statusMu.Lock()
		s.status[t.status]++
		s.statusMu.Unlock()
	}
	if o == faulted || t.fault == faultStatus {
		s.faults[t.fault].Add(1)
	}
	counted := c.counted.CompareAndSwap(true, false)
	for _, g := range t.gauges {
		g.leave(o, counted)
	}
	if t.rec != nil {
		s.diary.leave(t.rec, o, t.status, t.sent)
	}
	if t.call != nil {
		s.diary.close(t.call, t, o, t.content())
	}
}

// finish settles the turn and writes the last bytes. It returns whether the connection lives on.
func (c *conn) finish(o outcome) bool {
	c.settle(o)
	if c.write() {
		return true
	}
	if o == completed { // the client went away at the last moment
		for _, g := range c.t.gauges {
			g.ends[completed].Add(-1)
			g.ends[aborted].Add(1)
		}
		if c.t.rec != nil {
			c.s.diary.amend(c.t.rec, c.t.status)
		}
		if c.t.call != nil {
			c.s.diary.close(c.t.call, &c.t, aborted, c.t.content())
		}
	}
	return false
}

// reset settles the turn as faulted and has the connection end with RST.
func (c *conn) reset() bool {
	c.settle(faulted)
	c.c.SetLinger(0)
	return false
}
