package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/lawtest"
)

// stocked is a store file with commits of four rows with one fact each: positions 1-4, 5-8 and so on.
func stocked(t testing.TB, commits int) string {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{})
	for i := range commits {
		var batch []events.Append
		for n := range 4 {
			batch = append(batch, one(row(t, fmt.Sprintf("request/%d-%d", i, n), 0))...)
		}
		_, err := s.Append(context.Background(), batch, 0)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return path
}

func audited(t testing.TB, path string, a events.Audit) events.Report {
	t.Helper()
	s := openStore(t, path, sqlite.StoreOptions{})
	defer s.Close()
	report, err := a.Verify(context.Background(), s)
	require.NoError(t, err)
	return report
}

func TestWhatIsDoneToTheFileWithSQLIsFound(t *testing.T) {
	for _, c := range []struct {
		what, sql string
		fault     events.Fault
		first     events.Position
	}{
		{"nothing", `SELECT 1`, "", 0},
		{"a byte of a payload", `UPDATE events SET payload = replace(payload, '"waited_us":0', '"waited_us":9') WHERE position = 7`, events.Tampered, 7},
		{"a stream", `UPDATE events SET stream = 'request/other' WHERE position = 7`, events.Tampered, 7},
		{"a time", `UPDATE events SET at = at + 1 WHERE position = 1`, events.Tampered, 1},
		{"types", `UPDATE events SET types = 'request.queued' WHERE position = 12`, events.Tampered, 12},
		{"a mark", `UPDATE events SET terminal = 1 WHERE position = 12`, events.Tampered, 12},
		{"a number of facts", `UPDATE events SET n = 2 WHERE position = 12`, events.Tampered, 12},
		{"a key where there was none", `UPDATE events SET key = 'k' WHERE position = 2`, events.Tampered, 2},
		{"a hash", `UPDATE events SET hash = zeroblob(32) WHERE position = 2`, events.Tampered, 2},
		{"a hash of another length", `UPDATE events SET hash = x'00' WHERE position = 2`, events.Tampered, 2},
		{"a link's hash", `UPDATE commits SET hash = zeroblob(32) WHERE first = 5`, events.Tampered, 5},
		{"a link's predecessor", `UPDATE commits SET previous = zeroblob(32) WHERE first = 5`, events.Tampered, 5},
		{"a link's facts, fewer", `UPDATE commits SET n = 2 WHERE first = 5`, events.Missing, 7},
		{"a link's facts, none", `UPDATE commits SET n = -1 WHERE first = 5`, events.Tampered, 5},
		{"a link's facts, more than there can be", `UPDATE commits SET n = 9223372036854775807 WHERE first = 5`, events.Tampered, 5},
		{"a deleted row", `DELETE FROM events WHERE position = 6`, events.Missing, 6},
		{"a deleted link", `DELETE FROM commits WHERE first = 5`, events.Missing, 5},
		{"a deleted first link", `DELETE FROM commits WHERE first = 1`, events.Missing, 1},
		{"deleted links, all of them", `DELETE FROM commits`, events.Missing, 1},
		{"a deleted link with its rows", `DELETE FROM commits WHERE first = 5; DELETE FROM events WHERE position BETWEEN 5 AND 8`, events.Missing, 5},
		{"a deleted last link", `DELETE FROM commits WHERE first = 9`, events.Missing, 9},
		{"two rows at each other's places", `UPDATE events SET position = 99 WHERE position = 3;
			UPDATE events SET position = 3 WHERE position = 10; UPDATE events SET position = 10 WHERE position = 99`, events.Reordered, 3},
		{"a row put aside as if retention had removed it", `INSERT INTO archived SELECT position, n, hash FROM events WHERE position = 6;
			DELETE FROM events WHERE position = 6`, events.Missing, 6},
		{"a row that is archived and there", `INSERT INTO archived SELECT position, n, hash FROM events WHERE position = 6`, events.Reordered, 6},
		{"a cut-off end", `DELETE FROM commits WHERE first = 9; DELETE FROM events WHERE position >= 9`, events.Truncated, 9},
		{"everything gone", `DELETE FROM commits; DELETE FROM events`, events.Truncated, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := stocked(t, 3)
			head := audited(t, path, events.Audit{}).Head
			require.Equal(t, events.Position(12), head.Position)
			db, err := sqlite3.Open(path)
			require.NoError(t, err)
			require.NoError(t, db.Exec(c.sql))
			require.NoError(t, db.Close())
			report := audited(t, path, events.Audit{Heads: []events.Head{head}, Removed: func(events.Position) bool { return false }})
			require.Equal(t, c.fault, report.Fault, report.Detail)
			if c.first == 0 {
				require.Nil(t, report.FirstBroken)
				require.Equal(t, 1, report.Heads)
				return
			}
			require.Equal(t, c.first, *report.FirstBroken, report.Detail)
		})
	}
}

func TestARemovalGoesOnWhereACrashHasLeftIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{})
	history, err := lawtest.History{Seed: 3, Requests: 120}.Appends()
	require.NoError(t, err)
	lawtest.Commits(t, s, history, 3, 7, 2)
	h := head(t, s)
	removal := events.Removal{First: 1, Last: h / 2, Through: h}
	total := 0
	for n := -1; n != 0; total += n {
		s = openStore(t, path, sqlite.StoreOptions{}) // the one before is dropped as it is
		n, err = s.Remove(context.Background(), removal, 5)
		require.NoError(t, err)
		report, err := events.Audit{}.Verify(context.Background(), s)
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
		require.Equal(t, int64(total+n), report.Archived)
		began := map[string]bool{} // what is left of a stream has its beginning
		for _, r := range rows(t, s) {
			began[r.Stream] = began[r.Stream] || r.Version == 0
			require.True(t, began[r.Stream], r.Stream)
		}
	}
	require.Greater(t, total, 50)
	for _, r := range rows(t, s) {
		if r.Request != "" && r.Version == 0 {
			require.Greater(t, r.Position, h/2)
		}
	}
}

func BenchmarkAudit(b *testing.B) {
	path := filepath.Join(b.TempDir(), "events.db")
	s := openStore(b, path, sqlite.StoreOptions{})
	history, err := lawtest.History{Seed: 1, Requests: 50_000, Plain: true, Step: time.Millisecond}.Appends()
	require.NoError(b, err)
	lawtest.Commits(b, s, history, 128)
	b.ResetTimer()
	for b.Loop() {
		begun := time.Now()
		report, err := events.Audit{}.Verify(context.Background(), s)
		require.NoError(b, err)
		require.True(b, report.Equal)
		b.ReportMetric(float64(report.Rows)/time.Since(begun).Seconds(), "rows/s")
	}
}

// BenchmarkAppendBesideARemoval appends one row at a time while rows are taken away, as the closer does it.
func BenchmarkAppendBesideARemoval(b *testing.B) {
	s := openStore(b, filepath.Join(b.TempDir(), "events.db"), sqlite.StoreOptions{})
	history, err := lawtest.History{Seed: 1, Requests: 50_000, Plain: true, Step: time.Millisecond}.Appends()
	require.NoError(b, err)
	lawtest.Commits(b, s, history, 128)
	h := head(b, s)
	done := make(chan int, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		total := 0
		for ctx.Err() == nil {
			begun := time.Now()
			n, err := s.Remove(ctx, events.Removal{First: 1, Last: h, Through: h}, 50)
			if n == 0 || err != nil {
				break
			}
			total += n
			time.Sleep(time.Since(begun))
		}
		done <- total
	}()
	begun := time.Now()
	var took []time.Duration
	for i := int64(0); b.Loop(); i++ {
		at := time.Now()
		_, err := s.Append(context.Background(), one(row(b, "node/x", i)), 0)
		require.NoError(b, err)
		took = append(took, time.Since(at))
	}
	stop()
	b.ReportMetric(float64(<-done)/time.Since(begun).Seconds(), "removed/s")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
}
