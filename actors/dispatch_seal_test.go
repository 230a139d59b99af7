package actors_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/actors"
)

// ending is an answer by whose end a client knows that it has all of it.
type ending struct {
	path, body string
	reply      reply
	begins     string // what a client has before the settlement is stored, as far as there is a stream
	ends       string // what it must not have before; "": nothing at all
}

const (
	gemini     = `{"contents":[{"parts":[{"text":"hi"}]}]}`
	geminiOne  = `{"candidates":[{"content":{"parts":[{"text":"hello"}]}}]}`
	geminiLast = `{"candidates":[{"content":{"parts":[{"text":"."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`
	claude     = `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	claudeOne  = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"x","usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
		`event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}` + "\n\n"
	claudeLast = `event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" +
		`event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
)

var endings = map[string]ending{
	"answer":      {"/v1/chat/completions", chat, whole(okBody), "", ""},
	"error":       {"/v1/chat/completions", chat, refusing(400, `{"error":{"message":"no"}}`), "", ""},
	"fault":       {"/v1/chat/completions", chat, reply{fail: actors.PhaseLocal}, "", ""},
	"panic":       {"/v1/chat/completions", chat, reply{panics: "headers"}, "", ""},
	"chat":        {"/v1/chat/completions", chatStream, okStream(), "hello", "[DONE]"},
	"at once":     {"/v1/chat/completions", chatStream, streaming(role + hello + finish + usage + done), "", ""},
	"messages":    {"/v1/messages", claude, streaming(claudeOne, claudeLast), "hello", "message_stop"},
	"gemini":      {"/v1beta/models/m:streamGenerateContent?alt=sse", gemini, streaming("data: "+geminiOne+"\n\n", "data: "+geminiLast+"\n\n"), "hello", "STOP"},
	"array":       {"/v1beta/models/m:streamGenerateContent", gemini, reply{header: jsonHeader, body: texts("["+geminiOne, ","+geminiLast, "]")}, "hello", "STOP"},
	"cut":         {"/v1/chat/completions", chatStream, reply{header: sseHeader, body: []chunk{{data: role + hello}, {err: actors.PhaseBody}}}, "hello", "error"},
	"it failed":   {"/v1/chat/completions", chatStream, streaming(role, hello, inError), "hello", "boom"},
	"not the end": {"/v1/chat/completions", chatStream, streaming(role, hello, finish, strings.ReplaceAll(hello, "hello", "again"), usage, done), "again", "[DONE]"},
}

// No end of an answer reaches its client before the settlement is stored, and then it does, byte by byte.
func TestTheEndOfAnAnswerWaitsForItsSettlement(t *testing.T) {
	for name, e := range endings {
		t.Run(name, func(t *testing.T) {
			plain := newRig(t, pair()...)
			plain.reply("a", e.reply)
			want := plain.run(plain.call(e.path, e.body))

			r := newRig(t, pair()...)
			r.Durability = actors.AtSettlement
			r.reply("a", e.reply)
			hold, came := make(chan struct{}), make(chan struct{})
			once := sync.OnceFunc(func() { close(came) })
			r.store.mu.Lock()
			r.store.check = func(types string) (chan struct{}, bool) {
				if !strings.HasSuffix(types, "request.settled") && !strings.HasSuffix(types, "request.settled@2") {
					return nil, false
				}
				once()
				return hold, false
			}
			r.store.mu.Unlock()
			x := &client{wrote: make(chan string, 100)}
			over := make(chan struct{})
			call := r.call(e.path, e.body)
			go func() { defer close(over); r.runAs(x, call) }()
			<-came // the settlement is on its way; every write before it has been made
			got := ""
			for len(x.wrote) > 0 {
				got += <-x.wrote
			}
			select {
			case <-over:
				t.Error("the answer has ended before its settlement was stored")
			default:
			}
			if !strings.Contains(got, e.begins) || e.ends == "" && got != "" || e.ends != "" && strings.Contains(got, e.ends) {
				t.Errorf("before the settlement is stored the client has %q", got)
			}
			if f, _ := r.system.Board().Figures("a"); f.Held > 0 {
				r.until("the slot to be free", func() bool { f, _ := r.system.Board().Figures("a"); return f.Held == 0 })
			}
			close(hold)
			<-over
			if x.Status != want.Status || x.body() != want.body() || (x.err == nil) != (want.err == nil) {
				t.Errorf("%d %q (%v), want %d %q (%v)", x.Status, x.body(), x.err, want.Status, want.body(), want.err)
			}
			r.laws()
		})
	}
}

// While the store is away the end waits for it; a client that goes has not seen it.
func TestWithoutItsSettlementAnAnswerHasNoEnd(t *testing.T) {
	for name, e := range endings {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			r.Durability = actors.AtSettlement
			r.reply("a", e.reply)
			r.store.mu.Lock()
			broken := true
			r.store.check = func(types string) (chan struct{}, bool) {
				return nil, broken && strings.Contains(types, "request.settled")
			}
			r.store.mu.Unlock()
			x := r.begin(r.call(e.path, e.body))
			r.until("the fault", func() bool { return r.journal.Fault() != nil })
			select {
			case <-x.over:
				t.Errorf("answered %d %s", x.Status, x.body())
			default:
			}
			x.call.Gone.Fire()
			<-x.over
			switch got := x.body(); {
			case x.Stream != nil && x.err == nil:
				t.Errorf("the connection is not cut behind %q", got)
			case x.Stream != nil && (e.ends == "" && got != "" || e.ends != "" && strings.Contains(got, e.ends)):
				t.Errorf("the client has %q", got)
			case x.Stream == nil && (x.Status != 503 || !strings.Contains(got, "STORE_UNAVAILABLE")):
				t.Errorf("%d %s", x.Status, got)
			}
			r.store.mu.Lock()
			broken = false
			r.store.mu.Unlock()
			r.until("the store to be back", func() bool { return r.journal.Fault() == nil })
			r.laws()
		})
	}
}
