package dialect

import "time"

// KeepAlive says how long a client is left in silence while its request waits for a slot. The zero value leaves it
// there for good.
//
// A sign of life can only be sent after the head of a 200, and with it a refusal loses its own status and becomes an
// event in the stream; SDKs then no longer try again by themselves. So nothing is sent until the silence lasted so long
// that somebody on the way (a proxy, most often after 60 s) would soon cut the connection.
type KeepAlive struct {
	After time.Duration // from the arrival of the request to the head and the first sign; 0: never
	Every time.Duration // between two signs; 0: as After
}

// signs is what a waiting client of each dialect may read before its answer, and takes for nothing (wire.md 2.5).
//
//   - Messages: Anthropic's own ping. It resets the idle watchdog of Claude Code, so it must end with the wait: what
//     keeps silence after that is an upstream, and its silence is bounded elsewhere (pain of sub2api#1707).
//   - Responses: a comment.
//   - Chat: an empty event. A comment after an id line breaks openai-go up to 3.42 and openai-python up to 2.37.
//   - Gemini: an empty event, exactly. Its SDKs throw on comments and on a single line end.
//
// Pass-through endpoints have no dialect, thus no sign.
var signs = [...]string{
	None:              "",
	OpenAIChat:        "\n\n",
	OpenAIResponses:   ": keepalive\n\n",
	AnthropicMessages: "event: ping\ndata: {\"type\":\"ping\"}\n\n",
	Gemini:            "\n\n",
}

// Sign is the bytes that keep a waiting client of a dialect alive, a whole event each; "" when there are none that all
// clients take: an array of JSON has none.
func Sign(d Dialect, f Format) string {
	if f != SSE || int(d) >= len(signs) {
		return ""
	}
	return signs[d]
}

// Heartbeat is one client that waits: when it gets signs of life, and whether its head has been sent. The zero value
// sends none. It is the pure part; its owner has the clock and the connection:
//
//	h := NewHeartbeat(policy, dialect, format, stream, arrived)
//	at h.Next(), while the request waits: send h.Beat(now), before it the head of a 200 if told so
//	refused: h.Committed() decides between a status with a body and h.AppendRefusal
//	answered: after a head, only the events of the answer follow
type Heartbeat struct {
	sign      string
	d         Dialect
	f         Format
	every     time.Duration
	next      time.Time
	committed bool
}

// NewHeartbeat begins at the arrival of a request. A request that does not stream, or whose dialect has no safe sign,
// gets none.
func NewHeartbeat(k KeepAlive, d Dialect, f Format, stream bool, arrived time.Time) Heartbeat {
	h := Heartbeat{d: d, f: f, every: k.Every}
	if h.every <= 0 {
		h.every = k.After
	}
	if sign := Sign(d, f); stream && k.After > 0 && sign != "" {
		h.sign, h.next = sign, arrived.Add(k.After)
	}
	return h
}

// Next is when the next sign is due; zero: never.
func (h *Heartbeat) Next() time.Time { return h.next }

// Beat is what to send now: nothing before Next, else one sign, and head says that the head of a 200 goes before it. It
// counts on being sent. Signs that were missed are not made up for.
func (h *Heartbeat) Beat(now time.Time) (sign string, head bool) {
	if h.sign == "" || now.Before(h.next) {
		return "", false
	}
	head = !h.committed
	h.committed, h.next = true, now.Add(h.every)
	return h.sign, head
}

// Committed says that the client has the head of a 200.
func (h *Heartbeat) Committed() bool { return h.committed }

// AppendRefusal appends what ends a stream in which nothing but signs was sent: the error event of the dialect, never
// its mark of a complete answer (pain 56). What a Responses event needs and e lacks is made from the request's id.
func (h *Heartbeat) AppendRefusal(dst []byte, e Error) []byte {
	if h.d == OpenAIResponses && e.ResponseID == "" {
		e.ResponseID = "resp_" + e.RequestID
	}
	return AppendStreamError(dst, h.d, h.f, e)
}
