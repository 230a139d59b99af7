package gate

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkSlot is the hot path: a slot is set aside, granted and released, with others held and without a queue.
func BenchmarkSlot(b *testing.B) {
	for _, perKey := range []bool{false, true} {
		for _, others := range []int{0, 64, 1000} {
			b.Run(fmt.Sprintf("others=%d/per_key=%v", others, perKey), func(b *testing.B) {
				g := New(Policy{PerKey: perKey})
				ids := make([]LeaseID, others+1)
				keys := make([]string, others+1)
				for i := range ids {
					ids[i] = LeaseID{Request: fmt.Sprintf("0190b8f6-5d1c-7000-8000-%012d", i), Attempt: 1}
					keys[i] = fmt.Sprintf("team-%d", i%50)
					if i > 0 {
						must(g.Hold(ids[i], keys[i], t0))
					}
				}
				now, at := t0, 0
				b.ReportAllocs()
				for b.Loop() {
					must(g.Hold(ids[at], keys[at], now))
					g.Confirm(ids[at], "acct")
					now = now.Add(time.Microsecond)
					if at++; at == len(ids) {
						at = 0
					}
					g.Release(ids[at], now) // the one that has been held longest
				}
			})
		}
	}
}

// BenchmarkTurn is one turn of a full queue: who is next leaves and a newcomer joins.
func BenchmarkTurn(b *testing.B) {
	for _, d := range []Discipline{FIFO, Fair} {
		for _, waiting := range []int{10, 1000, 100_000} {
			b.Run(fmt.Sprintf("%v/waiting=%d", d, waiting), func(b *testing.B) {
				g := New(Policy{Queue: &Queue{Timeout: time.Hour, Discipline: d}})
				now, n := t0, 0
				join := func() {
					n++
					a := Ask{ID: LeaseID{Request: "0190b8f6-5d1c-7000-8000-000000000000", Attempt: n}, Key: teams[n%len(teams)], Class: Class(n%3 - 1)}
					if _, err := g.Enqueue(a, now); err != nil {
						b.Fatal(err)
					}
				}
				for range waiting {
					join()
				}
				b.ReportAllocs()
				for b.Loop() {
					now = now.Add(time.Millisecond)
					g.Leave(g.Next(now, nil).ID, Served)
					join()
				}
			})
		}
	}
}

var teams = func() (keys [100]string) {
	for i := range keys {
		keys[i] = fmt.Sprint("team-", i)
	}
	return keys
}()
