package sim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/events"
)

// process is one life of the gateway: real actors, a real dispatcher and a real journal. When it dies it is cut off from
// store, upstreams and clients at one instant; what its goroutines do afterwards reaches nobody.
type process struct {
	w        *world
	name     string
	dead     chan struct{}
	journal  *events.Journal
	system   *actors.System
	affinity *actors.Affinity
	live     atomic.Int64 // requests
	wg       sync.WaitGroup
}

// faultLog makes errors that the product logs faults of the seed.
type faultLog struct {
	slog.Handler
	p *process
}

// Enabled implements slog.Handler.
func (faultLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle implements slog.Handler.
func (f faultLog) Handle(_ context.Context, r slog.Record) error {
	if f.p.isDead() || r.Message == "event store unavailable" {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	f.p.w.law.fault("%s logs: %s", f.p.name, text)
	return nil
}

// WithAttrs implements slog.Handler.
func (f faultLog) WithAttrs([]slog.Attr) slog.Handler { return f }

// WithGroup implements slog.Handler.
func (f faultLog) WithGroup(string) slog.Handler { return f }

// boot starts a process: it settles what the one before left open, restores breakers and blocks, and serves.
func (w *world) boot() {
	w.nodes++
	p := &process{w: w, name: fmt.Sprint("n", w.nodes), dead: make(chan struct{})}
	log := slog.New(faultLog{p: p})
	open, err := actors.FindOpen(background, w.store)
	w.law.must("find open requests", err)
	head, err := w.store.Head(background)
	w.law.must("head", err)
	first := map[string]events.Position{}
	for _, o := range open {
		first[o.Stream] = o.First
	}
	p.journal = events.NewJournal(events.JournalOptions{Store: &window{w.store, p}, Node: p.name, Rooms: 24, Head: head, Open: first, Logger: log})
	w.law.must("abandon", actors.Abandon(p.journal, w.snap.Load(), p.name, w.start.Add(w.since()), open))
	p.system = actors.NewSystem(actors.Options{Recorder: p, Logger: log})
	p.affinity = actors.NewAffinity(&w.snap.Load().Settings.Scheduling)
	w.law.must("affinity", p.affinity.Load(background, w.store, time.Now()))
	w.law.booted(p)
	p.system.Reconfigure(w.layout())
	states := map[string]breaker.State{}
	for _, prefix := range []string{"upstream/", "account/"} {
		w.law.must("restore", w.store.Find(background, events.Query{StreamPrefix: prefix}, func(c *events.Committed) bool {
			for _, f := range c.Facts {
				w.law.must("restore", p.system.Restore(f, c.At))
				w.law.restored(f, states)
			}
			return true
		}))
	}
	for id, s := range states {
		if f, _ := p.system.Board().Figures(id); f.Breaker != s {
			w.law.fault("%s: the breaker of %s is %v after the restart, and was %v", p.name, id, f.Breaker, s)
		}
	}
	w.node = p
	w.trace("%s serves; %d requests were open", p.name, len(open))
}

// Record implements actors.Recorder.
func (p *process) Record(stream, upstream string, fact events.Fact) {
	if p.isDead() {
		return
	}
	p.w.law.recorded(p, fact)
	p.journal.Record(stream, upstream, fact)
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// serve runs a client's request, as the connection's goroutine would.
func (p *process) serve(c *client) {
	c.node = p
	p.live.Add(1)
	p.w.law.serves(c, 1)
	p.wg.Go(func() {
		defer func() {
			p.w.law.serves(c, -1)
			p.live.Add(-1)
			c.over.Store(true)
		}()
		c.visit(&actors.Dispatcher{
			System: p.system, Catalog: c.catalog, Journal: p.journal, Transport: c, Node: p.name, Durability: p.w.level,
			Credential: func(a string) (string, bool) { return "secret-of-" + a, true },
			Logger:     slog.New(faultLog{p: p}), Random: c.random, Now: c.now, Affinity: p.affinity,
		})
	})
}

// die is the end of a process that had no time for one.
func (p *process) die() {
	close(p.dead)
	p.w.law.died(p)
	for _, c := range p.w.clients {
		if c.node == p && !c.over.Load() {
			c.call.Gone.Fire()
		}
	}
	p.wg.Wait()
	p.end(false)
}

// stop is an orderly end.
func (p *process) stop() { p.end(true) }

func (p *process) end(clean bool) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	if err := p.system.Stop(ctx); err != nil {
		p.w.law.fault("%s: stop: %v", p.name, err)
	}
	if !clean {
		cancel()
	}
	if err := p.journal.Close(ctx); err != nil && clean {
		p.w.law.fault("%s: close: %v", p.name, err)
	}
}
