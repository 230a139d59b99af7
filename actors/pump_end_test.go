package actors_test

import (
	"strings"
	"testing"
)

// event writes an event of Messages or Responses.
func event(data string) string {
	_, kind, _ := strings.Cut(data, `"type":"`)
	kind, _, _ = strings.Cut(kind, `"`)
	return "event: " + kind + "\ndata: " + data + "\n\n"
}

var (
	messageStart = event(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":20,"output_tokens":1}}}`)
	messageText  = event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`)
	messageDelta = event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`)
	messageStop  = event(`{"type":"message_stop"}`)
)

const messages = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`

// A compressed answer ends as a plain one does: also without its last blank line, and without the trailer of its compression,
// whether that is missed with the last event or after it (wire list 44).
func TestCompressedStreamsEndAsPlainOnesDo(t *testing.T) {
	cut := func(r reply) reply {
		last := &r.body[len(r.body)-1].data
		*last = (*last)[:len(*last)-4]
		return r
	}
	bare := strings.TrimSpace(messageStop)
	for name, rep := range map[string]reply{
		"plain, no blank line":             streaming(messageStart, messageText, messageDelta, bare),
		"no blank line":                    gzipped(messageStart, messageText, messageDelta, bare),
		"no trailer, everything at once":   cut(gzipped(messageStart + messageText + messageDelta + messageStop)),
		"no trailer, with the last events": cut(gzipped(messageStart, messageText, messageDelta+messageStop)),
		"no trailer, after the last event": cut(gzipped(messageStart, messageText, messageDelta, messageStop, "")),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			r.reply("a", rep)
			call := r.call("/v1/messages", messages)
			sent := ""
			for _, c := range rep.body {
				sent += c.data
			}
			if x := r.run(call); x.err != nil || x.body() != sent {
				t.Errorf("got %q, %v; want %q", x.body(), x.err, sent)
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | settled(completed 200 ok reported)")
			if s := r.settlement(call.ID); s.Usage.Input != 20 || s.Usage.Output != 7 {
				t.Errorf("used %+v", s.Usage)
			}
		})
	}
	half := bare[:len(bare)-5] // which is no end
	for name, rep := range map[string]reply{"plain": streaming(messageStart, messageText, half), "compressed": gzipped(messageStart, messageText, half)} {
		r := newRig(t, pair()...)
		r.reply("a", rep)
		call := r.call("/v1/messages", messages)
		if r.run(call); r.settlement(call.ID).Outcome != "failed" {
			t.Errorf("%s: half an event ends the stream", name)
		}
	}
}
