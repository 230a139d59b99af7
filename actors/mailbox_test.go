package actors

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// recordingInvoker stands where protoactor's actor context stands.
type recordingInvoker struct {
	busy   atomic.Int32
	most   atomic.Int32
	seen   []any // written by one at a time: the race detector watches
	user   func(msg any)
	failed []any
}

func (r *recordingInvoker) note(msg any) {
	if n := r.busy.Add(1); n > r.most.Load() {
		r.most.Store(n)
	}
	defer r.busy.Add(-1)
	r.seen = append(r.seen, msg)
}

func (r *recordingInvoker) InvokeSystemMessage(msg any) { r.note(fmt.Sprint("system ", msg)) }
func (r *recordingInvoker) InvokeUserMessage(msg any) {
	r.note(msg)
	if r.user != nil {
		r.user(msg)
	}
}
func (r *recordingInvoker) EscalateFailure(reason, msg any) { r.failed = append(r.failed, msg, reason) }

func testMailbox(r *recordingInvoker) actor.Mailbox {
	m := newMailbox(nil)
	m.RegisterHandlers(r, nil)
	m.Start()
	return m
}

func TestMailboxKeepsTheOrderOfEachSenderAndDoesOneMessageAtATime(t *testing.T) {
	const senders, each = 16, 2000
	r, all := &recordingInvoker{}, make(chan struct{})
	r.user = func(any) {
		if len(r.seen) == senders*each {
			close(all)
		}
	}
	m := testMailbox(r)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				m.PostUserMessage([2]int{s, n})
			}
		})
	}
	wg.Wait()
	<-all
	next := [senders]int{}
	for _, msg := range r.seen {
		k := msg.([2]int)
		if k[1] != next[k[0]] {
			t.Fatalf("sender %d: message %d, want %d", k[0], k[1], next[k[0]])
		}
		next[k[0]]++
	}
	if r.most.Load() != 1 || m.UserMessageCount() != 0 {
		t.Fatalf("%d at once, %d left", r.most.Load(), m.UserMessageCount())
	}
}

func TestMailboxKeepsAPosterForAFewMessagesOnly(t *testing.T) {
	hold, all := make(chan struct{}), make(chan struct{})
	r := &recordingInvoker{}
	m := testMailbox(r)
	r.user = func(msg any) {
		switch msg.(int) {
		case 0:
			for i := 1; i <= 20; i++ {
				m.PostUserMessage(i) // from within: only queued
			}
		case postedMax:
			<-hold // a poster that did this one would never come back
		case 20:
			close(all)
		}
	}
	m.PostUserMessage(0)
	close(hold)
	<-all
}

func TestMailboxDoesSystemMessagesFirstAndAloneWhileSuspended(t *testing.T) {
	r := &recordingInvoker{}
	m := testMailbox(r)
	r.user = func(msg any) {
		if msg == "first" {
			m.PostUserMessage("second")
			m.PostSystemMessage("stop")
		}
	}
	m.PostUserMessage("first")
	m.PostSystemMessage(&actor.SuspendMailbox{})
	m.PostUserMessage("held back")
	m.PostSystemMessage("watch")
	if want := []any{"first", "system stop", "second", "system watch"}; !slices.Equal(r.seen, want) || m.UserMessageCount() != 1 {
		t.Fatalf("%v, %d left", r.seen, m.UserMessageCount())
	}
	m.PostSystemMessage(&actor.ResumeMailbox{})
	if r.seen[len(r.seen)-1] != "held back" {
		t.Fatalf("%v", r.seen)
	}
}

func TestMailboxEscalatesAPanicAndGoesOn(t *testing.T) {
	r := &recordingInvoker{}
	m := testMailbox(r)
	r.user = func(msg any) {
		if msg == "bad" {
			panic("why")
		}
	}
	m.PostUserMessage("bad")
	m.PostUserMessage("good")
	if !slices.Equal(r.failed, []any{"bad", "why"}) || !slices.Equal(r.seen, []any{"bad", "good"}) {
		t.Fatalf("%v %v", r.failed, r.seen)
	}
}
