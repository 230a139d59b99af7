package sqlite_test

import (
	"context"
	"fmt"
	"os"
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

// edit is SQL that changes the first such text in the row at a position.
func edit(position int, from, to string) string {
	return fmt.Sprintf(`UPDATE pages SET body = (
		WITH a (i) AS (SELECT instr(body, '[%[1]d,')), b (i) AS (SELECT i - 1 + instr(substr(body, i), '%[2]s') FROM a)
		SELECT substr(body, 1, i - 1) || '%[3]s' || substr(body, i + length('%[2]s')) FROM b)
		WHERE first = (SELECT max(first) FROM pages WHERE first <= %[1]d)`, position, from, to)
}

// without is SQL that takes a row out that is not the last one of its page.
func without(position int) string {
	return fmt.Sprintf(`UPDATE pages SET body = substr(body, 1, instr(body, '[%d,') - 1) || substr(body, instr(body, '[%d,'))
		WHERE first = (SELECT max(first) FROM pages WHERE first <= %d)`, position, position+1, position)
}

// swapped is SQL that puts the rows 3 and 10 at each other's places.
const swapped = `CREATE TEMP TABLE x AS SELECT
		(SELECT substr(body, instr(body, '[3,'), instr(body, ',' || char(10) || '[4,') - instr(body, '[3,')) FROM pages WHERE first = 1) a,
		(SELECT substr(body, instr(body, '[10,'), instr(body, ',' || char(10) || '[11,') - instr(body, '[10,')) FROM pages WHERE first = 9) b;
	UPDATE pages SET body = replace(body, a, '[3,' || substr(b, 5)) FROM x WHERE first = 1;
	UPDATE pages SET body = replace(body, b, '[10,' || substr(a, 4)) FROM x WHERE first = 9`

// swappedHashes is SQL that does so to their hashes.
const swappedHashes = `;UPDATE pages SET hashes = CAST(CASE first WHEN 1 THEN substr(h, 1, 64) || substr(o, 33, 32) || substr(h, 97)
		ELSE substr(h, 1, 32) || substr(o, 65, 32) || substr(h, 65) END AS BLOB)
	FROM (SELECT p.first f, p.hashes h, q.hashes o FROM pages p, pages q WHERE p.first IN (1, 9) AND q.first = 10 - p.first)
	WHERE first = f`

func TestWhatIsDoneToTheFileWithSQLIsFound(t *testing.T) {
	for _, c := range []struct {
		what, sql string
		fault     events.Fault
		first     events.Position
	}{
		{"nothing", `SELECT 1`, "", 0},
		{"a byte of a payload", edit(7, `"waited_us":0`, `"waited_us":9`), events.Tampered, 7},
		{"a stream", edit(7, `request/1-2`, `request/other`), events.Tampered, 7},
		{"a time", edit(1, `1772000000000000`, `1772000000000001`), events.Tampered, 1},
		{"types", edit(12, `request.resumed`, `request.queued`), events.Tampered, 12},
		{"a mark", edit(12, `,0,0,`, `,0,1,`), events.Tampered, 12},
		{"a number of facts", edit(12, `[12,1,`, `[12,2,`), events.Tampered, 12},
		{"a key where there was none", edit(2, `null,null,null,null`, `null,"k",null,null`), events.Tampered, 2},
		{"a hash", `UPDATE pages SET hashes = CAST(substr(hashes, 1, 32) || zeroblob(32) || substr(hashes, 65) AS BLOB) WHERE first = 1`, events.Tampered, 2},
		{"hashes cut off", `UPDATE pages SET hashes = substr(hashes, 1, 40) WHERE first = 1`, events.Tampered, 2},
		{"a length of a payload", edit(7, `,337,[`, `,336,[`), events.Tampered, 7},
		{"a payload that became shorter", edit(7, `"waited_us":0`, `"waited_us"`), events.Tampered, 7},
		{"a body that is nothing", `UPDATE pages SET body = '' WHERE first = 5`, events.Tampered, 5},
		{"a body cut off", `UPDATE pages SET body = substr(body, 1, instr(body, '[7,') + 100) WHERE first = 5`, events.Tampered, 7},
		{"a link's hash", `UPDATE commits SET hash = zeroblob(32) WHERE first = 5`, events.Tampered, 5},
		{"a link's predecessor", `UPDATE commits SET previous = zeroblob(32) WHERE first = 5`, events.Tampered, 5},
		{"a link's facts, fewer", `UPDATE commits SET n = 2 WHERE first = 5`, events.Missing, 7},
		{"a link's facts, none", `UPDATE commits SET n = -1 WHERE first = 5`, events.Tampered, 5},
		{"a link's facts, more than there can be", `UPDATE commits SET n = 9223372036854775807 WHERE first = 5`, events.Tampered, 5},
		{"a deleted row", without(6), events.Missing, 6},
		{"a deleted link", `DELETE FROM commits WHERE first = 5`, events.Missing, 5},
		{"a deleted first link", `DELETE FROM commits WHERE first = 1`, events.Missing, 1},
		{"deleted links, all of them", `DELETE FROM commits`, events.Missing, 1},
		{"a deleted link with its rows", `DELETE FROM commits WHERE first = 5; DELETE FROM pages WHERE first = 5`, events.Missing, 5},
		{"a deleted last link", `DELETE FROM commits WHERE first = 9`, events.Missing, 9},
		{"two rows at each other's places", swapped + swappedHashes, events.Reordered, 3},
		{"two rows with each other's places and not their hashes", swapped, events.Tampered, 3},
		{"a page that hides rows behind it", `INSERT INTO pages VALUES (7, x'', '[]')`, events.Reordered, 7},
		{"a page that begins behind its rows", `UPDATE pages SET first = 6 WHERE first = 5`, events.Tampered, 5},
		{"a page in two", `INSERT INTO pages SELECT 7, substr(hashes, 65), '[' || substr(body, instr(body, '[7,')) FROM pages WHERE first = 5;
			UPDATE pages SET hashes = substr(hashes, 1, 64), body = substr(body, 1, instr(body, '[7,') - 3) || ']' WHERE first = 5`, "", 0},
		{"a row put aside as if retention had removed it", `INSERT INTO archived SELECT position, n, hash FROM events WHERE position = 6;` + without(6), events.Missing, 6},
		{"a row that is archived and there", `INSERT INTO archived SELECT position, n, hash FROM events WHERE position = 6`, events.Reordered, 6},
		{"a cut-off end", `DELETE FROM commits WHERE first = 9; DELETE FROM pages WHERE first = 9`, events.Truncated, 9},
		{"everything gone", `DELETE FROM commits; DELETE FROM pages`, events.Truncated, 1},
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

// What the store finds its rows by is not in the chain: who takes a row out of it hides the row from all but an audit.
func TestARowThatIsHiddenFromReadersIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{})
	stories(t, s, 2500)
	require.NoError(t, s.Close())
	clean, err := os.ReadFile(path)
	require.NoError(t, err)
	row := func(where string) string { return `(SELECT min(position) FROM events WHERE ` + where + `)` }
	const regular = `stream LIKE 'request/________-____-7%' AND `
	late, old, other := row(regular+`types = 'request.repriced'`), row(regular+`at % 1000000 < 500000 AND position > 1000`), row(`stream = 'upstream/u' AND position > 500`)
	for _, c := range []struct{ what, position, sql string }{
		{"from a search for a key", row(`key IS NOT NULL AND position > 1500`),
			`UPDATE blocks SET offsets = replace(offsets, ' ' || ? || ' ', ' ') WHERE block = 0 AND kind = 'key'`},
		{"from a search for a type", row(`types = 'request.repriced'`), `DELETE FROM blocks WHERE ? > 0 AND kind = 'type' AND value = 'request.repriced'`},
		{"from a search through damaged offsets", row(`types = 'request.repriced'`), `UPDATE blocks SET offsets = 'x' WHERE ? > 0 AND kind = 'type' AND value = 'request.repriced'`},
		{"from who asks for a request", old, `UPDATE blocks SET offsets = replace(offsets, (SELECT substr(stream, -8) FROM events WHERE position = ?1)
			|| printf('%03x', ?1), (SELECT substr(stream, -8) FROM events WHERE position = ?1) || '000') WHERE kind = 'stream'`}, // which stays in order
		{"from who asks for any request", row(regular + `at % 1000000 >= 0 AND version = 0 AND position > 2`), `DELETE FROM blocks WHERE ? > 0 AND kind = 'stream'`},
		{"behind the end of its request", late, `DELETE FROM listed WHERE position = ?`},
		{"in another stream", other, `DELETE FROM listed WHERE position = ? AND name = 'upstream/u'`},
		{"in another stream, from who asks for its request", other, `DELETE FROM listed WHERE position = ? AND name <> 'upstream/u'`},
		{"older than its id", row(regular + `version = 0 AND position > 700 AND at < (SELECT max(at) FROM events) - 3000000000`), `DELETE FROM listed WHERE position = ?`},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.db")
			require.NoError(t, os.WriteFile(path, clean, 0o600))
			require.True(t, audited(t, path, events.Audit{}).Equal)
			db, err := sqlite3.Open(path)
			require.NoError(t, err)
			at := number(t, db, `SELECT `+c.position)
			require.Positive(t, at)
			q, _, err := db.Prepare(c.sql)
			require.NoError(t, err)
			require.NoError(t, q.BindInt64(1, at))
			require.NoError(t, q.Exec())
			require.NoError(t, q.Close())
			require.NoError(t, db.Close())
			report := audited(t, path, events.Audit{})
			require.Equal(t, events.Tampered, report.Fault)
			require.Contains(t, report.Detail, "hidden from readers")
			require.Equal(t, events.Position(at), *report.FirstBroken, report.Detail)
		})
	}
}

// number is what a query of one number says.
func number(t testing.TB, db *sqlite3.Conn, sql string) int64 {
	t.Helper()
	q, _, err := db.Prepare(sql)
	require.NoError(t, err)
	defer q.Close()
	require.True(t, q.Step(), sql)
	return q.ColumnInt64(0)
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
