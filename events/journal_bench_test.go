package events_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// steady is a store that takes a fixed time for a commit and keeps nothing.
type steady struct {
	events.Store
	took time.Duration
	last events.Position
}

func (s *steady) Append(_ context.Context, batch []events.Append, _ events.Position) ([]events.Result, error) {
	time.Sleep(s.took)
	results := make([]events.Result, len(batch))
	for i := range batch {
		results[i].First = s.last + 1
		s.last += events.Position(len(batch[i].Rows[0].Facts))
	}
	return results, nil
}

// BenchmarkJournal measures what the journal itself costs a usual request at 64 connections, without any store: two appends
// encoded, gathered, committed and handed on; the first is waited for, the last is not.
func BenchmarkJournal(b *testing.B) {
	const callers, each = 64, 200
	cpu := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	streams := make([]string, callers*each)
	for i := range streams {
		streams[i] = fmt.Sprintf("request/019ac0de-7a9f-7c11-9d5e-%012x", i)
	}
	b.ReportAllocs()
	var used time.Duration
	var stats events.JournalStats
	for b.Loop() {
		began := cpu()
		j := events.NewJournal(events.JournalOptions{Store: &steady{took: 500 * time.Microsecond}})
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				for _, stream := range streams[c*each : (c+1)*each] {
					if err := usual(j, stream); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		if err := j.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		used += cpu() - began
		s := j.Stats()
		stats.Commits, stats.Appends = stats.Commits+s.Commits, stats.Appends+s.Appends
	}
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*callers*each), "cpu-ns/request")
	b.ReportMetric(float64(stats.Appends)/float64(stats.Commits), "rows/commit")
	b.ReportMetric(float64(stats.Commits)/b.Elapsed().Seconds(), "commits/s")
}

// usual appends what a usual request does.
func usual(j *events.Journal, stream string) error {
	if err := j.Room(); err != nil {
		return err
	}
	row := events.Row{Stream: stream, At: time.Now().UTC(), Node: "n", Request: stream[len(events.RequestStreams):], Key: "team-a", Upstream: "openai-main"}
	first, end := row, row
	first.Facts = []events.Fact{
		&request.Admitted{
			Ask: request.Ask{
				Key: "team-a", User: "alice", Group: "default", Method: "POST", Path: "/v1/chat/completions", Dialect: "openai-chat",
				Capability: "openai_chat_compatible", Model: "gpt-5-mini", Client: "OpenAI/Python 2.8.1", Address: "10.1.2.3",
			},
			InputEstimate: 256, Plan: []request.Candidate{{Upstream: "openai-main", Why: "weighted_selection"}},
		},
		&request.Dispatched{N: 1, Upstream: "openai-main", Account: "openai-main-1", ResolvedModel: "gpt-5-mini", Why: "weighted_selection"},
	}
	if err := j.Commit(events.Append{Rows: []events.Row{first}}, events.May); err != nil {
		return err
	}
	end.Version, end.Terminal = 2, true
	end.Facts = []events.Fact{&request.Settled{
		Outcome: request.Completed, Status: 200, UpstreamStatus: 200, UpstreamID: "req_011CTkWZq9Xf", Attempts: 1, Sent: true,
		Usage: pricing.Usage{Input: 200, Output: 20}, UsageSource: pricing.Reported, PriceVersion: "gpt-5-mini@17",
		UpstreamCost: 560_000, Cost: 560_000, AttemptUS: 345_678, DurationUS: 346_789,
	}}
	j.Put(events.Append{Rows: []events.Row{end}}, events.Last)
	return nil
}
