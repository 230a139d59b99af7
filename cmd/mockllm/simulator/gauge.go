package simulator

import (
	"sync"
	"sync/atomic"
)

// Count is one set of counters. MaxInFlight is the high-water mark since the last reset. Completed counts
// whole answers (error statuses too), Aborted the clients that went away, Faulted the injected faults. A request
// leaves InFlight just before its last byte is written: a client that has the whole answer is never counted.
type Count struct {
	InFlight    int64 `json:"in_flight"`
	MaxInFlight int64 `json:"max_in_flight"`
	Requests    int64 `json:"requests"`
	Completed   int64 `json:"completed"`
	Aborted     int64 `json:"client_aborted"`
	Faulted     int64 `json:"faulted"`
}

// Stats is everything counted since the last reset. Status counts the statuses sent (200 is always there),
// Faults the faults played, by the name of their rate. Keys, models and paths beyond 10,000 are counted under "(other)".
type Stats struct {
	All         Count            `json:"all"`
	Connections Count            `json:"connections"`
	Status      map[int]int64    `json:"status"`
	ChunksSent  int64            `json:"chunks_sent"`
	Faults      map[string]int64 `json:"faults"`
	Forgotten   int64            `json:"forgotten_records"` // request records dropped to stay within bounds
	ByKey       map[string]Count `json:"by_key"`
	ByModel     map[string]Count `json:"by_model"`
	ByPath      map[string]Count `json:"by_path"`
}

// outcome is how a request ended.
type outcome uint8

const (
	completed outcome = iota
	aborted
	faulted
	outcomes
)

// gauge counts what is in flight, its high-water mark and the ends.
type gauge struct {
	now, max, total atomic.Int64
	ends            [outcomes]atomic.Int64
}

func (g *gauge) enter() {
	g.total.Add(1)
	n := g.now.Add(1)
	for {
		m := g.max.Load()
		if n <= m || g.max.CompareAndSwap(m, n) {
			return
		}
	}
}

// leave counts an end; counted says whether it was still in flight.
func (g *gauge) leave(o outcome, counted bool) {
	g.ends[o].Add(1)
	if counted {
		g.now.Add(-1)
	}
}

func (g *gauge) count() Count {
	return Count{InFlight: g.now.Load(), MaxInFlight: g.max.Load(), Requests: g.total.Load(),
		Completed: g.ends[completed].Load(), Aborted: g.ends[aborted].Load(), Faulted: g.ends[faulted].Load()}
}

func (g *gauge) reset() {
	g.max.Store(g.now.Load())
	g.total.Store(0)
	for i := range g.ends {
		g.ends[i].Store(0)
	}
}

const (
	groupMax = 10_000
	nameMax  = 256
	other    = "(other)"
)

// group is a bounded set of gauges by name. The zero value is ready.
type group struct {
	mu sync.RWMutex
	m  map[string]*gauge
}

func (g *group) get(name string) *gauge {
	name = name[:min(len(name), nameMax)]
	g.mu.RLock()
	x := g.m[name]
	g.mu.RUnlock()
	if x != nil {
		return x
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = map[string]*gauge{}
	}
	if len(g.m) >= groupMax && g.m[name] == nil {
		name = other
	}
	if x = g.m[name]; x == nil {
		x = &gauge{}
		g.m[name] = x
	}
	return x
}

func (g *group) counts() map[string]Count {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := make(map[string]Count, len(g.m))
	for k, v := range g.m {
		out[k] = v.count()
	}
	return out
}

func (g *group) reset() {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, v := range g.m {
		v.reset()
	}
}
