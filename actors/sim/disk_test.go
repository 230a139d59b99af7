package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// disk is the store of a world. It outlives the processes.
type disk struct {
	*memory.Store
	w    *world
	dice *rand.Rand

	mu         sync.Mutex
	slow       time.Duration  // at most, before and after a commit
	failing    int            // percent of commits
	doubtful   int            // percent of commits whose answer is lost
	dispatched map[string]int // committed attempts by request
	ended      map[string]bool
}

func newDisk(w *world) *disk {
	return &disk{Store: memory.NewStore(), w: w, dice: rand.New(rand.NewPCG(w.seed, 1)), dispatched: map[string]int{}, ended: map[string]bool{}}
}

// trouble makes the store slow, failing, or both.
func (d *disk) trouble(dice *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = time.Duration(dice.Int64N(int64(400 * time.Millisecond)))
	d.failing = []int{0, 0, 30, 100}[dice.IntN(4)]
	d.doubtful = []int{0, 0, 20}[dice.IntN(3)]
	d.w.trace("store: %s slow, fails %d %%, in doubt %d %%", d.slow, d.failing, d.doubtful)
}

func (d *disk) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow, d.failing, d.doubtful = 0, 0, 0
}

// draw is one commit's fate.
func (d *disk) draw() (before, after time.Duration, fails, doubt bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := int64(d.slow + 200*time.Microsecond)
	return time.Duration(d.dice.Int64N(most)), time.Duration(d.dice.Int64N(most)), d.dice.IntN(100) < d.failing, d.dice.IntN(100) < d.doubtful
}

// saw notes what is committed.
func (d *disk) saw(batch []events.Append, results []events.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range batch {
		for _, r := range batch[i].Rows {
			if results[i].Err != nil {
				continue
			}
			for _, f := range r.Facts {
				if f, ok := f.(*request.Dispatched); ok {
					d.dispatched[r.Request] = max(f.N, d.dispatched[r.Request])
				}
			}
			d.ended[r.Request] = d.ended[r.Request] || r.Terminal
		}
	}
}

func (d *disk) has(id string) (attempts int, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dispatched[id], d.ended[id]
}

// tell writes all that is stored into the trace.
func (d *disk) tell() {
	err := d.After(background, 0, func(c *events.Committed) bool {
		d.w.lines = append(d.w.lines, fmt.Sprintf("%d %s/%d %d %s %s", c.Position, c.Stream, c.Version, c.At.Sub(d.w.start), c.Types, c.Payload))
		return true
	})
	d.w.law.must("read", err)
}

// window is the store as one process sees it: after its death it sees nothing, and nothing that it does is stored.
type window struct {
	*disk
	p *process
}

// Append commits at an instant of the store, and answers at a later one.
func (s *window) Append(ctx context.Context, batch []events.Append, low events.Position) ([]events.Result, error) {
	before, after, fails, doubt := s.draw()
	if s.rest(before); s.p.isDead() || fails {
		return nil, fmt.Errorf("%w: no space left on device", events.ErrUnavailable)
	}
	for i := range batch { // what the store numbers itself it can not know again
		for _, r := range batch[i].Rows {
			doubt = doubt && strings.HasPrefix(r.Stream, events.RequestStreams)
		}
	}
	if doubt && after&1 == 0 {
		return nil, fmt.Errorf("%w: the answer was lost", events.ErrInDoubt)
	}
	results, err := s.disk.Append(ctx, batch, low)
	if err == nil {
		s.saw(batch, results)
	}
	if s.rest(after); s.p.isDead() {
		return nil, fmt.Errorf("%w: dead", events.ErrUnavailable)
	}
	if doubt && err == nil {
		return nil, fmt.Errorf("%w: the answer was lost", events.ErrInDoubt)
	}
	return results, err
}

// rest waits to an instant of the store, or for the process to die.
func (s *window) rest(d time.Duration) {
	timer := time.NewTimer(s.w.until(d, storeSlot))
	defer timer.Stop()
	s.w.law.turn()
	defer s.w.law.turn()
	select {
	case <-timer.C:
	case <-s.p.dead:
	}
}

// Probe answers as an append would.
func (s *window) Probe(context.Context) error {
	before, _, fails, _ := s.draw()
	if s.rest(before); s.p.isDead() || fails {
		return fmt.Errorf("%w: no space left on device", events.ErrUnavailable)
	}
	return nil
}
