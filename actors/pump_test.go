package actors_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// An event goes to the client as soon as it is whole, however the network cuts it, and nothing before that.
func TestEventsAreForwardedWhenWhole(t *testing.T) {
	r := newRig(t, append(pair(), setting("chat_usage", "estimate"))...)
	gate := [3]chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	r.reply("a", replyOf(chunk{data: hello[:20]}, chunk{data: hello[20:] + finish[:9]}, chunk{data: finish[9:30], hold: gate[0]},
		chunk{data: finish[30:], hold: gate[1]}, chunk{data: done, hold: gate[2]}))
	x := &client{wrote: make(chan string, 9)}
	call := r.stream()
	over := make(chan struct{})
	go func() { defer close(over); r.runAs(x, call) }()
	for i, want := range []string{hello, finish, done} {
		if got := <-x.wrote; got != want {
			t.Fatalf("write %d is %q", i, got)
		}
		if i == 0 {
			close(gate[0])
			close(gate[1])
		} else if i == 1 {
			close(gate[2])
		}
	}
	<-over
	r.expect(call.ID, "admitted dispatched(1 a1) | settled(completed 200 ok estimated)")
	if n := r.ups.reused.Load(); n != 1 {
		t.Errorf("%d connections can be used again", n)
	}
}

func replyOf(cs ...chunk) reply { return reply{header: sseHeader, body: cs} }

// However a stream is cut into reads, the client gets its bytes, but for the usage that we asked for (A84, B24, B58).
func TestEveryCutOfAStreamGivesTheSameBytes(t *testing.T) {
	plain := role + ": ping\n\n" + strings.ReplaceAll(hello, "\n", "\r\n") + strings.ReplaceAll(hello, "\n", "\r") + finish
	for _, inject := range []string{"inject", "estimate"} {
		r := newRig(t, append(pair(), setting("chat_usage", inject))...)
		all, want := plain+usage+done, plain+done
		if inject == "estimate" {
			want = all
		}
		for n := 1; n < len(all); n++ {
			r.reply("a", streaming(all[:n], all[n:]))
			x := r.run(r.stream())
			if x.body() != want {
				t.Fatalf("%s, cut at %d: got %q", inject, n, x.body())
			}
		}
		if n := r.ups.reused.Load(); n != int64(len(all)-1) {
			t.Errorf("%d of %d connections can be used again", n, len(all)-1)
		}
		r.laws()
	}
}

// A Gemini array is complete with its bracket, not with the finish reason; usage may come behind that.
func TestGeminiArrays(t *testing.T) {
	const text = `[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}`
	const end = `,{"candidates":[{"finishReason":"STOP"}]}`
	const used = `,{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}`
	for name, c := range map[string]struct {
		chunks []string
		story  string
		body   string
	}{
		"whole":                  {[]string{text, end, used, "]"}, "settled(completed 200 ok reported)", text + end + used + "]"},
		"cut before the bracket": {[]string{text, end}, "settled(failed 200 STREAM_ERROR stream_cut estimated)", text + end + `,{"error":`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			call := r.call("/v1beta/models/m:streamGenerateContent", `{"contents":[{"parts":[{"text":"hi"}]}]}`)
			rep := streaming(c.chunks...)
			rep.header = jsonHeader
			r.reply("a", rep)
			x := r.run(call)
			if !strings.HasPrefix(x.body(), c.body) || !strings.HasSuffix(x.body(), "]") {
				t.Errorf("got %s", x.body())
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | "+c.story)
		})
	}
}

// Gemini has no last event: a reason to stop in a chunk says nothing of the stream's end. Some upstreams give one with every chunk
// (litellm#2195, one-api#1408), some before the first text, and of several candidates one ends before the other; the rest may take
// its time (pains 1, 56, 60).
func TestGeminiStreamsEndWithTheirBody(t *testing.T) {
	const (
		said  = `data: {"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2}}` + "\n\n"
		more  = `data: {"candidates":[{"content":{"parts":[{"text":" you"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}` + "\n\n"
		empty = `data: {"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}` + "\n\n"
		open  = `data: {"candidates":[{"content":{"parts":[{"text":"hello"}]}}]}` + "\n\n"
		both  = `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0},{"content":{"parts":[{"text":"b"}]},"index":1}]}` + "\n\n"
		first = `data: {"candidates":[{"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3}}` + "\n\n"
		last  = `data: {"candidates":[{"content":{"parts":[{"text":"c"}]},"finishReason":"STOP","index":1}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}` + "\n\n"
	)
	late := func(data string) chunk { // later than what follows a last event is waited for
		hold := make(chan struct{})
		return chunk{data: data, do: func() { time.AfterFunc(1200*time.Millisecond, func() { close(hold) }) }, hold: hold}
	}
	broken := chunk{err: actors.PhaseBody}
	for name, c := range map[string]struct {
		chunks []chunk
		body   string
		story  string
	}{
		"a reason with every chunk":      {[]chunk{{data: said}, late(more)}, said + more, "settled(completed 200 ok reported)"},
		"a reason before the text":       {[]chunk{{data: empty}, late(open), {data: more}}, empty + open + more, "settled(completed 200 ok reported)"},
		"one of two candidates goes on":  {[]chunk{{data: both}, {data: first}, late(last)}, both + first + last, "settled(completed 200 ok reported)"},
		"broken, reasons with each":      {[]chunk{{data: said}, {data: more}, broken}, said + more, "settled(failed 200 STREAM_ERROR stream_cut reported)"},
		"broken behind an early reason":  {[]chunk{{data: empty}, {data: open}, broken}, empty + open, "settled(failed 200 STREAM_ERROR stream_cut estimated)"},
		"closed behind an early reason":  {[]chunk{{data: empty}, {data: open}}, empty + open, "settled(failed 200 STREAM_ERROR stream_cut estimated)"},
		"broken within one of two":       {[]chunk{{data: both}, {data: first}, broken}, both + first, "settled(failed 200 STREAM_ERROR stream_cut partial)"},
		"closed within one of two":       {[]chunk{{data: both}, {data: first}}, both + first, "settled(failed 200 STREAM_ERROR stream_cut partial)"},
		"broken when everything is said": {[]chunk{{data: open}, {data: empty}, broken}, open + empty, "settled(completed 200 ok estimated)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair()...)
			call := r.call("/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`)
			r.reply("a", replyOf(c.chunks...))
			x := r.run(call)
			failed := strings.Contains(c.story, "failed")
			if !strings.HasPrefix(x.body(), c.body) || !failed && x.body() != c.body || failed && !strings.Contains(x.body(), `"error"`) {
				t.Errorf("got %s", x.body())
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | "+c.story)
		})
	}
}

// A long stream tells now and then what it has used, and in which tier of service.
func TestLongStreamsTellTheirProgress(t *testing.T) {
	r := newRig(t, pair()...)
	late := func() { r.late.Add(int64(31 * time.Second)) }
	flex := strings.Replace(hello, "{", `{"service_tier":"flex",`, 1)
	r.reply("a", replyOf(chunk{data: flex}, chunk{data: hello, do: late}, chunk{data: hello}, chunk{data: hello, do: late}, chunk{data: usage + done}))
	call := r.stream()
	r.run(call)
	if p := r.story(call.ID).Progressed; p == nil || p.ServiceTier != "flex" {
		t.Errorf("%+v", p)
	}
	r.expect(call.ID, "admitted dispatched(1 a1) | progressed(1 estimated) | progressed(1 estimated) | settled(completed 200 ok reported)")
}

// A client that goes at any moment of a stream is settled by the policy, and the answer's end is not waited for longer
// than it says (A63-A65, B61; pains 9, 11, 12, 30-33).
func TestClientGoesWhileStreaming(t *testing.T) {
	const dispatched = "admitted dispatched(1 a1) | "
	forever := make(chan struct{})
	for _, c := range []struct {
		name, policy string
		reply        func(gone func()) reply
		write        error // what the second write of the client comes to
		story        string
	}{
		{"cancel, noticed by the watch", "cancel", func(gone func()) reply {
			return replyOf(chunk{data: hello}, chunk{do: gone, hold: forever})
		}, nil, "settled(cancelled 499 CLIENT_DISCONNECTED cancelled estimated)"},
		{"cancel, noticed by a write", "cancel", func(func()) reply {
			return replyOf(chunk{data: hello}, chunk{data: hello}, chunk{hold: forever})
		}, errors.New("broken pipe"), "settled(cancelled 499 CLIENT_DISCONNECTED cancelled estimated)"},
		{"cancel, before content", "cancel", func(gone func()) reply {
			return replyOf(chunk{data: role}, chunk{do: gone, hold: forever})
		}, nil, "settled(cancelled 499 CLIENT_DISCONNECTED cancelled none)"},
		{"cancel, behind the end", "cancel", func(gone func()) reply {
			return replyOf(chunk{data: hello + finish + usage + done}, chunk{do: gone, hold: forever})
		}, nil, "settled(completed 200 ok reported)"},
		{"drain", "drain", func(gone func()) reply {
			return replyOf(chunk{data: hello}, chunk{data: hello, do: gone}, chunk{data: finish + usage + done})
		}, nil, "settled(cancelled 499 CLIENT_DISCONNECTED cancelled reported)"},
		{"drain, noticed by a write", "drain", func(func()) reply {
			return replyOf(chunk{data: hello}, chunk{data: hello}, chunk{data: finish + usage + done})
		}, errors.New("broken pipe"), "settled(cancelled 499 CLIENT_DISCONNECTED cancelled reported)"},
		{"drain, before content", "drain", func(gone func()) reply {
			return replyOf(chunk{data: role}, chunk{do: gone, data: hello + finish + usage + done})
		}, nil, "settled(cancelled 499 CLIENT_DISCONNECTED cancelled reported)"},
		{"drain up to a time that ends", "drain_up_to:1ms", func(gone func()) reply {
			return replyOf(chunk{data: hello}, chunk{data: hello, do: gone}, chunk{hold: forever})
		}, nil, "settled(cancelled 499 CLIENT_DISCONNECTED cancelled estimated)"},
		{"drain up to a time that is enough", "drain_up_to:1h", func(gone func()) reply {
			return replyOf(chunk{data: hello}, chunk{data: hello, do: gone}, chunk{data: usage + done})
		}, nil, "settled(cancelled 499 CLIENT_DISCONNECTED cancelled reported)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, pair(disconnect(c.policy))...)
			call := r.stream()
			r.reply("a", c.reply(call.Gone.Fire))
			x := &client{write: func(n int) error {
				if n > 1 {
					return c.write
				}
				return nil
			}}
			r.runAs(x, call)
			r.expect(call.ID, dispatched+c.story)
			if s := r.settlement(call.ID); s.ClientGone && s.OnDisconnect != c.policy {
				t.Errorf("settled %+v", s)
			}
			if f, _ := r.system.Board().Figures("a"); f.Failures != 0 {
				t.Error("a client that went counts as a failure")
			}
		})
	}
}

// A client that goes while the upstream thinks, or while a whole answer is read.
func TestClientGoesBeforeTheAnswer(t *testing.T) {
	const gone = "settled(cancelled 499 CLIENT_DISCONNECTED cancelled none)"
	for _, c := range []struct {
		name, policy string
		reply        func(gone func(), never chan struct{}) reply
		story        string
	}{
		{"connecting", "cancel", func(f func(), n chan struct{}) reply { return reply{do: f, hold: n} }, gone},
		{"reading", "cancel", func(f func(), n chan struct{}) reply { return replyOf(chunk{data: "{"}, chunk{do: f, hold: n}) }, gone},
		{"reading, drained", "drain", func(f func(), n chan struct{}) reply {
			return reply{header: jsonHeader, body: []chunk{{do: f, data: okBody}}}
		}, "settled(cancelled 499 CLIENT_DISCONNECTED ok reported)"},
		{"drained, but refused", "drain", func(f func(), n chan struct{}) reply {
			x := refusing(500, "")
			x.do = f
			return x
		}, "settled(cancelled 499 CLIENT_DISCONNECTED http_5xx none)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, pair(disconnect(c.policy))...)
			call := r.chat()
			r.reply("a", c.reply(call.Gone.Fire, make(chan struct{})))
			r.run(call)
			r.expect(call.ID, "admitted dispatched(1 a1) | "+c.story)
		})
	}
}

// A fault of ours at any place ends the request, gives everything back, and hurts nobody else.
func TestPanicsLeakNothing(t *testing.T) {
	const lost = "admitted dispatched(1 a1) | settled(failed 503 LOCAL_FAULT local_fault none)"
	for name, c := range map[string]struct {
		reply  reply
		writer bool
		stream bool
	}{
		"send":          {reply{panics: "send"}, false, false},
		"headers":       {reply{header: jsonHeader, panics: "headers", body: texts(okBody)}, false, false},
		"read":          {reply{header: jsonHeader, body: []chunk{{panic: true}}}, false, false},
		"stream open":   {replyOf(chunk{data: role}, chunk{panic: true}), false, true},
		"stream":        {replyOf(chunk{data: hello}, chunk{panic: true}), false, true},
		"stream behind": {replyOf(chunk{data: hello + done}, chunk{panic: true}), false, true},
		"writer":        {okStream(), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			const ms = catalog.Duration(time.Millisecond)
			probe := func(u *catalog.Upstream) {
				u.Breaker = catalog.Breaker{Failures: 1, Successes: 1, OpenFor: ms, ProbeEvery: ms}
			}
			r := newRig(t, append(pair(probe, slots(1))[:4], key("k", func(k *catalog.Key) { k.Slots = count(1) }))...)
			if err := r.system.Breaker("a", "open"); err != nil {
				t.Fatal(err)
			}
			r.remove(catalog.KindAccount, "b1")
			r.until("the probe to be free", func() bool { f, _ := r.system.Board().Figures("a"); return time.Now().After(f.Until) })
			r.reply("a", c.reply)
			call := r.chat()
			if c.stream {
				call = r.stream()
			}
			x := &client{}
			if c.writer {
				x.write = func(int) error { panic("scripted: write") }
			}
			if r.runAs(x, call); x.Stream == nil && (x.Status != 503 || !strings.Contains(x.body(), "LOCAL_FAULT")) || x.Stream != nil && x.err == nil {
				t.Errorf("answer %d %s %v", x.Status, x.body(), x.err)
			}
			r.expect(call.ID, lost)
			then := r.chat()
			r.run(then)
			r.expect(then.ID, "admitted dispatched(1 a1) | settled(completed 200 ok reported)")
		})
	}
}
