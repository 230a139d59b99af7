package actors_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// Actors that stop under requests of every kind leave none of them without an answer, without an end or with an upstream's answer
// in its hands.
func TestAStopInTheMiddleEndsEveryRequest(t *testing.T) {
	for seed := range uint64(4) {
		c := &chance{r: rand.New(rand.NewPCG(seed, 2))}
		long := queue(time.Minute)
		r := newRig(t, upstream("a", slots(3), long), upstream("b", slots(2), long), account("a1", "a"), account("a2", "a"), account("b1", "b"),
			key("k", func(k *catalog.Key) { k.Slots = count(8) }))
		r.Random = func() uint64 { return uint64(c.n(1 << 30)) }
		var sent atomic.Int64
		last, stop := int64(1+c.n(40)), make(chan struct{})
		r.ups.script = func(*actors.Outgoing) reply {
			if sent.Add(1) == last {
				close(stop)
			}
			return c.reply(false)
		}
		var all sync.WaitGroup
		for range 12 {
			calls := []*actors.Call{r.chat(), r.stream(), r.chat(), r.chat(), r.chat(), r.stream()}
			all.Go(func() {
				for _, call := range calls {
					if x := r.runAs(&client{}, call); x.Status == 0 {
						t.Errorf("%s has no answer", call.ID)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		select {
		case <-stop:
		case <-ended: // too few came so far
		}
		if err := r.system.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.until("every request to end", func() bool { return fired(ended) })
		for stream, rows := range r.streams() {
			if !rows[len(rows)-1].Terminal {
				t.Errorf("%s has no end: %s", stream, r.told(strings.TrimPrefix(stream, "request/")))
			}
		}
		if n := r.ups.open.Load(); n != 0 {
			t.Errorf("%d answers of upstreams are open", n)
		}
	}
}

func fired(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
