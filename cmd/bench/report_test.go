package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTheMedianIsTheMiddleOrTheMeanOfTheMiddleTwo(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{100, 1, 4, 2}, 3},
	} {
		before := slices.Clone(c.of)
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.of, got, c.want)
		}
		if !slices.Equal(c.of, before) {
			t.Errorf("median reordered %v to %v", before, c.of)
		}
	}
}

// book is two rounds at one point; the second round runs on a machine half as fast.
func book() []entry {
	at := func(target string, s sample) entry { return entry{"c1", target, s} }
	return []entry{
		at(direct, sample{rps: 1000, cpuPerReq: 10, p50: 100, p99: 1000, foreign: 0.1}),
		at(proxy, sample{rps: 800, cpuPerReq: 40, p50: 150, p99: 1500, foreign: 0.2}),
		at(gateway, sample{rps: 400, cpuPerReq: 80, p50: 300, p99: 3000, trailing: 4, foreign: 0.3}),

		at(gateway, sample{rps: 200, cpuPerReq: 160, p50: 600, p99: 6000, trailing: 6, foreign: 0.4}),
		at(proxy, sample{rps: 400, cpuPerReq: 80, p50: 300, p99: 3000, foreign: 0.5}),
		at(direct, sample{rps: 500, cpuPerReq: 20, p50: 200, p99: 2000, foreign: 0.6}),
	}
}

func TestFiguresAreMediansAndRatiosAreTakenWithinARound(t *testing.T) {
	r := newReport(book())
	want := map[string]Figures{
		direct:  {RPS: 750, CPUPerReq: 15, P50: 150, P99: 1500},
		proxy:   {RPS: 600, CPUPerReq: 60, P50: 225, P99: 2250, AddedP50: 75},
		gateway: {RPS: 300, CPUPerReq: 120, CPUAfter: 5, P50: 450, P99: 4500, AddedP50: 300},
	}
	for name, f := range want {
		if got := r.Points["c1"][name]; got != f {
			t.Errorf("%s\n got %+v\nwant %+v", name, got, f)
		}
	}
	if got, want := r.Ratios["c1"][gateway], (Ratios{CPUPerReq: 2, RPS: 0.5, AddedP50: 4}); got != want {
		t.Errorf("ratios\n got %+v\nwant %+v", got, want)
	}
	if r.ForeignMedian != 0.35 || r.ForeignMax != 0.6 {
		t.Errorf("foreign %v, at most %v", r.ForeignMedian, r.ForeignMax)
	}
	if err := r.failure(); err != nil {
		t.Errorf("nothing failed, but: %v", err)
	}
}

func TestARatioOfNoiseOrNothingIsNotMadeUp(t *testing.T) {
	runs := book()
	runs[1].p50 = 90 // the proxy was faster than nothing at all, which is noise
	runs[2].cpuPerReq = 0
	got := newReport(runs).Ratios["c1"][gateway]
	if want := (Ratios{CPUPerReq: 2, RPS: 0.5, AddedP50: 4}); got != want {
		t.Errorf("one bad round\n got %+v\nwant %+v", got, want)
	}
	if got := newReport(runs[:3]).Ratios["c1"][gateway]; got != (Ratios{RPS: 0.5}) {
		t.Errorf("only a bad round: %+v", got)
	}
}

func TestStreamsAreComparedPerEvent(t *testing.T) {
	r := newReport([]entry{
		{"sse200", direct, sample{rps: 10, eventsPerSecond: 540, cpuPerEvent: 2, p50: 1}},
		{"sse200", proxy, sample{rps: 10, eventsPerSecond: 540, cpuPerEvent: 4, p50: 2}},
		{"sse200", gateway, sample{rps: 5, eventsPerSecond: 270, cpuPerEvent: 6, p50: 4}},
	})
	if got, want := r.Ratios["sse200"][gateway], (Ratios{RPS: 0.5, CPUPerEvent: 1.5, AddedP50: 3}); got != want {
		t.Errorf("ratios\n got %+v\nwant %+v", got, want)
	}
	if f := r.Points["sse200"][gateway]; f.EventsPerSecond != 270 || f.CPUPerEvent != 6 {
		t.Errorf("figures %+v", f)
	}
}

func TestFailedRequestsAreAnErrorThatSaysWhichAndWhy(t *testing.T) {
	runs := book()
	runs[2].wrong, runs[2].problems = 3, map[string]int64{"status 502": 2, "eof": 1}
	runs[3].wrong, runs[3].problems = 1, map[string]int64{"status 502": 1}
	r := newReport(runs)
	if r.Failed[gateway] != 4 || r.Failed[proxy] != 0 {
		t.Errorf("failed %v", r.Failed)
	}
	err := r.failure()
	if err == nil {
		t.Fatal("no error")
	}
	for _, words := range []string{"4 requests failed", "penstock c1 status 502: 3", "penstock c1 eof: 1"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
}

func TestAProcessAccountIsReadWhateverTheProcessIsCalled(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 150 25 99 99 20 0"
	for _, name := range []string{"(penstock)", "(a) b (c))", "(x 1 2 3)"} {
		if got, err := ticksOf([]byte("42 " + name + rest)); err != nil || got != 175 {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 4 5 6 7 8 9 10 many 25"} {
		if got, err := ticksOf([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}
