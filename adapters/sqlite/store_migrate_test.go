package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/adapters/sqlite/faultfs"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/migrations"
)

// oldFile writes what a store holds as stores did before there were pages: migrations 1 to number, one row per append. Of the
// rows, those at gone were removed by retention.
func oldFile(t testing.TB, from events.Store, number int, gone map[events.Position]bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.db")
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Exec(`CREATE TABLE schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT; BEGIN`))
	list, err := migrations.Pending(migrations.FS, "sqlite", 0)
	require.NoError(t, err)
	for _, m := range list[:number] {
		require.NoError(t, db.Exec(m.SQL), m.Name)
		require.NoError(t, db.Exec(fmt.Sprintf(`INSERT INTO schema_migrations VALUES (%d, '%s')`, m.Number, m.Name)))
	}
	insert := func(sql string, values ...any) {
		q, _, err := db.Prepare(sql)
		require.NoError(t, err)
		defer q.Close()
		for i, v := range values {
			switch v := v.(type) {
			case int64:
				err = q.BindInt64(i+1, v)
			case string:
				err = q.BindText(i+1, v)
			case []byte:
				err = q.BindBlob(i+1, v)
			default:
				err = q.BindNull(i + 1)
			}
			require.NoError(t, err)
		}
		require.NoError(t, q.Exec())
	}
	orNull := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	require.NoError(t, from.Chain(context.Background(), 0, func(c *events.Commit, rows []events.RawRow) bool {
		for i := range rows {
			r := &rows[i]
			if gone[r.Position] {
				insert(`INSERT INTO archived VALUES (?, ?, ?)`, int64(r.Position), r.N, r.Hash[:])
				continue
			}
			terminal, about := int64(0), orNull(r.Request)
			if r.Terminal {
				terminal = 1
			}
			if len(r.Stream) > 8 && r.Stream[:8] == "request/" {
				if about = any(r.Request); r.Request == r.Stream[8:] {
					about = nil
				}
			}
			insert(`INSERT INTO events (position, n, stream, version, terminal, at, types, about, key, upstream, node, hash, payload)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, int64(r.Position), r.N, r.Stream, r.Version, terminal, r.At.UnixMicro(),
				r.Types, about, orNull(r.Key), orNull(r.Upstream), orNull(r.Node), r.Hash[:], string(r.Payload))
		}
		insert(`INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?)`, int64(c.First), c.N, int64(c.LowWater), c.Earliest, c.Latest, c.Previous[:], c.Hash[:])
		return true
	}))
	if number >= 4 {
		require.NoError(t, db.Exec(`DELETE FROM blocks`))
		fill, _, err := db.Prepare(`INSERT INTO blocks ` + remake(t))
		require.NoError(t, err)
		require.NoError(t, fill.Exec())
		require.NoError(t, fill.Close())
	}
	require.NoError(t, db.Exec(`COMMIT`))
	return path
}

// stories fills a store with requests whose rows are found in every way that there is, and gives their streams.
func stories(t testing.TB, s events.Store, requests int) (streams []string) {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var open []events.Row
	put := func(rows ...events.Row) {
		batch := make([]events.Append, len(rows))
		for i := range rows {
			require.NoError(t, events.Encode(&rows[i]))
			batch[i].Rows = rows[i : i+1]
		}
		results, err := s.Append(context.Background(), batch, 1)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
	for i := range requests {
		at = at.Add(20 * time.Millisecond)
		id := uuid.Must(uuid.NewV7()).String()
		ms := fmt.Sprintf("%012x", at.UnixMilli())
		id = ms[:8] + "-" + ms[8:] + id[13:]
		begin := events.Row{Stream: "request/" + id, Request: id, Key: "key \"ä\"\n", At: at, Node: "n", Facts: []events.Fact{
			&request.Admitted{}, &request.Dispatched{N: 1},
		}}
		if i%50 == 0 {
			begin.At = at.Add(-time.Hour) // a clock that was set
		}
		end := events.Row{Stream: begin.Stream, Request: id, Version: 2, Terminal: true, At: begin.At.Add(time.Second), Facts: []events.Fact{&request.Settled{}}}
		rows := []events.Row{begin}
		if open = append(open, end); len(open) > 40 {
			rows = append(rows, open[0])
			if i%7 == 0 {
				late := open[0]
				late.Version, late.Terminal, late.Facts = 3, false, []events.Fact{&request.Repriced{Reprice: "r"}}
				rows = append(rows, late)
			}
			open = open[1:]
		}
		if i%10 == 0 {
			rows = append(rows, events.Row{Stream: "upstream/u", Version: events.AnyVersion, Request: id, Upstream: "u", At: at, Facts: []events.Fact{&request.Resumed{}}})
		}
		put(rows...)
		streams = append(streams, begin.Stream)
	}
	return streams
}

// same checks that two stores tell the same.
func same(t testing.TB, want, got events.Store, streams []string) {
	t.Helper()
	ctx := context.Background()
	require.Equal(t, rows(t, want), rows(t, got))
	for i := 0; i < len(streams); i += 13 {
		for _, q := range []events.Query{{Stream: streams[i]}, {Request: streams[i][8:]}} {
			var a, b []events.Committed
			require.NoError(t, want.Find(ctx, q, func(c *events.Committed) bool { a = append(a, *c); return true }))
			require.NoError(t, got.Find(ctx, q, func(c *events.Committed) bool { b = append(b, *c); return true }))
			require.Equal(t, a, b, "%+v", q)
		}
	}
}

func TestAFileWithOneRowPerAppendIsMovedToPages(t *testing.T) {
	oracle := memory.NewStore()
	streams := stories(t, oracle, 2500)
	gone := map[events.Position]bool{}
	for _, r := range rows(t, oracle) { // whole requests, as retention does it
		if r.Position < 900 && r.Version == 0 {
			for _, also := range rows(t, oracle) {
				if also.Stream == r.Stream && r.Stream != "upstream/u" {
					gone[also.Position] = true
				}
			}
		}
		if r.Position > 300 {
			break
		}
	}
	for _, number := range []int{3, 5} {
		for what, gone := range map[string]map[events.Position]bool{"whole": nil, "with gaps": gone} {
			t.Run(fmt.Sprintf("%d %s", number, what), func(t *testing.T) {
				path := oldFile(t, oracle, number, gone)
				s := openStore(t, path, sqlite.StoreOptions{})
				report, err := events.Audit{}.Verify(context.Background(), s)
				require.NoError(t, err)
				require.True(t, report.Equal, "%+v", report)
				require.Equal(t, int64(len(gone)), report.Archived)
				require.Empty(t, amiss(t, path))
				if gone == nil {
					same(t, oracle, s, streams)
				} else {
					require.Len(t, rows(t, s), len(rows(t, oracle))-len(gone))
				}
			})
		}
	}
}

// Wherever the move to pages is broken off, the next start goes on.
func TestAMoveToPagesThatWasBrokenOffGoesOn(t *testing.T) {
	defer sqlite.SetMovePart(sqlite.SetMovePart(20_000))
	oracle := memory.NewStore()
	streams := stories(t, oracle, 2500)
	fs, name := faulty(t)
	path, broken, unfinished, parts := oldFile(t, oracle, 5, nil), 0, 0, map[int64]bool{}
	for n := 0; ; n++ {
		fs.Fail([]faultfs.Op{faultfs.Write, faultfs.Sync}[n%2], 3+n*n/8, sqlite3.IOERR_WRITE)
		s, err := sqlite.OpenStore(path, sqlite.StoreOptions{VFS: name})
		fs.Heal()
		if err == nil {
			require.NoError(t, s.Close())
			break
		}
		broken++
		db, err := sqlite3.Open(path)
		require.NoError(t, err)
		if number(t, db, `SELECT count(*) FROM sqlite_schema WHERE name = 'appended'`) == 1 {
			parts[number(t, db, `SELECT min(position) FROM appended`)] = true
			pending, err := sqlite.Pending(path)
			require.NoError(t, err)
			require.Equal(t, []string{"0006_pages"}, pending, "it is still to be finished")
			unfinished++
		}
		require.NoError(t, db.Close())
	}
	require.Greater(t, broken, 5)
	require.Greater(t, unfinished, 4)
	require.Greater(t, len(parts), 4)
	pending, err := sqlite.Pending(path)
	require.NoError(t, err)
	require.Empty(t, pending)
	s := openStore(t, path, sqlite.StoreOptions{})
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
	same(t, oracle, s, streams)
	for _, what := range amiss(t, path) {
		require.Regexp(t, "^too much [0-9]+ listed request/", what) // of requests that were open where it was broken off
	}
}

func TestAMoveToPagesSaysHowFarItIs(t *testing.T) {
	defer sqlite.SetMovePart(sqlite.SetMovePart(20_000))
	oracle := memory.NewStore()
	stories(t, oracle, 600)
	var told [][3]events.Position
	o := sqlite.StoreOptions{Moving: func(from, at, to events.Position) { told = append(told, [3]events.Position{from, at, to}) }}
	path := oldFile(t, oracle, 5, nil)
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	require.NoError(t, db.Exec(`DELETE FROM events WHERE position < 100`)) // as if they had been moved before
	require.NoError(t, db.Close())
	s := openStore(t, path, o)
	require.Greater(t, len(told), 5)
	from, last := told[0][0], told[0][0]-1
	require.LessOrEqual(t, events.Position(99), from)
	require.Less(t, from, events.Position(102))
	for i, is := range told {
		require.Equal(t, from, is[0])
		require.Equal(t, head(t, s), is[2])
		require.Greater(t, is[1], last, "%d", i)
		last = is[1]
	}
	require.Equal(t, from, told[0][1])
	require.Equal(t, head(t, s), last)
	told = nil
	require.NoError(t, s.Close())
	openStore(t, path, o)
	openStore(t, filepath.Join(t.TempDir(), "new.db"), o)
	require.Empty(t, told, "there is nothing to move")
}

// An operator who stops a gateway that has begun to move a large file need not wait for the end.
func TestAMoveToPagesCanBeStoppedAndGoesOn(t *testing.T) {
	defer sqlite.SetMovePart(sqlite.SetMovePart(20_000))
	oracle := memory.NewStore()
	streams := stories(t, oracle, 600)
	path := oldFile(t, oracle, 5, nil)
	ctx, stop := context.WithCancel(context.Background())
	parts := 0
	_, err := sqlite.OpenStore(path, sqlite.StoreOptions{Opening: ctx, Moving: func(_, _, _ events.Position) {
		if parts++; parts == 3 {
			stop()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, parts)
	pending, err := sqlite.Pending(path)
	require.NoError(t, err)
	require.Equal(t, []string{"0006_pages"}, pending)
	s := openStore(t, path, sqlite.StoreOptions{Moving: func(from, _, _ events.Position) {
		require.Positive(t, from, "it goes on")
	}})
	same(t, oracle, s, streams)
}

func TestFilesAreMovedToPagesByTwoProcessesAtOnce(t *testing.T) {
	defer sqlite.SetMovePart(sqlite.SetMovePart(5_000))
	oracle := memory.NewStore()
	streams := stories(t, oracle, 800)
	path := oldFile(t, oracle, 5, nil)
	opened := make(chan error, 3)
	for range cap(opened) {
		go func() {
			s, err := sqlite.OpenStore(path, sqlite.StoreOptions{BusyTimeout: time.Minute})
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
	}
	for range cap(opened) {
		require.NoError(t, <-opened)
	}
	s := openStore(t, path, sqlite.StoreOptions{})
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
	same(t, oracle, s, streams)
}

// What appending writes is what the migration makes, and requests with a UUIDv7 are found, appended to and known again whatever the
// writer remembers.
func TestRequestsAreFoundByTheTimeInTheirIDs(t *testing.T) {
	ctx := context.Background()
	oracle, path := memory.NewStore(), filepath.Join(t.TempDir(), "events.db")
	s := openStore(t, path, sqlite.StoreOptions{})
	streams := stories(t, oracle, 2500)
	for _, store := range []events.Store{s, s, openStore(t, path, sqlite.StoreOptions{})} { // all but the first find all of it
		require.NoError(t, oracle.Chain(ctx, 0, func(_ *events.Commit, raw []events.RawRow) bool {
			var batch []events.Append
			for _, c := range raw {
				row := c.Row
				var err error
				row.Facts, err = events.Decode(row.Types, row.Payload)
				require.NoError(t, err)
				batch = append(batch, one(row)...)
			}
			results, err := store.Append(ctx, batch, 1)
			require.NoError(t, err)
			for i, r := range results {
				require.NoError(t, r.Err)
				require.Equal(t, raw[i].Position, r.First)
			}
			return true
		}))
		same(t, oracle, store, streams)
	}
	require.Empty(t, amiss(t, path))
	db, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer db.Close()
	old := oldFile(t, oracle, 5, nil)
	require.NoError(t, openStore(t, old, sqlite.StoreOptions{}).Close())
	require.NoError(t, db.Exec(`ATTACH '`+old+`' AS old`))
	for _, sql := range []string{`SELECT count(*) FROM (SELECT * FROM pages EXCEPT SELECT * FROM old.pages)`,
		`SELECT count(*) FROM (SELECT name, position FROM listed EXCEPT SELECT * FROM old.listed)`,
		`SELECT count(*) FROM (SELECT name, position FROM old.listed EXCEPT SELECT name, position FROM listed)`,
	} {
		require.Zero(t, number(t, db, sql), sql)
	}
}
