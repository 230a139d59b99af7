package actors

import (
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/domain/limit"
)

// unread is whose rules do not know what was spent before, and how much of that counts. The zero value is nobody's.
type unread struct {
	callers []*callerRef
	past    limit.Past
	budgets []string
}

func (u *unread) empty() bool { return len(u.callers)+len(u.budgets) == 0 }

// with is what either misses, of those who are still there.
func (u unread) with(more unread, dir *directory) unread {
	u.callers = slices.DeleteFunc(slices.Clone(u.callers), func(r *callerRef) bool {
		return dir.callers[r.id] != r || slices.Contains(more.callers, r)
	})
	u.budgets = slices.DeleteFunc(slices.Clone(u.budgets), func(name string) bool { return slices.Contains(more.budgets, name) })
	if u.empty() {
		return more
	}
	return unread{slices.Concat(u.callers, more.callers), u.past.With(more.past), slices.Concat(u.budgets, more.budgets)}
}

// learnAgain is when a history is read again that could not be read.
const learnAgain = 15 * time.Second

// misses lets strict rules refuse that miss something which could not be read, and reads it again after a while. The caller
// holds changing.
func (s *System) misses(u unread) {
	for _, r := range u.callers {
		s.reported(r.id, within(s, r.ref, func(d *callerDesk) { d.limits.Unread(s.now()) }))
	}
	if len(u.budgets) > 0 {
		s.reported("budgets", within(s, *s.budgets.Load(), func(d *budgetDesk) {
			for _, name := range u.budgets {
				if b := d.of[name]; b != nil {
					b.Unread(s.now())
				}
			}
		}))
	}
	s.unread = u
	if s.retry != nil {
		s.retry.Stop()
	}
	s.retry = time.AfterFunc(s.learnAgain, func() {
		s.changing.Lock()
		defer s.changing.Unlock()
		if !s.stopped.Load() {
			s.learnPast(s.dir.Load(), nil, limit.Past{Since: s.now()}, budgetsMissing{})
		}
	})
}

// passage lets many through and can be waited for: what began to pass before has passed. The zero value is ready.
type passage struct{ mu sync.RWMutex }

func (p *passage) enter() { p.mu.RLock() }
func (p *passage) leave() { p.mu.RUnlock() }

func (p *passage) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
}
