package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestABucketHoldsItsValueToWithinOneIn128(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []int64{0, 1, 127, 128, 255, 256, 257, 511, 512, math.MaxInt64}
	for e := range 62 {
		values = append(values, 1<<e, 1<<e-1, 1<<e+rng.Int64N(1<<e))
	}
	slices.Sort(values)
	last := -1
	for _, v := range values {
		i := bucket(v)
		if u := upper(i); u < v || float64(u-v) > float64(v)/half {
			t.Errorf("%d is in bucket %d, which ends at %d", v, i, u)
		}
		if i > 0 && upper(i-1) >= v {
			t.Errorf("%d would fit into the bucket before %d", v, i)
		}
		if i < last {
			t.Errorf("%d is in bucket %d, a smaller value in %d", v, i, last)
		}
		last = i
	}
	if last >= len(histogram{}.buckets) {
		t.Errorf("bucket %d does not exist", last)
	}
}

func TestQuantilesAreThoseOfTheSortedValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var h histogram
	var all []float64
	for range 20_000 {
		d := time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond))
		h.add(d)
		all = append(all, float64(d)/1e3)
	}
	slices.Sort(all)
	s := h.summary()
	for q, got := range map[float64]float64{.5: s.P50, .9: s.P90, .95: s.P95, .99: s.P99, .999: s.P999, 1: s.Max} {
		want := all[int(q*float64(len(all)))-1]
		if got < want*.9999 || got > want*(1+1./half)+.01 {
			t.Errorf("quantile %v: %v µs, want %v", q, got, want)
		}
	}
	sum := 0.
	for _, v := range all {
		sum += v
	}
	if mean := sum / float64(len(all)); math.Abs(s.Mean-mean) > .02 || s.N != 20_000 {
		t.Errorf("mean %v of %d, want %v", s.Mean, s.N, mean)
	}
}

func TestOneValueIsEveryQuantileAndNoneIsNothing(t *testing.T) {
	var h histogram
	if s := h.summary(); s != (Summary{}) {
		t.Errorf("%+v", s)
	}
	h.add(1234567 * time.Nanosecond)
	if s := h.summary(); s.P50 != s.Max || s.P999 != s.Max || s.Max != 1234.56 {
		t.Errorf("%+v", s)
	}
}
