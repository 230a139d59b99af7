package dialect

import "github.com/penstock/penstock/domain/pricing"

// Format is how a streamed answer is framed.
type Format uint8

// The formats.
const (
	SSE       Format = iota // server-sent events
	JSONArray               // Gemini without alt=sse: one array, an element per event
)

const (
	heldMax   = 1 << 20  // an incomplete event above this size is not held any more
	headMax   = 4 << 10  // what is kept of the start of such an event
	tailMax   = 64 << 10 // what is kept of its end
	bufferMax = 64 << 10 // Reset gives larger buffers back
)

// Meter reads a streamed answer while its bytes pass: whether content has come, whether and how the stream has ended,
// and what it used. It never fails: what it cannot read it lets pass. The zero value meters chat events; Reset prepares
// it for any stream. A Meter belongs to one goroutine and may be reused through a pool.
type Meter struct {
	d      Dialect
	format Format
	f      framer
	held   []byte // the incomplete event at the end of what was fed
	head   []byte // of an event too large to be held: its start and its end
	tail   []byte

	content, finished, terminal, failed bool
	strips                              bool // Strip was used
	withheld                            bool // the last event was kept from the client
	candidates                          candidates

	events, output  int64
	acts            acts
	report          report
	source          pricing.Source
	model, id, tier string
	fault           StreamError
}

// Reset forgets everything and prepares the meter for a stream. Buffers are kept unless they have grown large.
func (m *Meter) Reset(d Dialect, format Format) {
	*m = Meter{
		d: d, format: format, source: pricing.None,
		held: reuse(m.held), head: reuse(m.head), tail: reuse(m.tail),
		f: framer{sse: sse{joined: reuse(m.f.joined)}},
	}
}

func reuse(b []byte) []byte {
	if cap(b) > bufferMax {
		return nil
	}
	return b[:0]
}

// Feed reads the next bytes of the answer, as they came. It returns how many bytes of p lie before the last event
// boundary; what follows is an incomplete event, of which the meter keeps a copy (Held). An event above 1 MiB is not
// held: all of p is then before a boundary, and the event is read from its start and end only. p is not retained.
func (m *Meter) Feed(p []byte) int {
	_, n := m.take(nil, p)
	return n
}

// Held is the incomplete event at the end of what was fed. It is valid until the next call.
func (m *Meter) Held() []byte { return m.held }

// Flush ends the stream: it appends what is still held and forgets it. Some upstreams do not end their last event with
// a blank line; it is read all the same.
func (m *Meter) Flush(dst []byte) []byte {
	n := len(m.held)
	if n == 0 {
		return dst
	}
	var fr frame
	whole := false
	if m.format == SSE {
		m.held = append(m.held, "\n\n"...)
		whole = m.f.next(m.held, SSE, &fr)
	}
	if whole && len(fr.data) > 0 {
		m.events++
		m.read(fr.name, fr.data)
	}
	if fr.raw = m.held[:n]; whole && m.strips {
		dst = m.forward(dst, &fr)
	} else {
		dst = append(dst, fr.raw...)
	}
	m.f = framer{sse: sse{joined: m.f.joined[:0]}, list: list{closed: m.f.closed}}
	m.held = m.held[:0]
	return dst
}

// take reads p. If the meter strips, what the client may see is appended to dst.
func (m *Meter) take(dst, p []byte) ([]byte, int) {
	if len(p) == 0 {
		return dst, 0
	}
	buf, old := p, len(m.held)
	if old > 0 {
		m.held = append(m.held, p...)
		buf = m.held
	}
	var fr frame
	for m.f.next(buf, m.format, &fr) {
		switch {
		case fr.big:
			m.tail = keepTail(m.tail, fr.raw)
			m.events++
			m.readBig()
		case len(fr.data) > 0:
			m.events++
			m.read(fr.name, fr.data)
		}
		if m.strips {
			dst = m.forward(dst, &fr)
		}
	}
	return m.keep(dst, buf, old)
}

// keep stores the incomplete event at the end of buf, of which the first old bytes came earlier.
func (m *Meter) keep(dst, buf []byte, old int) ([]byte, int) {
	end := m.f.start
	rest := buf[end:]
	if !m.f.big && len(rest) <= heldMax {
		m.held = append(m.held[:0], rest...)
		m.f.rebase(end)
		return dst, max(0, end-old)
	}
	if !m.f.big {
		m.head = append(m.head[:0], rest[:headMax]...)
		m.tail = m.tail[:0]
	}
	m.tail = keepTail(m.tail, rest)
	if m.strips {
		dst = append(dst, rest...)
	}
	m.f.rebase(end)
	m.f.drop(len(rest))
	m.held = m.held[:0]
	return dst, len(buf) - old
}

// keepTail appends p to tail and keeps the last tailMax bytes.
func keepTail(tail, p []byte) []byte {
	if len(p) >= tailMax {
		return append(tail[:0], p[len(p)-tailMax:]...)
	}
	if over := len(tail) + len(p) - tailMax; over > 0 {
		tail = append(tail[:0], tail[over:]...)
	}
	return append(tail, p...)
}

// Content says that a content-bearing event has come: text, reasoning, refusal, or a tool call (also one without
// arguments). Role chunks, pings, frames around content, finish reasons and usage are no content.
func (m *Meter) Content() bool { return m.content }

// Finished says that the model has given its reason to stop.
func (m *Meter) Finished() bool { return m.finished }

// Terminal says that the dialect's last event has come: [DONE], response.completed, .incomplete or .failed,
// message_stop, or a finish reason of each of Gemini's candidates. The latter is taken back when one of them goes on.
func (m *Meter) Terminal() bool { return m.terminal }

// Ended says that nothing of the answer can follow: its last event has come. Gemini's events have no last one, only its array
// has an end: a stream of events ends with its body.
func (m *Meter) Ended() bool {
	return m.terminal && m.Complete() && (m.d != Gemini || m.format == JSONArray)
}

// Whole says that everything of the answer has come, so that it does not matter how its body ends. That is not so when reasons
// to stop came with events behind which the answer went on: the next one may be missing.
func (m *Meter) Whole() bool { return m.terminal && m.Complete() && !m.candidates.loose }

// Complete says that a stream that ends here is complete; if not, the answer was cut (pain 56).
func (m *Meter) Complete() bool {
	switch {
	case m.failed:
		return false
	case m.format == JSONArray:
		return m.terminal && m.f.closed
	case m.d == OpenAIResponses, m.d == AnthropicMessages, m.d == Gemini:
		return m.terminal
	}
	return m.terminal || m.finished
}

// Failed says that the stream itself carried an error.
func (m *Meter) Failed() bool { return m.failed }

// Failure is the error that the stream carried; the first one, if there were several.
func (m *Meter) Failure() StreamError { return m.fault }

// Usage is what the stream reported so far: Reported once it was in the terminal report, Partial from an early one,
// None before any, and for one that says nothing but zeros of an answer with content. What the provider did for the answer, such
// as searches, is counted as it passes.
func (m *Meter) Usage() (pricing.Usage, pricing.Source) {
	if !m.report.has || m.content && m.report.empty() {
		return pricing.Usage{}, pricing.None
	}
	u, _ := m.report.usage(m.d)
	m.acts.into(&u)
	if m.d == Gemini && !m.terminal && m.source == pricing.Reported { // by a candidate that ended before the others, or went on
		return u, pricing.Partial
	}
	return u, m.source
}

// WithActs is a usage that was guessed, and what the provider has done for the answer so far.
func (m *Meter) WithActs(u pricing.Usage) pricing.Usage {
	m.acts.into(&u)
	return u
}

// Clamped says that the upstream reported more than can be: a part above its whole, or a negative count. Usage has
// what is left of it.
func (m *Meter) Clamped() bool {
	_, clamped := m.report.usage(m.d)
	return clamped
}

// Model is the model that the upstream says it used.
func (m *Meter) Model() string { return m.model }

// ID is the answer's id.
func (m *Meter) ID() string { return m.id }

// ServiceTier is the tier that the upstream says it served.
func (m *Meter) ServiceTier() string { return m.tier }

// OutputBytes is how many bytes of text, reasoning, refusals and tool arguments have come, as UTF-8.
func (m *Meter) OutputBytes() int64 { return m.output }

// Events is how many events with a payload have come.
func (m *Meter) Events() int64 { return m.events }

// AtBoundary says that no incomplete event has been fed: something may be appended to the stream.
func (m *Meter) AtBoundary() bool { return len(m.held) == 0 && !m.f.big }

// Torn says that a part of an event has passed that is not complete: what is appended to the stream would belong to it.
func (m *Meter) Torn() bool { return m.f.big }

// acts are what a provider did for an answer and bills beside its tokens.
type acts struct{ images, webSearches, fileSearches int64 }

// into adds the acts to a usage that may count the searches too.
func (a *acts) into(u *pricing.Usage) {
	u.Images += a.images
	u.WebSearches = max(u.WebSearches, a.webSearches)
	u.FileSearches += a.fileSearches
}

// step is what one event says; it counts only if the event is valid.
type step struct {
	yield
	acts               acts
	model, id, tier    []byte // as written; nil if absent
	finished, terminal bool
	failed             bool
	report             report
	source             pricing.Source // of report; empty if the event has none
	fault              StreamError

	seen, said, ended uint64 // Gemini: its candidates, those with content, and those with a reason to stop, a bit each
}

// read takes one event in.
func (m *Meter) read(name, data []byte) {
	switch m.d {
	case OpenAIResponses:
		m.readResponses(name, data)
	case AnthropicMessages:
		m.readMessages(name, data)
	case Gemini:
		m.readGemini(data)
	default:
		m.readChat(name, data)
	}
}

// apply makes a valid event part of the state.
func (m *Meter) apply(s *step) {
	m.content = m.content || s.content
	m.finished = m.finished || s.finished
	m.terminal = m.terminal || s.terminal
	if m.d == Gemini {
		m.terminal = m.candidates.take(s) && m.finished
	}
	m.output += s.output
	m.acts.images += s.acts.images
	m.acts.fileSearches += s.acts.fileSearches
	if m.d == Gemini { // each report is of the whole answer
		m.acts.webSearches = max(m.acts.webSearches, s.acts.webSearches)
	} else {
		m.acts.webSearches += s.acts.webSearches
	}
	note(&m.model, s.model)
	note(&m.id, s.id)
	note(&m.tier, s.tier)
	switch {
	case s.source != "" && s.report.has:
		m.report = s.report
		if m.source != pricing.Reported {
			m.source = s.source
		}
	case s.content:
		m.outrun()
	}
	if s.failed && !m.failed {
		m.failed, m.fault = true, s.fault
	}
}

// more takes in what an event yields that has nothing else.
func (m *Meter) more(y *yield) {
	if m.output += y.output; y.content {
		m.outrun()
	}
}

// outrun says that content came behind the last report: whatever that looked like, the answer went on.
func (m *Meter) outrun() {
	if m.source == pricing.Reported {
		m.source = pricing.Partial
	}
}

// note keeps a name; the same one again costs nothing.
func note(to *string, raw []byte) {
	if len(raw) > 0 && len(raw) <= 512 && *to != string(raw) {
		*to = string(plain(raw))
	}
}
