package limit

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/money"
)

func tenThousand() ([]*Caller, []string) {
	callers, ids := make([]*Caller, 10_000), make([]string, 10_000)
	for i := range callers {
		ids[i] = fmt.Sprintf("0197f5a0-0000-7000-8000-%012d", i)
		callers[i] = NewCaller(Policy{Keys: []Key{{ID: "k", Rate: Rate{RPM: 1_000_000, TPM: 1_000_000_000}, Money: Money{Strict, []Rule{
			{Period{Kind: Daily}, 1e8 * money.USD}, {Period{Kind: Rolling, Hours: 24}, 1e8 * money.USD}, {Limit: 1e8 * money.USD}}}}}})
	}
	return callers, ids
}

// BenchmarkRequest is a whole request of one of 10,000 keys, 10,000 of them per second: Admit, Check, Reserve, Settle.
func BenchmarkRequest(b *testing.B) {
	callers, ids := tenThousand()
	now := t0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := i % len(callers)
		c, id := callers[n], ids[n]
		now = now.Add(100 * time.Microsecond)
		if !c.Admit(Request{id, "k", now, 1000}).OK() || !c.Check(id, now).OK() {
			b.Fatal("refused")
		}
		if _, no := c.Reserve(id, money.USD/100, now); !no.OK() {
			b.Fatal(no)
		}
		c.Settle(id, Settlement{now, money.USD / 200, 1500})
	}
}

// BenchmarkAdmit is Admit alone, of one key with a full window of 3,000 requests, and the refund that undoes it.
func BenchmarkAdmit(b *testing.B) {
	callers, ids := tenThousand()
	c := callers[0]
	for i := range 3000 {
		c.Charge("k", 1, 1000, t0.Add(time.Duration(i)*10*time.Millisecond))
	}
	now := t0.Add(30 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		if !c.Admit(Request{ids[0], "k", now, 1000}).OK() {
			b.Fatal("refused")
		}
		c.Refund(ids[0])
	}
}

// BenchmarkRefusal is a request over the limit of a window of 3,000, with the time at which it opens.
func BenchmarkRefusal(b *testing.B) {
	c := NewCaller(Policy{Keys: []Key{{ID: "k", Rate: Rate{RPM: 3000, TPM: 3_000_000}}}})
	for i := range 3000 {
		c.Charge("k", 1, 1000, t0.Add(time.Duration(i)*10*time.Millisecond))
	}
	b.ReportAllocs()
	for b.Loop() {
		if c.Admit(Request{"x", "k", t0.Add(31 * time.Second), 1000}).OK() {
			b.Fatal("admitted")
		}
	}
}

// BenchmarkMemory reports the bytes of a key with all limits, fresh and after a minute at 60 requests.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		var before, fresh, used runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		callers, ids := tenThousand()
		runtime.GC()
		runtime.ReadMemStats(&fresh)
		for i := range 60 {
			for n, c := range callers {
				now := t0.Add(time.Duration(i) * time.Second)
				c.Admit(Request{ids[n], "k", now, 1000})
				c.Reserve(ids[n], 1, now)
				c.Settle(ids[n], Settlement{now, 1, 1500})
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&used)
		b.ReportMetric(float64(fresh.HeapAlloc-before.HeapAlloc)/10_000, "fresh-B/key")
		b.ReportMetric(float64(used.HeapAlloc-before.HeapAlloc)/10_000, "used-B/key")
		runtime.KeepAlive(callers)
		runtime.KeepAlive(ids)
	}
}
