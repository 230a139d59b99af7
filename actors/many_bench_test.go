package actors

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// manyCallers is n keys, every tenth of a user, with all limits.
func manyCallers(n int) Layout {
	var l Layout
	limits := &catalog.Limits{
		RPM: whole(1_000_000), TPM: whole(1_000_000_000), Budget: "1000000",
		Spending: []catalog.Spending{{Period: "daily", Limit: "100000"}, {Period: "rolling", Hours: 24, Limit: "100000"}},
	}
	for i := range n {
		k := catalog.Key{ID: fmt.Sprint("key-", i), Limits: limits, Budget: "strict"}
		if i%10 == 0 {
			k.User = fmt.Sprint("user-", i)
			l.Users = append(l.Users, catalog.User{ID: k.User, Limits: limits})
		}
		l.Keys = append(l.Keys, k)
	}
	return l
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Show: what 10,000 keys take, each with every limit and in use, and what a request costs that is admitted, reserves money, and
// settles.
func BenchmarkTenThousandCallers(b *testing.B) {
	const keys = 10_000
	before := heap()
	l := manyCallers(keys)
	h := &house{t: b}
	h.System = NewSystem(Options{Now: h.now, History: func(limit.Past, func(*Used)) error { return nil }})
	b.Cleanup(func() { _ = h.Stop(context.Background()) })
	h.Reconfigure(l)
	h.Reconfigure(l) // now they know what was spent before
	idle := heap()
	var n atomic.Int64
	serve := func() {
		i := int(n.Add(1))
		k := &l.Keys[i*7919%keys]
		id := fmt.Sprint("r", i)
		began := h.now()
		p, no := h.System.admit(callerID(k.User, k.ID), k.ID, req(id), nil, nil, entrance{at: began, tokens: 100})
		if no != nil {
			b.Errorf("%+v", no)
			return
		}
		if _, no := h.reserve(p, money.USD/1000); !no.OK() {
			b.Errorf("%+v", no)
			return
		}
		p.paid, p.bill = true, limit.Settlement{At: began, Cost: money.USD / 2000, Tokens: 150}
		h.Leave(p)
	}
	for range 3 * keys {
		serve()
	}
	used := heap()
	b.Run("one after the other", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			serve()
		}
		b.ReportMetric(float64(idle-before)/keys, "B/key")
		b.ReportMetric(float64(used-before)/keys, "B/key-in-use")
	})
	b.Run("many at once", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				serve()
			}
		})
	})
	b.Run("another limit for one of them", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			changed := l
			changed.Keys = append([]catalog.Key(nil), l.Keys...)
			changed.Keys[77].Limits = &catalog.Limits{RPM: whole(int64(i) + 1000)}
			h.Reconfigure(changed)
		}
	})
	runtime.KeepAlive(l)
}
