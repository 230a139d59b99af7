package events

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Bell tells readers that something was committed. Ring never blocks, and costs one load when nobody listens. The
// zero value is ready.
type Bell struct {
	listeners atomic.Pointer[[]chan struct{}] // never changed in place
	mu        sync.Mutex                      // of those who change listeners
}

// Ring wakes every listener. Rings that nobody has come for yet are one.
func (b *Bell) Ring() {
	listeners := b.listeners.Load()
	if listeners == nil {
		return
	}
	for _, l := range *listeners {
		select {
		case l <- struct{}{}:
		default:
		}
	}
}

// Listen returns a channel that gets what is rung from now on, until stop.
func (b *Bell) Listen() (rings <-chan struct{}, stop func()) {
	l := make(chan struct{}, 1)
	b.change(func(list []chan struct{}) []chan struct{} { return append(list, l) })
	return l, func() {
		b.change(func(list []chan struct{}) []chan struct{} {
			return slices.DeleteFunc(list, func(x chan struct{}) bool { return x == l })
		})
	}
}

func (b *Bell) change(f func([]chan struct{}) []chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []chan struct{}
	if now := b.listeners.Load(); now != nil {
		list = slices.Clone(*now)
	}
	if list = f(list); len(list) == 0 {
		b.listeners.Store(nil)
		return
	}
	b.listeners.Store(&list)
}
