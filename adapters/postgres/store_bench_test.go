package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// traffic makes the rows of usual requests: the first rows of some, the last rows of those that began lately.
type traffic struct {
	open []string
	n    int
}

func (w *traffic) batch(b testing.TB, size int) []events.Append {
	batch := make([]events.Append, size)
	for i := range batch {
		r := events.Row{At: time.Now().UTC(), Node: "node-1"}
		if w.n++; w.n%2 == 0 && len(w.open) > 64 {
			r.Stream, r.Version, r.Terminal = w.open[0], 2, true
			w.open = w.open[1:]
			r.Upstream = "openai-main"
			r.Facts = []events.Fact{&request.Settled{
				Outcome: request.Completed, Status: 200, UpstreamStatus: 200, UpstreamID: "req_011CTkWZq9Xf", Attempts: 1, Sent: true,
				Usage: pricing.Usage{Input: 1200, CachedInput: 1024, Output: 345, Reasoning: 128}, UsageSource: pricing.Reported,
				PriceVersion: "gpt-5-mini@17", UpstreamCost: 12_345_000, Cost: 13_579_500, TTFTUS: 412_345, AttemptUS: 2_345_678, DurationUS: 2_346_789,
			}}
		} else {
			r.Stream = "request/" + uuid.Must(uuid.NewV7()).String()
			w.open = append(w.open, r.Stream)
			r.Facts = []events.Fact{
				&request.Admitted{
					Ask: request.Ask{Key: "team-a", User: "alice", Method: "POST", Path: "/v1/chat/completions", Dialect: "openai-chat",
						Capability: "openai_chat_compatible", Model: "gpt-5-mini", Stream: true, Client: "OpenAI/Python 2.8.1", Address: "10.1.2.3"},
					InputEstimate: 1234, Plan: []request.Candidate{{Upstream: "openai-main", Why: "weighted_selection"}, {Upstream: "openai-backup", Tier: 1}},
				},
				&request.Dispatched{N: 1, Upstream: "openai-main", Account: "openai-main-1", ResolvedModel: "gpt-5-mini", Why: "weighted_selection"},
			}
		}
		r.Request, r.Key = r.Stream[len("request/"):], "team-a"
		require.NoError(b, events.Encode(&r))
		batch[i] = events.Append{Rows: []events.Row{r}}
	}
	return batch
}

// processor is the time that this process has spent so far.
func processor(b testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processorOf is the time that a process of this machine has spent so far, in steps of 10 ms.
func processorOf(b testing.TB, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(b, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func BenchmarkAppend(b *testing.B) {
	server := pgtest.Shared(b)
	for _, size := range []int{1, 16, 32, 64, 128, 512, 1024} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			dsn := server.NewDatabase(b)
			s := openStore(b, dsn, postgres.StoreOptions{})
			var writer int
			onServer(b, dsn, func(ctx context.Context, c *pgx.Conn) {
				const sql = `SELECT pid FROM pg_stat_activity WHERE application_name = 'penstock' AND datname = current_database()`
				require.NoError(b, c.QueryRow(ctx, sql).Scan(&writer))
			})
			var w traffic
			b.ReportAllocs()
			n := 0
			var mine time.Duration
			theirs := processorOf(b, writer)
			for b.Loop() {
				b.StopTimer()
				batch := w.batch(b, size)
				began := processor(b)
				b.StartTimer()
				results, err := s.Append(context.Background(), batch, 1)
				if err != nil || results[0].Err != nil {
					b.Fatal(err, results[0].Err)
				}
				mine += processor(b) - began
				n += size
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
			b.ReportMetric(float64(mine.Nanoseconds())/float64(n), "cpu-ns/row")
			b.ReportMetric(float64((processorOf(b, writer)-theirs).Nanoseconds())/float64(n), "server-cpu-ns/row")
		})
	}
}

func BenchmarkAfter(b *testing.B) {
	s := openStore(b, pgtest.Shared(b).NewDatabase(b), postgres.StoreOptions{})
	var w traffic
	for range 40 {
		put(b, s, w.batch(b, 500)...)
	}
	b.ReportAllocs()
	n := 0
	began := processor(b)
	for b.Loop() {
		err := s.After(context.Background(), 0, func(*events.Committed) bool { n++; return true })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64((processor(b)-began).Nanoseconds())/float64(n), "cpu-ns/row")
}
