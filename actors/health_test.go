package actors_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
)

// C63-C65, D10, D11: what an upstream's health is made of (state, time to the first content, failures and what was said with them), and
// when it is told: a whole answer at its end, and a stream twice, for the board at its first content and in the settlement at its
// end; a failure by its status, by the network, and in the middle of a stream.
func TestHealthIsToldWhenAnOutcomeIsKnown_C63_C65_D10_D11(t *testing.T) {
	r := newRig(t, upstream("a"), account("a1", "a"), key("k"), setting("scheduling.all_blocked", "last_resort"))
	figures := func() actors.Figures { f, _ := r.system.Board().Figures("a"); return f }
	was := figures()
	told := func(what string, successes, failures uint64) {
		t.Helper()
		r.until(what, func() bool {
			f := figures()
			return f.Successes-was.Successes == successes && f.Failures-was.Failures == failures
		})
		was = figures()
	}

	r.reply("a", reply{header: jsonHeader, do: func() { r.late.Add(int64(time.Second)) }, body: texts(okBody)})
	call := r.chat()
	r.run(call)
	r.expect(call.ID, "admitted dispatched(1 a1) | settled(completed 200 ok reported)")
	told("the success of a whole answer", 1, 0)
	if f := figures(); f.TTFT < time.Second || f.Failing != 0 {
		t.Errorf("after a whole answer: %+v", f)
	}

	more := make(chan struct{})
	r.reply("a", replyOf(chunk{data: hello}, chunk{hold: more}, chunk{data: finish + usage + done}))
	s := r.begin(r.stream())
	told("the success of a stream that goes on", 1, 0)
	if story := r.told(s.id); story != "admitted dispatched(1 a1)" {
		t.Errorf("before its end: %s", story)
	}
	close(more)
	<-s.over
	r.expect(s.id, "admitted dispatched(1 a1) | settled(completed 200 ok reported)")

	for _, c := range []struct {
		name   string
		reply  reply
		class  string
		said   string
		before uint64 // successes: the content that came first
	}{
		{"a status", refusing(500, `{"error":{"message":"boom"}}`), "http_5xx", "boom", 0},
		{"the network", reply{fail: actors.PhaseConnect}, "network", "connect: scripted", 0},
		{"in the middle of a stream", replyOf(chunk{data: hello}, chunk{err: actors.PhaseBody}), "stream_cut", "body: scripted", 1},
	} {
		r.reply("a", c.reply)
		r.run(r.stream())
		told(c.name, c.before, 1)
		st, _ := r.system.Status("a")
		last := st.Breaker.Last[len(st.Breaker.Last)-1]
		if last.Class != c.class || last.Said != c.said || st.Health.Failing <= 0 || st.Health.TTFT == nil || *st.Health.TTFT < 500 {
			t.Errorf("%s: %+v, %+v", c.name, st.Health, last)
		}
	}
	r.laws()
}
