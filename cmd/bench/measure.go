package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/cmd/loadgen/load"
)

// point is one kind of load. Streams have 50 chunks without delay between them.
type point struct {
	name        string
	connections int
	stream      bool
}

var points = []point{{"c1", 1, false}, {"c16", 16, false}, {"c64", 64, false}, {"sse200", 200, true}}

func pointNames() string {
	var names []string
	for _, p := range points {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func pointNamed(name string) (point, bool) {
	i := slices.IndexFunc(points, func(p point) bool { return p.name == name })
	if i < 0 {
		return point{}, false
	}
	return points[i], true
}

// pointsNamed are the points of a list with commas, in the order of all; "" is all of them.
func pointsNamed(list string) (named []point, ok bool) {
	if list == "" {
		return points, true
	}
	names := strings.Split(list, ",")
	for _, p := range points {
		if slices.Contains(names, p.name) {
			named = append(named, p)
		}
	}
	return named, len(named) == len(names)
}

// names of the targets. Direct is the simulated upstream without anything in front.
const (
	direct  = "direct"
	proxy   = "fastproxy"
	gateway = "penstock"

	gatewayPostgres = "penstock-postgres"
)

// target is what is loaded; the child is the process whose CPU counts as its.
type target struct {
	name, url, key string
	child          *child
}

// sample is one measurement of one target at one point. Times are in microseconds.
type sample struct {
	rps, eventsPerSecond   float64
	cpuPerReq, cpuPerEvent float64
	p50, p99               float64
	trailing               float64          // CPU that the target still used after the window, per request in it
	foreign                float64          // share of the machine that others used
	wrong                  int64            // requests that were not answered with 200 and in full
	problems               map[string]int64 // what the wrong ones were
}

// entry is a sample and where it belongs. Entries stand in the order of their rounds.
type entry struct {
	point  string
	target string
	sample
}

const requestBytes = 1024

func (l *lab) options(p point, t target) load.Options {
	o := load.Options{
		URL: t.url, Keys: []string{t.key}, Model: model, ReqBytes: requestBytes, Stream: p.stream, Connections: p.connections,
	}
	for _, c := range l.children {
		o.Processes = append(o.Processes, load.Process{Name: c.name, PID: c.cmd.Process.Pid})
	}
	return o
}

// try sends one request of each kind to each target, so that a wrong set-up is told at once.
func (l *lab) try(ctx context.Context) error {
	for _, t := range l.targets {
		for _, p := range []point{{"plain", 1, false}, {"stream", 1, true}} {
			o := l.options(p, t)
			o.Total = 1
			res, err := load.Run(ctx, o)
			if err != nil {
				return errors.Wrap(err, t.name)
			}
			if res.OK != 1 {
				return errors.Newf("%s: a first %s request failed: %v", t.name, p.name, problems(res))
			}
		}
	}
	return nil
}

// rounds measures everything.
func (l *lab) rounds(ctx context.Context) ([]entry, error) {
	var runs []entry
	fmt.Fprintln(l.progress, heading)
	for round := range l.settings.rounds {
		targets := slices.Clone(l.targets)
		if round%2 == 1 {
			slices.Reverse(targets)
		}
		for _, p := range l.settings.points {
			for _, t := range targets {
				s, err := l.measure(ctx, p, t, l.settings.seconds)
				if err != nil {
					return nil, errors.Wrapf(err, "%s at %s", t.name, p.name)
				}
				runs = append(runs, entry{p.name, t.name, s})
				fmt.Fprintln(l.progress, s.line(strconv.Itoa(round+1), p, t))
			}
		}
	}
	return runs, nil
}

// profileStretch makes the profiled pass longer than a measurement: a profile has a hundred samples per second of CPU.
const profileStretch = 4

// profile loads the gateway once more while it takes a CPU profile of itself.
func (l *lab) profile(ctx context.Context) error {
	i := slices.IndexFunc(l.targets, func(t target) bool { return t.name != direct && t.name != proxy })
	t := l.targets[i]
	if err := t.child.tell(ctx, "profile "+l.settings.profile); err != nil {
		return err
	}
	s, err := l.measure(ctx, l.settings.at, t, profileStretch*l.settings.seconds)
	if err != nil {
		return err
	}
	fmt.Fprintln(l.progress, s.line("prof", l.settings.at, t))
	return t.child.tell(ctx, "stop")
}

// measure is one measurement. If nothing was answered within it, the machine being that busy or the time that short,
// it is repeated with twice the length, up to stretchMax times the one that was asked for.
func (l *lab) measure(ctx context.Context, p point, t target, seconds float64) (sample, error) {
	for stretch := 1; stretch <= stretchMax; stretch *= 2 {
		o := l.options(p, t)
		o.Duration = time.Duration(seconds*float64(time.Second)) * time.Duration(stretch)
		o.Warmup = o.Duration / 4
		res, err := load.Run(ctx, o)
		if err != nil {
			return sample{}, err
		}
		trailing, err := l.settle(ctx, t)
		if err != nil {
			return sample{}, err
		}
		if res.Requests > 0 || res.Events > 0 {
			return sampleOf(res, t, trailing), nil
		}
	}
	return sample{}, errors.New("nothing was answered")
}

const stretchMax = 8

// sampleOf is what a result says about its target; trailing is in seconds.
func sampleOf(res load.Result, t target, trailing float64) sample {
	a := res.Processes[t.child.name]
	s := sample{
		rps: res.RPS, eventsPerSecond: res.EventsPerSecond, cpuPerReq: a.CPUPerReq, cpuPerEvent: a.CPUPerEvent,
		p50: res.Latency.P50, p99: res.Latency.P99, foreign: res.HostForeign,
		wrong: res.Failed(), problems: problems(res),
	}
	if res.Requests > 0 {
		s.trailing = trailing * 1e6 / float64(res.Requests)
	}
	return s
}

// problems counts what was wrong with the answers, by kind.
func problems(res load.Result) map[string]int64 {
	found := map[string]int64{}
	for status, n := range res.Status {
		if status != 200 {
			found[fmt.Sprintf("status %d", status)] = n
		}
	}
	for kind, n := range res.Errors {
		found[kind] = n
	}
	if res.IncompleteStreams > 0 {
		found["incomplete stream"] = res.IncompleteStreams
	}
	return found
}

// The processes are quiet when all together used at most that much CPU in one interval.
const (
	settleTime     = 3 * time.Second
	settleInterval = 100 * time.Millisecond
	quiet          = 0.011 // seconds of CPU; the kernel counts in hundredths
)

// settle waits until no process works any more, so that none pays for what another left behind, at most settleTime.
// It returns the CPU seconds that the target used meanwhile.
func (l *lab) settle(ctx context.Context, t target) (trailing float64, err error) {
	first, err := t.child.cpu()
	if err != nil {
		return 0, err
	}
	before, err := l.cpu()
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(settleInterval)
	defer tick.Stop()
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		now, err := l.cpu()
		if err != nil {
			return 0, err
		}
		if now-before <= quiet {
			break
		}
		before = now
	}
	last, err := t.child.cpu()
	return last - first, err
}

// cpu is what all processes have used, in seconds.
func (l *lab) cpu() (sum float64, err error) {
	for _, c := range l.children {
		used, err := c.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
