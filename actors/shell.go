package actors

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
)

// desk is what stands behind an actor: its state and what it does with messages. It is made outside the actor and
// outlives whatever happens to the instance.
type desk interface {
	// receive does one message. It validates before it changes anything.
	receive(ctx actor.Context, msg any)
	// after follows every message: what becomes possible by it, and the figures. It answers nobody's message.
	after()
	// fault is called after receive panicked on msg: it answers the asker and leaves nothing set aside for it. nil: after
	// panicked, and there will be another one in a while also when no message comes.
	fault(msg any)
	// stop answers everybody who still waits for something.
	stop()
}

// ref is the address of an actor.
type ref struct {
	pid  *actor.PID
	gone chan struct{} // closed when the actor has stopped: what was asked after that is never answered
}

func (r ref) at() ref { return r }

// shell is the protoactor side of every desk. A panic ends at the shell, so that no supervisor ever restarts or stops
// the actor, which would lose its messages.
type shell struct {
	desk desk
	gone chan struct{}
	log  *slog.Logger
	ctx  actor.Context // between the actor's start and its end, else nil
}

// take receives a message from the mailbox, without protoactor's layers in between, of which there is a handful for each of
// some seven messages per request. False: it is protoactor's own, or the actor does not run.
func (s *shell) take(msg any) bool {
	if _, own := msg.(*actor.PoisonPill); own || s.ctx == nil {
		return false
	}
	s.receive(s.ctx, msg)
	return true
}

// Receive implements actor.Actor.
func (s *shell) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.ctx = ctx
	case *actor.Restarting, *actor.Terminated:
	case *actor.Stopping:
		s.guard(msg, s.desk.stop)
	case *actor.Stopped:
		s.ctx = nil
		close(s.gone)
	default:
		s.receive(ctx, msg)
	}
}

// receive does one message and what follows it.
func (s *shell) receive(ctx actor.Context, msg any) {
	received, over := false, false
	defer func() {
		if over {
			return
		}
		r := recover()
		if r == nil {
			return
		}
		s.report(msg, r)
		if !received {
			s.guard(msg, func() { s.desk.fault(msg) })
			if s.guard(msg, s.desk.after) {
				return
			}
		}
		s.guard(msg, func() { s.desk.fault(nil) })
	}()
	s.desk.receive(ctx, msg)
	received = true
	s.desk.after()
	over = true
}

// guard runs what must not fail the actor either. It says whether that went well.
func (s *shell) guard(msg any, do func()) (well bool) {
	defer func() {
		if r := recover(); r != nil {
			s.report(msg, r)
		}
	}()
	do()
	return true
}

func (s *shell) report(msg, reason any) {
	s.log.Error("actor recovered from a panic", "message", fmt.Sprintf("%T", msg), "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
}

// quiet is embedded by every message: one that reaches a stopped actor is nothing to log about.
type quiet struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging.
func (quiet) IgnoreDeadLetterLogging() {}

// props are what protoactor makes an actor of: the shell of a desk, and a mailbox that hands it its messages.
func (s *System) props(name string, d desk, gone chan struct{}) *actor.Props {
	sh := &shell{desk: d, gone: gone, log: s.log.With("actor", name)}
	return actor.PropsFromProducer(func() actor.Actor { return sh }, actor.WithMailbox(func() actor.Mailbox { return newMailbox(sh) }))
}

// spawn starts an actor of its own for a desk.
func (s *System) spawn(name string, d desk) ref {
	r := ref{gone: make(chan struct{})}
	pid, err := s.engine.Root.SpawnNamed(s.props(name, d, r.gone), s.unique(name))
	if err != nil {
		panic(err) // names are unique by construction
	}
	r.pid = pid
	return r
}
