package actors

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
)

func BenchmarkTryRelease(b *testing.B) {
	for _, askers := range []int{1, 64} {
		for _, upstreams := range []int{1, 8} {
			b.Run(fmt.Sprintf("askers=%d/upstreams=%d", askers, upstreams), func(b *testing.B) {
				var l Layout
				var cs []Candidate
				for i := range upstreams {
					u, a := fmt.Sprint("u", i), fmt.Sprint("a", i)
					l.Upstreams = append(l.Upstreams, up(u, 1000, 0))
					l.Accounts = append(l.Accounts, acc(a, u, 1000))
					cs = append(cs, Candidate{Upstream: u, Accounts: []string{a}})
				}
				h := openHouse(b, l)
				b.ReportAllocs()
				var who atomic.Int64
				b.SetParallelism(askers) // times GOMAXPROCS
				if askers == 1 {
					w := req("r")
					for b.Loop() {
						lease, no := h.Try(w, cs[0])
						if no != nil {
							b.Fatal(*no)
						}
						h.Release(lease, nil)
						w.ID.Attempt++
					}
					return
				}
				b.SetParallelism(askers / 2)
				b.RunParallel(func(pb *testing.PB) {
					n := int(who.Add(1))
					w := req(fmt.Sprint("r", n))
					for pb.Next() {
						lease, no := h.Try(w, cs[n%len(cs)])
						if no != nil {
							b.Error(*no)
							return
						}
						h.Release(lease, nil)
						w.ID.Attempt++
					}
				})
			})
		}
	}
}

func BenchmarkAdmitLeave(b *testing.B) {
	h := openHouse(b, Layout{Users: []catalog.User{{ID: "u"}}, Keys: []catalog.Key{{ID: "k", User: "u"}}})
	b.ReportAllocs()
	w := req("r")
	for b.Loop() {
		p, no := h.Admit("user/u", "k", w, nil)
		if no != nil {
			b.Fatal(*no)
		}
		h.Leave(p)
	}
}
