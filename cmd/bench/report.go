package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
)

// Report is what a benchmark found. Times are in microseconds, everything by point and target is a median over the
// rounds.
type Report struct {
	Go         string  `json:"go"`
	CPUs       int     `json:"cpus"`
	Rounds     int     `json:"rounds"`
	Seconds    float64 `json:"seconds"` // of one measurement
	Durability string  `json:"durability"`

	Points  map[string]map[string]Figures `json:"points"` // by point, then by target
	Ratios  map[string]map[string]Ratios  `json:"ratios"` // by point, then by gateway: one for each store
	Failed  map[string]int64              `json:"failed"` // by target: requests that were not answered with 200 and in full
	Reasons map[string]int64              `json:"reasons,omitempty"`

	// Shares of the machine that processes which have nothing to do with the benchmark used.
	ForeignMedian float64 `json:"foreign_cpu_frac"`
	ForeignMax    float64 `json:"foreign_cpu_frac_max"`
}

// Figures are those of one target at one point. CPU is that of the target's process alone.
type Figures struct {
	RPS             float64 `json:"rps"`
	EventsPerSecond float64 `json:"events_per_s,omitempty"` // of streams
	CPUPerReq       float64 `json:"cpu_us_per_req"`
	CPUPerEvent     float64 `json:"cpu_us_per_event,omitempty"` // of streams
	CPUAfter        float64 `json:"cpu_after_us_per_req"`       // used after the measurement until quiet, on top of CPUPerReq
	P50             float64 `json:"p50_us"`
	P99             float64 `json:"p99_us"`
	AddedP50        float64 `json:"added_p50_us"` // over direct, in the same round
}

// Ratios are the gateway's figures divided by those of the bare proxy in the same round. 0 is not known.
type Ratios struct {
	CPUPerReq   float64 `json:"cpu_per_req"`
	RPS         float64 `json:"rps"`
	CPUPerEvent float64 `json:"cpu_per_event,omitempty"` // of streams
	AddedP50    float64 `json:"added_p50"`               // says something only where the machine is not full, at c1
}

// newReport condenses the runs.
func newReport(runs []entry) *Report {
	r := &Report{Points: map[string]map[string]Figures{}, Ratios: map[string]map[string]Ratios{}, Failed: map[string]int64{}, Reasons: map[string]int64{}}
	book := map[string]map[string][]sample{} // point, target, by round
	var foreign []float64
	for _, e := range runs {
		if book[e.point] == nil {
			book[e.point] = map[string][]sample{}
		}
		book[e.point][e.target] = append(book[e.point][e.target], e.sample)
		r.Failed[e.target] += e.wrong
		for reason, n := range e.problems {
			r.Reasons[e.target+" "+e.point+" "+reason] += n
		}
		foreign = append(foreign, e.foreign)
		r.ForeignMax = max(r.ForeignMax, e.foreign)
	}
	r.ForeignMedian, r.ForeignMax = milli(median(foreign)), milli(r.ForeignMax)
	for name, targets := range book {
		r.Points[name] = map[string]Figures{}
		for t, samples := range targets {
			r.Points[name][t] = figures(samples, targets[direct])
		}
		r.Ratios[name] = map[string]Ratios{}
		for _, g := range stores["both"] {
			if targets[g] != nil {
				r.Ratios[name][g] = ratios(targets[g], targets[proxy], targets[direct])
			}
		}
	}
	return r
}

func figures(samples, base []sample) Figures {
	over := func(f func(s sample) float64) float64 { return milli(median(each(samples, f))) }
	added := make([]float64, 0, len(samples))
	for i := range min(len(samples), len(base)) {
		added = append(added, samples[i].p50-base[i].p50)
	}
	return Figures{
		RPS:             over(func(s sample) float64 { return s.rps }),
		EventsPerSecond: over(func(s sample) float64 { return s.eventsPerSecond }),
		CPUPerReq:       over(func(s sample) float64 { return s.cpuPerReq }),
		CPUPerEvent:     over(func(s sample) float64 { return s.cpuPerEvent }),
		CPUAfter:        over(func(s sample) float64 { return s.trailing }),
		P50:             over(func(s sample) float64 { return s.p50 }),
		P99:             over(func(s sample) float64 { return s.p99 }),
		AddedP50:        milli(median(added)),
	}
}

// ratios are medians of the ratios within a round, for what the machine does otherwise differs less within a round
// than between rounds.
func ratios(ours, theirs, base []sample) Ratios {
	within := func(f func(s sample, base sample) float64) float64 {
		var all []float64
		for i := range min(len(ours), len(theirs), len(base)) {
			if x, ok := ratio(f(ours[i], base[i]), f(theirs[i], base[i])); ok {
				all = append(all, x)
			}
		}
		return milli(median(all))
	}
	return Ratios{
		CPUPerReq:   within(func(s, _ sample) float64 { return s.cpuPerReq }),
		RPS:         within(func(s, _ sample) float64 { return s.rps }),
		CPUPerEvent: within(func(s, _ sample) float64 { return s.cpuPerEvent }),
		AddedP50:    within(func(s, b sample) float64 { return s.p50 - b.p50 }),
	}
}

func each(samples []sample, f func(s sample) float64) []float64 {
	var out []float64
	for _, s := range samples {
		out = append(out, f(s))
	}
	return out
}

// ratio is a/b; it says nothing if either is not positive: nothing was counted, or noise was larger than the thing.
func ratio(a, b float64) (float64, bool) {
	if !(a > 0 && b > 0) {
		return 0, false
	}
	return a / b, true
}

// median of an even number of values is the mean of the middle two; of none it is 0. The values stay as they are.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 1:
		return v[n/2]
	default:
		return (v[n/2-1] + v[n/2]) / 2
	}
}

// milli rounds to three places.
func milli(x float64) float64 { return math.Round(x*1000) / 1000 }

// failure is the error that requests failed, nil if none did.
func (r *Report) failure() error {
	var failed int64
	for _, n := range r.Failed {
		failed += n
	}
	if failed == 0 {
		return nil
	}
	var why []string
	for reason, n := range r.Reasons {
		why = append(why, fmt.Sprintf("%s: %d", reason, n))
	}
	slices.Sort(why)
	return errors.Newf("%d requests failed: %s", failed, strings.Join(why, ", "))
}

const heading = "round  point   target                  rps   events/s  µs/req  after  µs/event   p50 ms   p99 ms  others"

// row is what a measurement and a median have in common.
func row(round, point, target string, f Figures) string {
	return fmt.Sprintf("%5s  %-6s  %-17s  %8.0f  %9.0f  %6.0f  %5.0f  %8.1f  %7.2f  %7.2f",
		round, point, target, f.RPS, f.EventsPerSecond, f.CPUPerReq, f.CPUAfter, f.CPUPerEvent, f.P50/1000, f.P99/1000)
}

// line is one row of the table of measurements.
func (s sample) line(round string, p point, t target) string {
	text := row(round, p.name, t.name, figures([]sample{s}, nil)) + fmt.Sprintf("  %5.0f%%", 100*s.foreign)
	if s.wrong > 0 {
		text += fmt.Sprintf("  %d failed: %v", s.wrong, s.problems)
	}
	return text
}

// table writes the medians and ratios.
func (r *Report) table(w io.Writer) {
	fmt.Fprintln(w)
	for _, p := range points {
		for _, t := range append([]string{direct, proxy}, stores["both"]...) {
			if f, measured := r.Points[p.name][t]; measured {
				fmt.Fprintln(w, row("med", p.name, t, f))
			}
		}
	}
	for _, g := range stores["both"] {
		r.ratioTable(w, g)
	}
	fmt.Fprintf(w, "others used %.0f%% of the machine (median; at most %.0f%%)\n", 100*r.ForeignMedian, 100*r.ForeignMax)
}

// ratioTable writes the ratios of one gateway, if it was measured.
func (r *Report) ratioTable(w io.Writer, gateway string) {
	headed := false
	for _, p := range points {
		x, measured := r.Ratios[p.name][gateway]
		if !measured {
			continue
		}
		if !headed {
			fmt.Fprintf(w, "\n%s ÷ %s\n", gateway, proxy)
			headed = true
		}
		fmt.Fprintf(w, "  %-6s  CPU/request %5.2f  rps %5.2f", p.name, x.CPUPerReq, x.RPS)
		if p.stream {
			fmt.Fprintf(w, "  CPU/event %5.2f", x.CPUPerEvent)
		}
		if p.connections == 1 {
			f := r.Points[p.name]
			fmt.Fprintf(w, "  added p50 %5.2f (%.0f and %.0f µs)", x.AddedP50, f[gateway].AddedP50, f[proxy].AddedP50)
		}
		fmt.Fprintln(w)
	}
}
