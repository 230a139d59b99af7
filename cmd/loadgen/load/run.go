package load

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// run is one load run.
type run struct {
	o         Options
	addr      string
	path      string
	requests  [][]byte // one per key
	bodyBytes int
	terminals [][]byte

	window atomic.Pointer[stats] // nil outside the measured window
	issued atomic.Int64
	active atomic.Int64
	rids   atomic.Int64
	stop   chan struct{}

	gapMu  sync.Mutex
	began  time.Time
	offset time.Duration // of the next due time from began
	gapRng *rand.Rand

	workers   []*worker
	trees     []*tree
	activeMax int64
}

// Run sends the load and returns what was measured. It returns early, with what there is, when ctx ends. The error
// is about the options; a server that fails is a result.
func Run(ctx context.Context, o Options) (Result, error) {
	r, err := newRun(o)
	if err != nil {
		return Result{}, err
	}
	return r.measure(ctx), nil
}

func newRun(o Options) (*run, error) {
	o, u, err := o.normal()
	if err != nil {
		return nil, err
	}
	body, err := buildBody(&o)
	if err != nil {
		return nil, err
	}
	r := &run{o: o, addr: u.Host, path: requestPath(&o, u), bodyBytes: len(body),
		stop: make(chan struct{}), gapRng: rand.New(rand.NewPCG(o.Seed, 99))}
	for _, k := range o.Keys {
		r.requests = append(r.requests, buildRequest(&o, u.Host, r.path, k, body))
	}
	for _, t := range dialects[o.API].terminals {
		r.terminals = append(r.terminals, []byte(t))
	}
	for _, p := range o.Processes {
		r.trees = append(r.trees, &tree{Process: p})
	}
	return r, nil
}

// bufSize keeps thousands of connections small.
func (r *run) bufSize() int {
	if r.o.Connections > 1000 {
		return 2048
	}
	return 4096
}

func (r *run) stopped() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// next is the due time of the next request in an open loop.
func (r *run) next() time.Time {
	r.gapMu.Lock()
	defer r.gapMu.Unlock()
	due := r.began.Add(r.offset)
	gap := 1e9 / r.o.Rate
	if r.o.Poisson {
		gap *= r.gapRng.ExpFloat64()
	}
	r.offset += time.Duration(gap)
	return due
}

// before is what had been used when the window opened.
type before struct {
	at   time.Time
	host host
	self float64
}

// openWindow begins the measurement.
func (r *run) openWindow() before {
	for _, t := range r.trees {
		t.cpuBefore = t.cpu()
	}
	b := before{host: hostCPU(), self: selfCPU(), at: time.Now()}
	r.window.Store(newStats())
	return b
}

func (r *run) measure(ctx context.Context) Result {
	var b before
	if r.o.Total > 0 { // all requests count, so the window opens before the first
		b = r.openWindow()
	}
	r.began = time.Now()
	var wg sync.WaitGroup
	for i := range r.o.Connections {
		r.workers = append(r.workers, newWorker(r, i))
		wg.Go(r.workers[i].loop)
		if r.o.Ramp > 0 {
			wait(ctx, r.o.Ramp/time.Duration(r.o.Connections))
		}
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	var over <-chan time.Time
	if r.o.Total == 0 {
		wait(ctx, r.o.Warmup-time.Since(r.began))
		b = r.openWindow()
		over = time.After(r.o.Duration)
	}
	r.watch(ctx, over, ended)
	res := r.result(b)
	res.Interrupted = ctx.Err() != nil
	r.end()
	<-ended
	return res
}

// wait pauses for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch samples until the window ends.
func (r *run) watch(ctx context.Context, over <-chan time.Time, ended <-chan struct{}) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.sample()
		case <-over:
			return
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (r *run) sample() {
	r.activeMax = max(r.activeMax, r.active.Load())
	for _, t := range r.trees {
		t.sample()
	}
}

// end stops all workers, cutting the requests under way: they are past the window.
func (r *run) end() {
	close(r.stop)
	for _, w := range r.workers {
		if c := w.live.Load(); c != nil {
			c.Close()
		}
	}
}

// result closes the window.
func (r *run) result(b before) Result {
	s := r.window.Swap(nil)
	seconds := max(time.Since(b.at).Seconds(), 1e-9)
	res := Result{Label: r.o.Label, URL: r.o.URL, Path: r.path, API: r.o.API, Stream: r.o.Stream, Connections: r.o.Connections,
		Rate: r.o.Rate, ReqBytes: r.bodyBytes, Processes: map[string]Account{}}
	s.fill(&res, seconds, r.o.Rate > 0)
	h, self := hostCPU(), selfCPU()-b.self
	known := self
	used := make([]float64, len(r.trees))
	for i, t := range r.trees {
		used[i] = t.cpu() - t.cpuBefore
		known += used[i]
	}
	r.sample()
	res.ActiveMax = r.activeMax
	for i, t := range r.trees {
		a := Account{CPU: milli(used[i]), Cores: milli(used[i] / seconds), RSSMax: t.rssMax, RSSEnd: t.now.rss, Threads: t.now.threads, FDs: t.now.fds}
		if res.Requests > 0 {
			a.CPUPerReq = milli(used[i] / float64(res.Requests) * 1e6)
		}
		if res.Events > 0 {
			a.CPUPerEvent = milli(used[i] / float64(res.Events) * 1e6)
		}
		res.Processes[t.Name] = a
	}
	all := max(h.total-b.host.total, .01)
	res.LoadgenCPU, res.HostBusy, res.HostSteal = milli(self), milli((h.busy-b.host.busy)/all), milli((h.steal-b.host.steal)/all)
	res.HostForeign = milli(max(0, h.busy-b.host.busy-known) / all)
	return res
}
