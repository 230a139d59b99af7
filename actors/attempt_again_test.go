package actors_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// alone is one upstream with one account and one slot.
func alone() []catalog.Resource {
	return []catalog.Resource{upstream("a", slots(1)), account("a1", "a"), key("k")}
}

func busy(header, value string) reply {
	r := refusing(429, `{"error":{"message":"slow down a little","type":"rate_limit_error"}}`)
	r.header = map[string]string{"Content-Type": "application/json", header: value}
	return r
}

// Where nobody else is left the account is asked once more after the moment that it asked for, and is not blocked.
func TestTheSameAccountOnceMore(t *testing.T) {
	for wait, held := range map[string]bool{"20": true, "1500": false} {
		t.Run(wait+" ms", func(t *testing.T) {
			r := newRig(t, alone()...)
			r.reply("a", busy("Retry-After-Ms", wait))
			call := r.chat()
			done := make(chan *client)
			began := time.Now()
			go func() { done <- r.run(call) }()
			if !held {
				r.until("the slot to be free during the wait", func() bool {
					f, _ := r.system.Board().Figures("a")
					return r.sent("a") == 1 && f.Held == 0
				})
			}
			if x := <-done; x.Status != 200 || time.Since(began) < 20*time.Millisecond {
				t.Errorf("%d after %v", x.Status, time.Since(began))
			}
			r.expect(call.ID, "admitted dispatched(1 a1) | failed(1 http_429 same_account) dispatched(2 a1) | settled(completed 200 ok reported)")
			if f, _ := r.system.Board().AccountFigures("a1"); !f.BlockedUntil.IsZero() {
				t.Errorf("blocked until %v", f.BlockedUntil)
			}
		})
	}
}

// A client that goes ends the wait.
func TestAClientThatGoesEndsTheWaitForTheSameAccount(t *testing.T) {
	r := newRig(t, alone()...)
	r.reply("a", busy("Retry-After", "2"))
	call := r.chat()
	done := make(chan *client)
	go func() { done <- r.run(call) }()
	r.until("the wait", func() bool { f, _ := r.system.Board().Figures("a"); return r.sent("a") == 1 && f.Held == 0 })
	call.Gone.Fire()
	<-done
	if s := r.settlement(call.ID); s.Outcome != "cancelled" || s.Attempts != 1 || !s.ClientGone {
		t.Errorf("%+v", s)
	}
}
