package actors_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
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

const responses = `{"model":"m","stream":true,"input":"hi"}`

// OpenAI ends a response that fails with an error and response.failed: clients read the one or the other, and the last one says what
// has been used. An array is no JSON without its bracket. Nothing else passes behind an error.
func TestWhatFollowsAnErrorPassesAsFarAsItIsOfUse(t *testing.T) {
	const array = `[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
	const broken = ",\r\n" + `{"error":{"code":500,"message":"boom","status":"INTERNAL"}}` + "\n"
	text := event(`{"type":"response.output_text.delta","delta":"hello"}`)
	fault := event(`{"type":"error","sequence_number":2,"error":{"type":"server_error","code":"server_error","message":"boom"}}`)
	failed := event(`{"type":"response.failed","response":{"id":"r","error":{"code":"server_error","message":"boom"},"usage":{"input_tokens":10,"output_tokens":7}}}`)
	completed := event(`{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":10,"output_tokens":7}}}`)
	const stream, arrays, chats = "/v1/responses", "/v1beta/models/m:streamGenerateContent", "/v1/chat/completions"
	for name, c := range map[string]struct {
		path, body string
		rep        reply
		want       string
		source     string
	}{
		"error and failed":                   {stream, responses, streaming(text, fault, failed), text + fault + failed, "reported"},
		"error and failed in one read":       {stream, responses, streaming(text + fault + failed), text + fault + failed, "reported"},
		"failed alone":                       {stream, responses, streaming(text, failed), text + failed, "reported"},
		"error alone":                        {stream, responses, streaming(text, fault), text + fault, "estimated"},
		"error, then broken off":             {stream, responses, replyOf(chunk{data: text + fault}, chunk{err: actors.PhaseBody}), text + fault, "estimated"},
		"error and a false end":              {stream, responses, streaming(text, fault, completed), text + fault, "reported"},
		"error and a false end, in one read": {stream, responses, streaming(text + fault + completed), text + fault, "reported"},
		"array":                              {arrays, `{}`, streaming(array, broken, "]"), array + broken + "]", "estimated"},
		"array in one read":                  {arrays, `{}`, streaming(array + broken + "]"), array + broken + "]", "estimated"},
		"error that lacks its blank line":    {chats, chatStream, streaming(hello, strings.TrimSpace(inError)), hello + strings.TrimSpace(inError), "estimated"},
		"end that lacks its blank line":      {chats, chatStream, streaming(hello + inError + strings.TrimSpace(done)), hello + inError, "estimated"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rep.header = sseHeader; c.path == arrays {
				c.rep.header = jsonHeader
			}
			r := newRig(t, pair()...)
			r.reply("a", c.rep)
			call := r.call(c.path, c.body)
			if x := r.run(call); x.err != nil || x.body() != c.want {
				t.Errorf("got %q, %v\nwant %q", x.body(), x.err, c.want)
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut "+c.source+")")
		})
	}
}

// A client that hangs up over an error which it was sent has not cancelled its request: the upstream has failed.
func TestAClientThatGoesOverAnErrorHasNotCancelled(t *testing.T) {
	fault := event(`{"type":"error","sequence_number":2,"error":{"type":"server_error","message":"boom"}}`)
	r := newRig(t, pair(disconnect("cancel"))...)
	call := r.call("/v1/responses", responses)
	r.reply("a", replyOf(chunk{data: event(`{"type":"response.output_text.delta","delta":"hello"}`) + fault}, chunk{do: call.Gone.Fire, hold: make(chan struct{})}))
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)")
	if f, _ := r.system.Board().Figures("a"); f.Failures != 1 {
		t.Errorf("%d failures are counted", f.Failures)
	}
}

// An upstream that keeps the connection open behind an error is not waited for longer than behind any last event.
func TestTheLastWordIsNotWaitedForForEver(t *testing.T) {
	r := newRig(t, pair()...)
	fault := event(`{"type":"error","sequence_number":2,"error":{"type":"server_error","message":"boom"}}`)
	r.reply("a", replyOf(chunk{data: event(`{"type":"response.output_text.delta","delta":"hello"}`) + fault}, chunk{hold: make(chan struct{})}))
	call, began := r.call("/v1/responses", responses), time.Now()
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The error at the end of an event that was too large to be held stands by itself.
func TestAnErrorBehindHalfALargeEventStandsByItself(t *testing.T) {
	half := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("four", 1<<19)
	r := newRig(t, pair()...)
	r.reply("a", streaming(hello, half))
	if x := r.run(r.stream()); !strings.HasPrefix(x.body(), hello+half+"\n\ndata: {\"error\":") {
		t.Errorf("%d bytes, at the end %q", len(x.body()), x.body()[max(0, len(x.body())-300):])
	}
}

// How a stream is framed is what the upstream says it is: a relay may answer with events where Google sends an array, and where it
// takes the wish for events from a query that is escaped.
func TestAStreamIsReadAsItIsFramed(t *testing.T) {
	const text = `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
	const end = `{"candidates":[{"content":{"parts":[{"text":" you"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}`
	const events = "data: " + text + "\r\n\r\ndata: " + end + "\r\n\r\n"
	for name, c := range map[string]struct{ query, kind, body string }{
		"events for an array":       {"", "text/event-stream", events},
		"events for an escaped alt": {"?%61lt=sse", "text/event-stream", events},
		"a type in capitals":        {"?alt=sse", "Text/Event-Stream; charset=UTF-8", events},
		"an array":                  {"?alt=json", "application/json; charset=UTF-8", "[" + text + ",\r\n" + end + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			r.reply("a", reply{header: map[string]string{"Content-Type": c.kind}, body: texts(c.body[:40], c.body[40:])})
			call := r.call("/v1beta/models/m:streamGenerateContent"+c.query, `{"contents":[{"parts":[{"text":"hi"}]}]}`)
			if x := r.run(call); x.body() != c.body {
				t.Errorf("got %q\nwant %q", x.body(), c.body)
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | settled(completed 200 ok reported)")
			if s := r.settlement(call.ID); s.Usage.Input != 10 || s.Usage.Output != 5 {
				t.Errorf("used %+v", s.Usage)
			}
		})
	}
}

// A large picture is no text that was put out: what breaks off behind one is billed for the picture, not for its bytes (pain 9).
func TestALargePictureIsNotBilledAsText_Pain9(t *testing.T) {
	picture := event(`{"type":"response.output_item.done","item":{"type":"image_generation_call","result":"` + strings.Repeat("QUJD", 1<<19) + `"}}`)
	r := newRig(t, pair()...)
	r.reply("a", replyOf(chunk{data: event(`{"type":"response.output_text.delta","delta":"hello"}`) + picture}, chunk{err: actors.PhaseBody}))
	call := r.call("/v1/responses", responses)
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 a1) | settled(failed 200 STREAM_ERROR stream_cut estimated)")
	if s := r.settlement(call.ID); s.Usage.Output != 2 || s.Usage.Images != 1 {
		t.Errorf("used %+v", s.Usage)
	}
}
