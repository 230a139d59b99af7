package actors

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox is protoactor's mailbox with one difference: who posts to an idle actor does its work, instead of waking
// another goroutine and waiting for it. Asking an actor then costs no switch of goroutines, which on a machine that is
// not busy is most of what it costs. Actors never wait for anything, so that nobody is kept for long; who posts works
// off postedMax messages at most and leaves the rest to a goroutine.
//
// Messages come one at a time and in the order in which they were posted; the system's own messages come first.
type mailbox struct {
	mu        sync.Mutex
	user      ring
	system    []any
	running   bool // somebody works it off
	suspended bool // by a supervisor: system messages only
	invoker   actor.MessageInvoker
	shell     *shell // gets what is posted; nil: all goes by the invoker
}

const (
	postedMax = 8   // messages that a poster works off
	turnMax   = 300 // messages after which a goroutine lets others run
)

func newMailbox(s *shell) actor.Mailbox { return &mailbox{shell: s} }

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

// Start implements actor.Mailbox.
func (m *mailbox) Start() {}

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.n
}

// PostUserMessage implements actor.Mailbox.
func (m *mailbox) PostUserMessage(msg any) {
	m.mu.Lock()
	if m.running || m.suspended {
		m.user.push(msg)
		m.posted()
		return
	}
	m.running = true // nobody works, so that nothing is waiting: this is next, without a detour over the queue
	m.mu.Unlock()
	m.invoke(msg, false)
	m.goOn(postedMax - 1)
}

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(msg any) {
	m.mu.Lock()
	m.system = append(m.system, msg)
	m.posted()
}

// posted gives the lock back, and works the mailbox off unless somebody does already.
func (m *mailbox) posted() {
	run := !m.running
	m.running = true
	m.mu.Unlock()
	if run {
		m.goOn(postedMax)
	}
}

// goOn works the mailbox off for a poster, who has set running: so many messages, and then a goroutine does the rest.
func (m *mailbox) goOn(most int) {
	if !m.work(most) {
		go func() {
			for !m.work(turnMax) {
				runtime.Gosched()
			}
		}()
	}
}

// work does at most so many messages. True: there are no more, and nobody works on it.
func (m *mailbox) work(most int) bool {
	for range most {
		m.mu.Lock()
		msg, system := m.next()
		if msg == nil {
			m.running = false
			m.mu.Unlock()
			return true
		}
		m.mu.Unlock()
		m.invoke(msg, system)
	}
	return false
}

func (m *mailbox) next() (msg any, system bool) {
	if len(m.system) > 0 {
		msg = m.system[0]
		m.system = m.system[1:]
		return msg, true
	}
	if m.suspended {
		return nil, false
	}
	return m.user.pop(), false
}

func (m *mailbox) invoke(msg any, system bool) {
	over := false
	defer func() {
		if over {
			return
		}
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, msg)
		}
	}()
	if system {
		m.command(msg)
	} else if m.shell == nil || !m.shell.take(msg) {
		m.invoker.InvokeUserMessage(msg)
	}
	over = true
}

// command does a message of the system.
func (m *mailbox) command(msg any) {
	switch msg.(type) {
	case *actor.SuspendMailbox:
		m.suspend(true)
	case *actor.ResumeMailbox:
		m.suspend(false)
	default:
		m.invoker.InvokeSystemMessage(msg)
	}
}

func (m *mailbox) suspend(yes bool) {
	m.mu.Lock()
	m.suspended = yes
	m.mu.Unlock()
}

// ring is a queue that grows and is reused.
type ring struct {
	buf  []any // length is a power of two, or 0
	head int
	n    int
}

func (r *ring) push(msg any) {
	if r.n == len(r.buf) {
		grown := make([]any, max(8, 2*len(r.buf)))
		for i := range r.n {
			grown[i] = r.buf[(r.head+i)&(len(r.buf)-1)]
		}
		r.buf, r.head = grown, 0
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = msg
	r.n++
}

// pop takes the oldest, nil when there is none.
func (r *ring) pop() any {
	if r.n == 0 {
		return nil
	}
	msg := r.buf[r.head]
	r.buf[r.head] = nil
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return msg
}
