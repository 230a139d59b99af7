package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// half is the number of buckets per power of two: a value is known to 1/128 of itself.
const half = 128

// histogram counts durations in log-linear buckets of nanoseconds. The zero value is ready; add may be called from
// any goroutine.
type histogram struct {
	n, sum, max atomic.Int64
	buckets     [(63 - 7 + 1) * half]atomic.Int64
}

// bucket is the index of the bucket that holds v: exact below 2*half, then half buckets per power of two.
func bucket(v int64) int {
	if v < 2*half {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 8 // v>>e is in [half, 2*half)
	return (e+1)*half + int(v>>e) - half
}

// upper is the largest value of bucket i.
func upper(i int) int64 {
	if i < 2*half {
		return int64(i)
	}
	e := i/half - 1
	return int64(i%half+half+1)<<e - 1
}

func (h *histogram) add(d time.Duration) {
	v := max(int64(d), 0)
	h.buckets[bucket(v)].Add(1)
	h.n.Add(1)
	h.sum.Add(v)
	for {
		m := h.max.Load()
		if v <= m || h.max.CompareAndSwap(m, v) {
			return
		}
	}
}

// Summary is a distribution of durations, in microseconds. All but N are 0 when N is 0. Quantiles are at most
// 1/128 too high and never above Max.
type Summary struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean_us,omitempty"`
	P50  float64 `json:"p50_us,omitempty"`
	P90  float64 `json:"p90_us,omitempty"`
	P95  float64 `json:"p95_us,omitempty"`
	P99  float64 `json:"p99_us,omitempty"`
	P999 float64 `json:"p999_us,omitempty"`
	Max  float64 `json:"max_us,omitempty"`
}

func (h *histogram) summary() Summary {
	s := Summary{N: h.n.Load()}
	if s.N == 0 {
		return s
	}
	us := func(ns int64) float64 { return float64(ns/10) / 100 }
	s.Mean, s.Max = us(h.sum.Load()/s.N), us(h.max.Load())
	todo := []struct {
		q   float64
		out *float64
	}{{.5, &s.P50}, {.9, &s.P90}, {.95, &s.P95}, {.99, &s.P99}, {.999, &s.P999}}
	var sum int64
	for i := range h.buckets {
		sum += h.buckets[i].Load()
		for len(todo) > 0 && sum > 0 && float64(sum) >= todo[0].q*float64(s.N) {
			*todo[0].out = us(min(upper(i), h.max.Load()))
			todo = todo[1:]
		}
	}
	return s
}
