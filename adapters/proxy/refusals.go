package proxy

import (
	"sync"
	"time"
)

const (
	singleMax  = 10    // refusals of one address in one minute that are recorded one by one
	addressMax = 65536 // addresses counted at once; the rest are counted together as ""
)

// refusals keeps anonymous traffic from filling the journal: beyond the first ten refusals without a verified key from
// one address in one minute, only their number is recorded, when the minute is over.
type refusals struct {
	report func(address string, count int, minute time.Time)
	now    func() time.Time

	mu     sync.Mutex
	minute time.Time
	counts map[string]int
	once   sync.Once
	stop   chan struct{}
	ended  chan struct{}
}

func newRefusals(report func(string, int, time.Time), now func() time.Time) *refusals {
	r := &refusals{report: report, now: now, counts: map[string]int{}, stop: make(chan struct{}), ended: make(chan struct{})}
	go r.tick()
	return r
}

// single says whether this refusal is to be recorded on its own.
func (r *refusals) single(address string) bool {
	minute := r.now().UTC().Truncate(time.Minute)
	r.mu.Lock()
	if minute.After(r.minute) {
		defer r.tell(r.turn(minute))
	}
	if _, known := r.counts[address]; !known && len(r.counts) >= addressMax {
		address = ""
	}
	r.counts[address]++
	n := r.counts[address]
	r.mu.Unlock()
	return n <= singleMax && address != ""
}

// over is what one minute left behind.
type over struct {
	minute time.Time
	counts map[string]int
}

// turn begins another minute; the caller holds the lock.
func (r *refusals) turn(minute time.Time) over {
	o := over{r.minute, r.counts}
	r.minute, r.counts = minute, map[string]int{}
	return o
}

func (r *refusals) tell(o over) {
	for address, n := range o.counts {
		if beyond := n - singleMax; address == "" {
			r.report("", n, o.minute)
		} else if beyond > 0 {
			r.report(address, beyond, o.minute)
		}
	}
}

func (r *refusals) tick() {
	defer close(r.ended)
	t := time.NewTicker(10 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-t.C:
			minute := r.now().UTC().Truncate(time.Minute)
			r.mu.Lock()
			var o over
			if minute.After(r.minute) {
				o = r.turn(minute)
			}
			r.mu.Unlock()
			r.tell(o)
		}
	}
}

// close reports what is still counted.
func (r *refusals) close() {
	r.once.Do(func() { close(r.stop) })
	<-r.ended
	r.mu.Lock()
	o := r.turn(r.minute)
	r.mu.Unlock()
	r.tell(o)
}
