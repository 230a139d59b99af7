package dialect

import (
	"strings"
	"testing"
	"time"
)

var arrival = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestSignsAreWhatEachDialectsClientsTakeForNothing_wire2_5(t *testing.T) {
	for _, c := range []struct {
		d    Dialect
		f    Format
		want string
	}{
		{AnthropicMessages, SSE, "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
		{OpenAIResponses, SSE, ": keepalive\n\n"},
		{OpenAIChat, SSE, "\n\n"}, // a comment would break openai-go up to 3.42 and openai-python up to 2.37
		{Gemini, SSE, "\n\n"},     // a comment or a single line end would break @google/genai, genai for Go and gemini-cli
		{Gemini, JSONArray, ""},
		{None, SSE, ""},
		{Dialect(99), SSE, ""},
	} {
		if got := Sign(c.d, c.f); got != c.want {
			t.Errorf("%v, format %d: %q, want %q", c.d, c.f, got, c.want)
		}
	}
}

// A sign must be nothing to our own reader too, before an answer as between its events.
func TestASignIsNeitherContentNorFailureNorEnd(t *testing.T) {
	for _, d := range dialects {
		got := meter(t, d, SSE, strings.Repeat(Sign(d, SSE), 3))
		if got.Content || got.Failed || got.Complete || !got.Boundary {
			t.Errorf("%v: %+v", d, got)
		}
	}
}

func TestTheHeadIsHeldBackUntilTheSilenceGetsDangerous(t *testing.T) {
	policy := KeepAlive{After: 45 * time.Second, Every: 10 * time.Second}
	type beat struct {
		at   time.Duration // after the arrival
		sign bool
		head bool
	}
	for _, c := range []struct {
		says   string
		policy KeepAlive
		d      Dialect
		f      Format
		stream bool
		beats  []beat
		next   time.Duration // after all that; 0: never
	}{
		{"nothing before its time: errors keep their status", policy, OpenAIChat, SSE, true,
			[]beat{{0, false, false}, {30 * time.Second, false, false}, {45*time.Second - 1, false, false}}, 45 * time.Second},
		{"then the head once, and a sign at every interval", policy, AnthropicMessages, SSE, true,
			[]beat{{45 * time.Second, true, true}, {50 * time.Second, false, false}, {55 * time.Second, true, false}, {65 * time.Second, true, false}}, 75 * time.Second},
		{"a late timer does not make up for what it missed", policy, OpenAIResponses, SSE, true,
			[]beat{{90 * time.Second, true, true}, {91 * time.Second, false, false}}, 100 * time.Second},
		{"no interval: as long as the first", KeepAlive{After: 20 * time.Second}, Gemini, SSE, true,
			[]beat{{20 * time.Second, true, true}}, 40 * time.Second},
		{"switched off", KeepAlive{Every: time.Second}, OpenAIChat, SSE, true, []beat{{time.Hour, false, false}}, 0},
		{"not a stream", policy, OpenAIChat, SSE, false, []beat{{time.Hour, false, false}}, 0},
		{"an array has no safe sign", policy, Gemini, JSONArray, true, []beat{{time.Hour, false, false}}, 0},
		{"pass-through has none", policy, None, SSE, true, []beat{{time.Hour, false, false}}, 0},
	} {
		h := NewHeartbeat(c.policy, c.d, c.f, c.stream, arrival)
		committed := false
		for _, b := range c.beats {
			sign, head := h.Beat(arrival.Add(b.at))
			if (sign != "") != b.sign || head != b.head || sign != "" && sign != Sign(c.d, c.f) {
				t.Errorf("%s: at %s sign %q, head %v", c.says, b.at, sign, head)
			}
			if committed = committed || head; h.Committed() != committed {
				t.Errorf("%s: at %s committed: %v", c.says, b.at, h.Committed())
			}
		}
		want := time.Time{}
		if c.next > 0 {
			want = arrival.Add(c.next)
		}
		if !h.Next().Equal(want) {
			t.Errorf("%s: next at %s, want %s", c.says, h.Next(), want)
		}
	}
	if zero := (Heartbeat{}); zero.Next() != (time.Time{}) || zero.Committed() {
		t.Error("the zero value sends nothing")
	}
}

// After signs, a refusal is an event of the stream that every dialect's reader takes for a failure (A52, A53, pain 56).
func TestARefusalAfterSignsIsAFailureInTheStream(t *testing.T) {
	for _, e := range []Error{
		{Status: 504, Code: "QUEUE_WAIT_TIMEOUT", Type: "timeout", Message: "no slot became free in time", RequestID: "r-1"},
		{Status: 503, Code: "ALL_UPSTREAMS_UNAVAILABLE", Reason: "UPSTREAM_CIRCUIT_OPEN", Message: "nobody is left", RequestID: "r-1", RetryAfter: 3},
		{Status: 429, Code: "API_KEY_QUOTA_EXCEEDED", Message: "spent while it waited", RequestID: "r-1"},
		{Status: 503, Code: "DRAINING", Message: "the gateway is going down", RequestID: "r-1"},
	} {
		for _, d := range dialects {
			if Sign(d, SSE) == "" {
				continue // its client never has a head before the answer
			}
			h := NewHeartbeat(KeepAlive{After: time.Second}, d, SSE, true, arrival)
			stream := ""
			for range 2 {
				sign, _ := h.Beat(h.Next())
				stream += sign
			}
			stream += string(h.AppendRefusal(nil, e))
			got := meter(t, d, SSE, stream)
			if !h.Committed() || !got.Failed || got.Complete || got.Content || !got.Boundary || got.Failure.Message != e.Message {
				t.Errorf("%v, %s: %+v", d, e.Code, got)
			}
			for _, mark := range []string{"[DONE]", "response.completed", "message_stop", "finishReason", "finish_reason", `"id":""`} {
				if strings.Contains(stream, mark) {
					t.Errorf("%v, %s: carries %s", d, e.Code, mark)
				}
			}
			if !strings.Contains(stream, e.Code) || !strings.Contains(stream, `"did_send_upstream":false`) {
				t.Errorf("%v: %s", d, stream)
			}
		}
	}
}

// What follows a head and signs is the answer as it came: the reader meters it as if they had not been there.
func TestAnAnswerAfterSignsIsReadAsOneWithout(t *testing.T) {
	for d, answer := range map[Dialect]string{
		OpenAIChat:        "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		AnthropicMessages: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		OpenAIResponses:   "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"model\":\"m\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
		Gemini:            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"finishReason\":\"STOP\"}]}\r\n\r\n",
	} {
		plain := meter(t, d, SSE, answer)
		signed := meter(t, d, SSE, Sign(d, SSE)+Sign(d, SSE)+answer)
		if !plain.Content || !signed.Content || signed.Failed || signed.Complete != plain.Complete || signed.Usage != plain.Usage {
			t.Errorf("%v: with signs %+v, without %+v", d, signed, plain)
		}
	}
}
