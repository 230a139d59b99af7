package penstock_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// crowdFor is as long as a person may wait for; -args -crowd=10m (with -timeout 30m) is the real thing.
var crowdFor = flag.Duration("crowd", 6*time.Second, "how long 200 clients load three upstreams: half of it under fifo, half under fair")

const (
	crowdClients = 200
	crowdWait    = time.Second // the timeout of the queues: some waits end by it when the upstreams are slow
	grantsSeen   = 5           // at each upstream, at least: of so many it is checked that they were in order
)

// crowdSlots are the slots of the upstreams that a crowd shares.
var crowdSlots = map[string]int{"small": 5, "middle": 10, "large": 20}

// crowd is one load: 200 clients, each with one request at a time and the next one right behind it.
type crowd struct {
	*rig
	name       string
	discipline string
	lasts      time.Duration
	weights    map[string]int    // of the keys, which have equally many clients
	classes    map[string]string // of the keys; nil: all are normal
	breaker    map[string]any
	resets     float64 // share of the requests that the upstreams cut off before their content
	clients    *http.Client

	saturated *atomic.Bool   // between two moments of the load
	from, to  map[string]int // leases by key, then
	seen      map[string]*sightings
}

// Whatever 200 impatient clients and three unreliable upstreams do: slots are exact and all come back, nobody is lost in
// a queue, tickets are kept, keys get their shares, each request has one line and one end (pains 34-45).
func TestACrowdOnThreeUpstreams(t *testing.T) {
	patient := map[string]any{"failures": 1_000_000}
	equal := map[string]int{"one": 1, "uno": 1, "two": 1, "four": 1}
	for _, c := range []crowd{
		{name: "fifo", discipline: "fifo", lasts: *crowdFor / 2, weights: equal, breaker: patient, resets: 0.05},
		{name: "fair", discipline: "fair", lasts: *crowdFor / 2, weights: map[string]int{"one": 1, "uno": 1, "two": 2, "four": 4}, breaker: patient, resets: 0.05},
		{name: "classes", discipline: "fifo", lasts: min(*crowdFor/4, 15*time.Second), weights: map[string]int{"h": 1, "n": 1, "m": 1, "l": 1},
			classes: map[string]string{"h": "high", "l": "low"}, breaker: patient, resets: 0.05},
		{name: "breakers", discipline: "fair", lasts: min(*crowdFor/4, 15*time.Second), weights: equal, resets: 0.1,
			breaker: map[string]any{"failures": 1, "successes": 2, "open_for": "100ms", "probe_every": "50ms", "open_growth": "1"}},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

// opens says whether its breakers are meant to open.
func (c *crowd) opens() bool { return c.breaker["failures"] == 1 }

func (c *crowd) run(t *testing.T) {
	before := goroutines()
	c.rig = newRig(t, func(cfg *penstock.Config) { // breakers are meant to open here: no alerts
		cfg.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	c.apply(map[string]any{"kind": "price", "model": "*", "input": "1", "output": "1"})
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * crowdClients, DialContext: dialWire}
	c.clients = &http.Client{Transport: transport, Timeout: time.Minute} // who is lost in a queue is found by it
	for id, slots := range crowdSlots {
		c.upstream(id, c.mood(1), map[string]any{"slots": slots, "breaker": c.breaker, "queue": map[string]any{
			"enabled": true, "timeout": crowdWait.String(), "discipline": c.discipline, "age_every": "1h"}})
	}
	for id, weight := range c.weights {
		c.key(id, map[string]any{"weight": weight, "priority": c.classes[id]})
	}
	c.saturated = &atomic.Bool{}
	stop := make(chan struct{})
	var aside sync.WaitGroup
	seen := map[string]*sightings{}
	c.seen = seen
	for id := range crowdSlots {
		s := newSightings(id)
		seen[id] = s
		aside.Go(func() { c.watch(s, stop) })
	}
	aside.Go(func() { c.weather(stop) })
	told := c.load()
	close(stop)
	aside.Wait()

	for id := range crowdSlots {
		c.await("every slot of "+id+" to be free", func() bool { return len(c.board(id).Held)+len(c.board(id).Waiting) == 0 })
		c.await("the last call to "+id+" to end", func() bool { return c.up[id].Stats().All.InFlight == 0 })
		c.nothingHeld(id)
	}
	totals := c.slotsWereKept(seen)
	c.ordersWereKept(seen)
	c.sharesWereKept(told, seen["small"])
	lines := c.everyRequestHasOneLine(told)
	c.verify()
	c.close()
	c.everyWaitHasOneEnd(told, lines, totals)

	transport.CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for id, u := range c.up {
		u.Close()
		delete(c.up, id)
	}
	left := "?"
	defer func() {
		if left != "" {
			t.Log(left)
		}
	}()
	c.await("all goroutines to end", func() bool { left = newer(before, goroutines()); return left == "" })
}

// mood is how the upstreams behave when they are so many times slower than usual.
func (c *crowd) mood(slower float64) simulator.Behavior {
	b := simulator.Healthy()
	b.TTFBMs, b.TTFBJitterMs = 40*slower, 120*slower
	b.Chunks, b.ChunkMs = 6, 8*slower
	b.ResetRate, b.ResetAfterHeaders = c.resets/2, c.resets/2
	return b
}

// weather makes the upstreams slow for a while, again and again, so that waits time out.
func (c *crowd) weather(stop chan struct{}) {
	spell := 2 * crowdWait
	calm := min(max(c.lasts-spell, spell)/2, 10*crowdWait)
	for slower := 4.0; ; slower = 5 - slower {
		lasts := calm
		if slower == 1 {
			lasts = spell
		}
		select {
		case <-stop:
			return
		case <-time.After(lasts):
		}
		for id := range crowdSlots {
			if err := c.up[id].SetConfig(simulator.Config{Default: c.mood(slower)}); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// wire is a client's connection that knows what has left on it. A request, which is small, leaves in one piece.
type wire struct {
	net.Conn
	sent atomic.Int64
}

func dialWire(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c}, nil
}

// Write notes what the kernel has taken.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.sent.Add(int64(n))
	return n, err
}

// saga is what a client knows of one of its requests. Those of one client stand in their order.
type saga struct {
	id, key string
	client  int
	status  int       // 0: it never heard
	whole   bool      // the answer came to its end
	sent    bool      // the request had left
	gone    time.Time // when it had gone; zero: it stayed
	took    time.Duration
}

// load lets the clients loose, and looks at the shares of the keys when all have queued up and before the first one stops.
func (c *crowd) load() []saga {
	var all sync.WaitGroup
	var mu sync.Mutex
	var everything []saga
	began := time.Now()
	end := make(chan struct{})
	keys := make([]string, 0, len(c.weights))
	for id := range c.weights {
		keys = append(keys, id)
	}
	for n := range crowdClients {
		all.Go(func() {
			mine := c.client(n, keys[n%len(keys)], end)
			mu.Lock()
			defer mu.Unlock()
			everything = append(everything, mine...)
		})
	}
	c.await("saturation", func() bool { return len(c.board("large").Waiting) > crowdClients/2 })
	c.saturated.Store(true)
	c.from = c.leases()
	<-time.After(c.lasts - time.Since(began)) // the load is the point
	for id, s := range c.seen {
		if !c.opens() { // a machine may have stood still for most of that
			c.await("grants from the queue of "+id, func() bool { return s.grants.Load() >= grantsSeen })
			c.await(id+" to be full", func() bool { return c.up[id].Stats().All.MaxInFlight >= int64(crowdSlots[id]) })
		}
	}
	c.to = c.leases()
	c.saturated.Store(false)
	close(end)
	all.Wait()
	return everything
}

// leases counts what the keys were granted at all upstreams.
func (c *crowd) leases() map[string]int {
	n := map[string]int{}
	for id := range crowdSlots {
		for _, s := range c.board(id).Shares {
			n[s.Key] += s.Served
		}
	}
	return n
}

// client makes one request after the other. It loses patience with every tenth of them, at some moment of the time that
// the last one took: most often it waits then, else the upstream thinks or streams.
func (c *crowd) client(n int, key string, end chan struct{}) (mine []saga) {
	chance := rand.New(rand.NewPCG(1, uint64(n)))
	usual := 300 * time.Millisecond
	for i := 0; ; i++ {
		select {
		case <-end:
			return mine
		default:
		}
		ctx, cancel := context.WithCancel(context.Background())
		if chance.IntN(9) == 0 {
			ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond+time.Duration(chance.Int64N(int64(usual))))
		}
		x := c.once(ctx, fmt.Sprintf("%s-%d-%d", key, n, i), key, chance.IntN(2) == 0)
		x.client = n
		cancel()
		mine = append(mine, x)
		switch {
		case x.whole && x.status == 200:
			usual = x.took
		case x.gone.IsZero(): // who was refused comes back after a moment
			<-time.After(time.Duration(10+chance.IntN(20)) * time.Millisecond)
		}
	}
}

func (c *crowd) once(ctx context.Context, id, key string, stream bool) saga {
	x := saga{id: id, key: key}
	body := chatBody(id)
	if stream {
		body = strings.Replace(body, "{", `{"stream":true,`, 1)
	}
	var line *wire
	var before int64
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		line = got.Conn.(*wire)
		before = line.sent.Load()
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), "POST", "http://"+c.gw.Addr()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return x
	}
	req.Header.Set("X-Api-Key", c.secret[key])
	req.Header.Set("X-Client-Request-Id", id)
	began := time.Now()
	var answer []byte
	resp, err := c.clients.Do(req)
	if err == nil {
		x.status = resp.StatusCode
		answer, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	x.took, x.sent = time.Since(began), line != nil && line.sent.Load() > before
	switch {
	case err == nil:
		if x.whole = true; x.status == 200 && stream && !strings.Contains(string(answer), "[DONE]") {
			c.t.Errorf("%s: a stream without an end: %s", id, answer)
		}
		if x.status != 200 && x.status != 503 && x.status != 504 {
			c.t.Errorf("%s: %d %s", id, x.status, answer)
		}
	case ctx.Err() != nil:
		x.gone = time.Now()
	default:
		c.t.Errorf("%s: %v, so far %d %q", id, err, x.status, answer)
	}
	return x
}

// sightings are the places and leases of one upstream as its board showed them now and then: the words of its actor.
type sightings struct {
	upstream string
	leases   map[leaseName]*sighting
	grants   atomic.Int32 // of those, to whom a ticket was seen
	held     int          // the most at once
	longest  int          // queue
	looks    int          // while saturated
	empty    int          // of these, at which some key had nobody in the queue
}

type leaseName struct {
	Request string `json:"request_id"`
	Attempt int    `json:"attempt"`
}

type sighting struct {
	ticket        uint64
	key, class    string
	came, granted time.Time // by the actor's clock; zero: not seen
	deadline      time.Time // likewise
}

func newSightings(id string) *sightings {
	return &sightings{upstream: id, leases: map[leaseName]*sighting{}}
}

func (s *sightings) of(n leaseName) *sighting {
	if s.leases[n] == nil {
		s.leases[n] = &sighting{}
	}
	return s.leases[n]
}

// watch looks at the board often enough to see nearly every place and lease.
func (c *crowd) watch(s *sightings, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(40 * time.Millisecond):
		}
		var now struct {
			Held []struct {
				leaseName
				Phase string
				Since time.Time
			}
			Waiting []struct {
				leaseName
				Key, Class string
				Ticket     uint64
				Since      time.Time
				Deadline   time.Time
			}
		}
		if _, body := c.admin("GET", "/api/v1/upstreams/"+s.upstream+"/status", nil); json.Unmarshal(body, &now) != nil {
			c.t.Errorf("status: %s", body)
			return
		}
		keys := map[string]bool{}
		for _, w := range now.Waiting {
			x := s.of(w.leaseName)
			x.ticket, x.key, x.class, x.came, x.deadline = w.Ticket, w.Key, w.Class, w.Since, w.Deadline
			keys[w.Key] = true
		}
		for _, h := range now.Held {
			if x := s.of(h.leaseName); h.Phase != "granting" {
				if x.ticket > 0 && x.granted.IsZero() {
					s.grants.Add(1)
				}
				x.granted = h.Since
			}
		}
		s.held, s.longest = max(s.held, len(now.Held)), max(s.longest, len(now.Waiting))
		if c.saturated.Load() {
			if s.looks++; len(keys) < len(c.weights) {
				s.empty++
			}
		}
	}
}
