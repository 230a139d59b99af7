package load

import (
	"maps"
	"sync"
	"sync/atomic"
)

// stats holds everything counted within the measured window. Workers add from any goroutine.
type stats struct {
	total, service, ttfb, connect       histogram
	done, ok, events, bytes             atomic.Int64
	aborted, incomplete, badBody, stale atomic.Int64

	mu     sync.Mutex
	status map[int]int64
	errors map[string]int64
}

func newStats() *stats { return &stats{status: map[int]int64{}, errors: map[string]int64{}} }

func (s *stats) countError(kind string) {
	s.mu.Lock()
	s.errors[kind]++
	s.mu.Unlock()
}

func (s *stats) countStatus(status int) {
	s.mu.Lock()
	s.status[status]++
	s.mu.Unlock()
}

// Result is what was measured. Latencies are from the due time (open loop) or the start (closed loop) to the last
// byte of 200 answers; TTFB to the first body byte.
type Result struct {
	Label       string  `json:"label"`
	URL         string  `json:"url"`
	Path        string  `json:"path"`
	API         string  `json:"api"`
	Stream      bool    `json:"stream"`
	Connections int     `json:"connections"`
	Rate        float64 `json:"rate"`
	ReqBytes    int     `json:"req_bytes"`
	Interrupted bool    `json:"interrupted,omitempty"` // the context ended before the measurement did

	Seconds           float64          `json:"seconds"`
	Requests          int64            `json:"requests"` // ended, however
	RPS               float64          `json:"rps"`
	OK                int64            `json:"ok"`                 // status 200, whole, with the expected text
	Status            map[int]int64    `json:"status"`             // of answers read to the end
	Errors            map[string]int64 `json:"errors"`             // eof, timeout, reset, refused, protocol, other; with _mid_body after a status line
	Aborted           int64            `json:"aborted"`            // abandoned on purpose
	IncompleteStreams int64            `json:"incomplete_streams"` // status 200, HTTP body ended well, no terminal event
	BadBody           int64            `json:"bad_body"`
	StaleReconnects   int64            `json:"stale_reconnects"` // kept-alive connections that the server had closed
	Events            int64            `json:"events"`
	EventsPerSecond   float64          `json:"events_per_s"`
	BodyBytes         int64            `json:"body_bytes"`

	Latency        Summary  `json:"latency"`
	ServiceLatency *Summary `json:"service_latency,omitempty"` // open loop: from the real start
	TTFB           Summary  `json:"ttfb"`
	Connect        Summary  `json:"connect"`
	ActiveMax      int64    `json:"active_max"`                 // requests in flight, sampled four times a second
	LateBy         *int64   `json:"late_by_requests,omitempty"` // open loop: due but not done

	Processes   map[string]Account `json:"procs"`
	LoadgenCPU  float64            `json:"loadgen_cpu_s"`
	HostBusy    float64            `json:"host_busy_frac"`
	HostSteal   float64            `json:"steal_frac"`
	HostForeign float64            `json:"foreign_cpu_frac"` // busy, but neither loadgen nor an accounted process
}

// Account is what one process tree used in the measured window; memory, threads and descriptors at its end.
type Account struct {
	CPU         float64 `json:"cpu_s"`
	Cores       float64 `json:"cores"`
	CPUPerReq   float64 `json:"cpu_us_per_req,omitempty"`
	CPUPerEvent float64 `json:"cpu_us_per_event,omitempty"`
	RSSMax      int64   `json:"rss_max_kb"`
	RSSEnd      int64   `json:"rss_end_kb"`
	Threads     int64   `json:"threads"`
	FDs         int64   `json:"fds"`
}

// Failed counts the requests that neither ended well nor were abandoned on purpose.
func (r Result) Failed() int64 { return r.Requests - r.OK - r.Aborted }

// fill puts the counters into r; seconds is the length of the window.
func (s *stats) fill(r *Result, seconds float64, openLoop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Seconds, r.Requests, r.OK, r.Status, r.Errors = milli(seconds), s.done.Load(), s.ok.Load(), maps.Clone(s.status), maps.Clone(s.errors)
	r.Aborted, r.IncompleteStreams, r.BadBody, r.StaleReconnects = s.aborted.Load(), s.incomplete.Load(), s.badBody.Load(), s.stale.Load()
	r.Events, r.BodyBytes = s.events.Load(), s.bytes.Load()
	r.RPS, r.EventsPerSecond = milli(float64(r.Requests)/seconds), milli(float64(r.Events)/seconds)
	r.Latency, r.TTFB, r.Connect = s.total.summary(), s.ttfb.summary(), s.connect.summary()
	if openLoop {
		service, late := s.service.summary(), int64(r.Rate*seconds)-r.Requests
		r.ServiceLatency, r.LateBy = &service, &late
	}
}

// milli rounds to three places.
func milli(x float64) float64 { return float64(int64(x*1000+.5)) / 1000 }
