// Package load is a low-overhead HTTP/1.1 load generator for LLM gateways.
//
// Closed loop: each connection sends its next request when the last one has ended. Open loop (Options.Rate):
// request i is due at t0+i/rate and latency is counted from that time, so that a slow server cannot hide its queue
// (no coordinated omission). Streams are read event by event and count only when their terminal event was seen.
//
// It also samples /proc for process trees and reports their CPU over the measured window, which is robust against
// other load on the machine.
package load

import (
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

// Options say what to send. URL and Duration (or Total) are needed; other zero values have the meaning given.
type Options struct {
	URL   string // base URL; http, loopback
	Path  string // request path; "" = that of API, below the path of URL
	API   string // openai, responses, anthropic or gemini; "" = openai
	Model string // "" = mock-model

	Keys      []string // API keys, used round-robin over connections; none = sk-test
	Headers   []string // more header lines, "Name: value"
	Stream    bool     // ask for an SSE stream
	ReqBytes  int      // size of the generated body, as far as its form allows
	Body      []byte   // instead of a generated one
	RID       bool     // put a unique [rid:PREFIX-000000000001] into each prompt
	RIDPrefix string   // "" = r
	Expect    string   // a 200 answer without this text counts as bad_body

	Connections    int           // open loop: the most at once; 0 = 1
	NewConnections bool          // one per request
	Ramp           time.Duration // spread the connection starts over this time
	Rate           float64       // requests per second over all connections; 0 = closed loop
	Poisson        bool          // exponential gaps instead of constant ones
	Duration       time.Duration // measured time
	Warmup         time.Duration // time before it, not measured
	Total          int64         // stop after this many requests; no warm-up, no Duration
	Timeout        time.Duration // per request, to a quarter; 0 = 60 s

	AbortRate        float64       // share of requests that the client abandons
	AbortAfterEvents int           // abandon after this many SSE events (0 = at the headers); negative = not so
	AbortAfter       time.Duration // abandon so long after sending, before or during the answer; 0 = not so

	Seed      uint64    // of gaps and aborts
	Label     string    // copied to the result
	Processes []Process // whose CPU and memory to account
}

// Process is a process to account; it stands for itself and all its descendants.
type Process struct {
	Name string
	PID  int
}

const connectionsMax = 60_000

// normal fills in defaults and checks; the error names the field.
func (o Options) normal() (Options, *url.URL, error) {
	def(&o.API, "openai")
	def(&o.Model, "mock-model")
	def(&o.RIDPrefix, "r")
	def(&o.Connections, 1)
	def(&o.Timeout, time.Minute)
	if len(o.Keys) == 0 {
		o.Keys = []string{"sk-test"}
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return o, nil, errors.Newf("url: %q is not http://HOST:PORT", o.URL)
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		return o, nil, errors.Newf("url: %q is not on loopback, and nothing else is loaded", o.URL)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "80")
	}
	if _, ok := dialects[o.API]; !ok {
		return o, nil, errors.Newf("api: %q is none of openai, responses, anthropic, gemini", o.API)
	}
	for _, h := range slices.Concat(o.Headers, o.Keys, []string{o.Path, o.Model}) {
		if strings.ContainsAny(h, "\r\n") {
			return o, nil, errors.Newf("%q: a line break cannot be sent", h)
		}
	}
	for _, h := range o.Headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" {
			return o, nil, errors.Newf("header: %q is not 'Name: value'", h)
		}
	}
	return o, u, o.check()
}

func (o *Options) check() error {
	for _, c := range []struct {
		bad bool
		why string
	}{
		{o.Connections < 1 || o.Connections > connectionsMax, "connections: not within 1..60000"},
		{!(o.Rate >= 0) || math.IsInf(o.Rate, 1), "rate: negative or not a number"},
		{!(o.AbortRate >= 0 && o.AbortRate <= 1), "abort rate: not within 0..1"},
		{o.AbortRate > 0 && o.AbortAfterEvents < 0 && o.AbortAfter <= 0, "abort rate: given, but neither events nor a time to abort after"},
		{o.AbortRate > 0 && o.AbortAfterEvents > 0 && !o.Stream, "abort after events: needs a stream"},
		{o.Total <= 0 && o.Duration <= 0, "duration: not given, and no total either"},
		{o.Total < 0 || o.Duration < 0 || o.Warmup < 0 || o.Ramp < 0 || o.Timeout < 0 || o.AbortAfter < 0, "total and times: negative"},
		{o.RID && o.Body != nil, "rid: cannot be put into a given body"},
	} {
		if c.bad {
			return errors.New(c.why)
		}
	}
	for _, p := range o.Processes {
		if statFields(p.PID) == nil {
			return errors.Newf("process %s: no process %d", p.Name, p.PID)
		}
	}
	return nil
}

func def[T comparable](p *T, v T) {
	if *p == *new(T) {
		*p = v
	}
}
