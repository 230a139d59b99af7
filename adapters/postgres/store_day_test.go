package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/migrations"
)

func TestTheDayOfAStreamIsInItsName(t *testing.T) {
	for stream, want := range map[string]day{
		"request/019ed8f0-0000-7000-8000-000000000000":  20260618,
		"request/019ED8F0-0000-7FFF-BFFF-FFFFFFFFFFFF":  20260618,
		"request/00000000-0000-7000-8000-000000000000":  19700101,
		"request/ffffffff-ffff-7000-8000-000000000000":  always, // the year 10889
		"request/019ed8f0-0000-4000-8000-000000000000":  always, // version 4
		"request/019ed8f0-0000-7000-c000-000000000000":  always, // another variant
		"request/019ed8f0-0000-7000-8000-00000000000g":  always,
		"request/019ed8f000007000800000000000000000":    always,
		"request/019ed8f0-00007-000-8000-000000000000":  always,
		"request/019ed8f0-0000-7000-8000-000000000000/": always,
		"request/019ed8f--0000-7000-8000-000000000000":  always,
		"request/019ed8f0-00-0-7000-8000-000000000000":  always,
		"request/019ed8f0-0000-7-00-8000-00000000-000":  20260618, // as it has always been
		"request/019ed8f0-0000-7000-8000-0000000000é":   always,
		"request/": always, "request/r1": always, "": always, "catalog/key/k": always, "nodes": always,
		"node/019ed8f0-0000-7000-8000-000000000000": actors, "upstream/u": actors, "account/a": actors,
	} {
		require.Equal(t, want, dayOf(stream), stream)
	}
	require.Equal(t, dayOfTime(time.Now()), dayOf("request/"+uuid.Must(uuid.NewV7()).String()))
}

func TestABeginningOfNamesSaysWhereItsStreamsAre(t *testing.T) {
	for prefix, want := range map[string]string{
		"catalog/": "0", "catalog/key/k": "0", "x": "0", "node/": "1", "upstream/u": "1",
		"": "several", "req": "several", "request/": "several", "request/019ed8f0": "several", "a": "several", "n": "several",
	} {
		got := "several"
		if d, one := dayOfPrefix(prefix); one {
			got = fmt.Sprint(d)
		}
		require.Equal(t, want, got, prefix)
	}
}

func TestARangeOfPositionsIsCutSoThatEachPartMeetsFewDays(t *testing.T) {
	days := []span{{always, 1, 10_000}, {1, 5, 25}, {2, 20, 10_000}, {3, 30, 10_000}}
	for _, c := range []struct {
		low, high events.Position
		most      int
		want      string
	}{
		{1, 100, 9, "1-100:[0 1 2 3]"},
		{26, 29, 9, "26-29:[0 2]"},
		{1, 100, 2, "1-19:[0 1] 20-100:[0 1 2 3]"},
		{1, 100, 3, "1-29:[0 1 2] 30-100:[0 2 3]"},
		{26, 100, 1, "26-100:[0 2 3]"},
		{7, 6, 9, ""},
		{10_001, 20_000, 9, ""},
	} {
		var got []string
		for _, s := range segments(days, c.low, c.high, c.most) {
			got = append(got, fmt.Sprintf("%d-%d:%v", s.low, s.high, s.days))
		}
		require.Equal(t, c.want, strings.Join(got, " "), "%+v", c)
	}
	require.Empty(t, segments(nil, 1, 100, 8))
	require.Equal(t, []segment{{50, 100, []int32{4}}}, trimmed(segments([]span{{4, 50, 70}}, 1, 100, 8)))
}

// trimmed drops what stands before the first row of a segment's days.
func trimmed(list []segment) []segment {
	for i := range list {
		list[i].low = max(list[i].low, 50)
	}
	return list
}

func TestALongRangeIsSearchedInParts(t *testing.T) {
	for most, want := range map[events.Position]string{10: "1-10 11-20 21-25", 25: "1-25", 24: "1-24 25-25", 100: "1-25"} {
		var got []string
		for _, s := range split([]segment{{1, 25, []int32{0}}}, most) {
			got = append(got, fmt.Sprintf("%d-%d", s.low, s.high))
		}
		require.Equal(t, want, strings.Join(got, " "))
	}
}

func TestTextsThatNoColumnHoldsAreKept(t *testing.T) {
	for _, s := range []string{"", "a", "größe", "\x00", "a\xffb", `\x`, `\x41`, `\xzz`, `\`} {
		require.Equal(t, s, plain([]byte(text(s))), "%q", s)
		require.NotContains(t, text(s), "\x00")
	}
	for _, s := range []string{`[{"a":1}]`, "[\"\xff\"]", `[`, `"41"`, `"`, "[\x00]"} {
		require.Equal(t, s, string(payloadOf(odd([]byte(s)))), "%q", s)
	}
}

// Each byte at each place of texts of each length around the eight that are looked at together.
func TestATextIsTakenForASCIIOnlyWhenEachByteIs(t *testing.T) {
	for length := 1; length < 26; length++ {
		for at := range length {
			for _, among := range []byte{1, 'a', 0x7f} {
				s := bytes.Repeat([]byte{among}, length)
				for c := range 256 {
					s[at] = byte(c)
					if got := isASCII(string(s)); got != (c > 0 && c < 0x80) {
						t.Fatalf("byte %#x at %d of %d among %#x: %v", c, at, length, among, got)
					}
				}
			}
		}
	}
}

func openTestStore(t testing.TB, dsn string) *Store {
	t.Helper()
	s, err := OpenStore(context.Background(), dsn, StoreOptions{Deadline: time.Minute}) // the machine may stand still
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// requestAt is the name of a request of a day.
func requestAt(day time.Time, n int) string {
	return fmt.Sprintf("request/%s-%s-7000-8000-%012d", fmt.Sprintf("%012x", day.UnixMilli())[:8], fmt.Sprintf("%012x", day.UnixMilli())[8:], n)
}

func rowOf(t testing.TB, stream string, version int64) events.Row {
	t.Helper()
	r := events.Row{Stream: stream, Version: version, At: time.UnixMicro(1_772_000_000_000_000).UTC(), Facts: []events.Fact{&request.Resumed{Upstream: "u"}}}
	require.NoError(t, events.Encode(&r))
	return r
}

func put(t testing.TB, s *Store, rows ...events.Row) []events.Result {
	t.Helper()
	batch := make([]events.Append, len(rows))
	for i, r := range rows {
		batch[i].Rows = []events.Row{r}
	}
	results, err := s.Append(context.Background(), batch, 1)
	require.NoError(t, err)
	return results
}

func streams(t testing.TB, s *Store) (list []string) {
	t.Helper()
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool { list = append(list, c.Stream); return true }))
	return list
}

func tables(t testing.TB, s *Store) (names []string) {
	t.Helper()
	rows, err := s.session.conn.Query(context.Background(), `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass ORDER BY 1`)
	require.NoError(t, err)
	names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func TestEachDayHasItsPartitionMadeWhenItIsNeeded(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	now := time.Now()
	require.Contains(t, tables(t, s), dayOfTime(now).table())
	require.Contains(t, tables(t, s), dayOfTime(now.Add(24*time.Hour)).table(), "ahead of time")

	long := time.Date(2019, 5, 4, 23, 59, 59, 0, time.UTC)
	a, b := requestAt(long, 1), requestAt(long.Add(time.Second), 1)
	end := rowOf(t, a, 1)
	end.Terminal = true
	for i, r := range put(t, s, rowOf(t, a, 0), rowOf(t, b, 0), rowOf(t, "request/odd", 0), end) {
		require.NoError(t, r.Err)
		require.Equal(t, events.Position(i+1), r.First)
	}
	require.Subset(t, tables(t, s), []string{"events_0", "events_20190504", "events_20190505"})
	require.Equal(t, []string{a, b, "request/odd", a}, streams(t, s))
	again := rowOf(t, a, events.AnyVersion)
	again.Terminal = true
	for _, r := range put(t, s, rowOf(t, b, 1), again, rowOf(t, a, 1)) {
		if r.Err != nil {
			require.ErrorIs(t, r.Err, events.ErrConflict)
		}
	}
	require.Equal(t, []string{a, b, "request/odd", a, b}, streams(t, s), "one version, one end, whatever the day")
}

// Whoever analyses the table of all events at midnight, or makes an index on it, must not hold up what is appended, nor a start.
func TestPartitionsThatCanNotBeMadeAheadOfTimeAreMadeLater(t *testing.T) {
	ctx := context.Background()
	dsn := pgtest.Shared(t).NewDatabase(t)
	s := openTestStore(t, dsn)
	tomorrow := dayOfTime(time.Now().Add(24 * time.Hour))
	_, err := s.session.conn.Exec(ctx, `DROP TABLE `+tomorrow.table())
	require.NoError(t, err)
	s.session.ahead, s.session.days = 0, nil
	require.NoError(t, s.session.loadDays(ctx))
	analyst, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer analyst.Close(ctx)
	_, err = analyst.Exec(ctx, `BEGIN; LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE`)
	require.NoError(t, err)

	s.session.aheadNext = time.Time{}
	begun := time.Now()
	put(t, s, rowOf(t, "node/a", 0))
	next := s.session.aheadNext
	put(t, s, rowOf(t, "node/a", 1))
	require.Less(t, time.Since(begun), 20*time.Second, "a journal waits: not for the lock, which is held for as long as there is time")
	require.Equal(t, next, s.session.aheadNext, "it is not tried again at once")
	again, err := OpenStore(ctx, dsn, StoreOptions{Shared: true})
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.NotContains(t, tables(t, s), tomorrow.table())

	_, err = analyst.Exec(ctx, `ROLLBACK`)
	require.NoError(t, err)
	s.session.aheadNext = time.Time{} // a minute is over
	put(t, s, rowOf(t, "node/a", 2))
	require.Contains(t, tables(t, s), tomorrow.table())
	require.Len(t, streams(t, s), 3)
}

func TestADayThatSomebodyDropsTakesOnlyItsRows(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	day := time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)
	put(t, s, rowOf(t, requestAt(day, 1), 0), rowOf(t, "node/a", 0), rowOf(t, requestAt(day, 2), 0))
	_, err := s.session.conn.Exec(context.Background(), `DROP TABLE events_20200102`)
	require.NoError(t, err)
	require.Equal(t, []string{"node/a"}, streams(t, s))
	require.NoError(t, s.Stream(context.Background(), requestAt(day, 1), 0, func(*events.Committed) bool { t.Error("a row"); return true }))
	r := put(t, s, rowOf(t, requestAt(day, 3), 0), rowOf(t, "node/a", 1))
	require.Equal(t, []events.Result{{First: 4}, {First: 5}}, r)
	require.Equal(t, []string{"node/a", requestAt(day, 3), "node/a"}, streams(t, s))
}

func TestThePartitionOfADayWhoseRowsWereRemovedIsDropped(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	day := time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)
	put(t, s, rowOf(t, requestAt(day, 1), 0), rowOf(t, "node/a", 0), rowOf(t, requestAt(day, 2), 0), rowOf(t, requestAt(day, 1), 1))
	put(t, s, rowOf(t, requestAt(day.Add(24*time.Hour), 1), 0))
	removal := events.Removal{First: 1, Last: 3, Through: 4}
	for _, want := range []int{2, 1, 0} {
		n, err := s.Remove(context.Background(), removal, 2)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.NotContains(t, tables(t, s), "events_20200102")
	require.Contains(t, tables(t, s), "events_20200103")
	require.Equal(t, []string{"node/a", requestAt(day.Add(24*time.Hour), 1)}, streams(t, s))
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
	require.Equal(t, int64(3), report.Archived)
}

// A year of days: no reading may scan a table or sort it, nor open the partitions of days that it is not about.
func TestPlansOverAYearOfDaysUseIndexesAndOpenFewPartitions(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	ctx := context.Background()
	begin := time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	const days = 300
	for d := range days {
		at := begin.Add(time.Duration(d) * 24 * time.Hour)
		put(t, s, rowOf(t, requestAt(at, 1), 0), rowOf(t, fmt.Sprintf("node/%d", d), 0), rowOf(t, requestAt(at, 2), 0))
	}
	var many []events.Row
	for n := range 400 {
		many = append(many, rowOf(t, requestAt(begin, 3+n), 0))
	}
	put(t, s, many...)
	_, err := s.session.conn.Exec(ctx, `ANALYZE events_20210101`)
	require.NoError(t, err)
	require.Len(t, streams(t, s), 3*days+400)
	var newest []string
	require.NoError(t, s.Find(ctx, events.Query{Newest: true}, func(c *events.Committed) bool { newest = append(newest, c.Stream); return true }))
	require.Len(t, newest, 3*days+400)

	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		_, all, err := readDays(ctx, c)
		if err != nil {
			return err
		}
		require.Len(t, all, days+1, "and that of the nodes")
		page, err := (&question{segments: segments(all, 1, 1300, daysMax)}).rows(ctx, c, nil, 10_000)
		require.NoError(t, err)
		require.Len(t, page, 3*days+400, "one page over many segments")
		one := ofStream(requestAt(begin, 1), 1, 900)
		for _, test := range []struct {
			what string
			q    *question
		}{
			{"everything", &question{segments: segments(all, 1, 900, daysMax)}},
			{"newest first", &question{segments: segments(all, 500, 900, daysMax), newest: true}},
			{"a stream", one},
			{"newest of a stream", &question{segments: one.segments, filter: one.filter, to: one.to, newest: true}},
			{"a key", &question{segments: segments(all, 1, 900, daysMax), filter: events.Query{Key: "k", Since: begin}}},
			{"streams by their beginning", &question{segments: []segment{{1, 900, []int32{0}}}, filter: events.Query{StreamPrefix: "catalog/key/"}}},
		} {
			plan := explain(ctx, t, c, test.q)
			require.NotContains(t, plan, "Seq Scan", "%s:\n%s", test.what, plan)
			require.NotContains(t, plan, "Sort\n", "%s:\n%s", test.what, plan)
			near := len(test.q.segments[0].days)
			require.Equal(t, near, strings.Count(plan, "Index Scan"), "%s:\n%s", test.what, plan)
			require.Less(t, near, days/6, test.what)
		}
		q := &question{segments: segments(all, 1, 1300, len(all)), filter: events.Query{Request: requestAt(begin, 1)[len(events.RequestStreams):]}}
		plan := explain(ctx, t, c, q)
		require.NotContains(t, plan, "Seq Scan", "%.3000s", plan)
		require.Contains(t, plan, "events_20210101_day_stream_version_idx", "%.6000s", plan)
		return nil
	})
	require.NoError(t, err)
}

func explain(ctx context.Context, t testing.TB, c *pgx.Conn, q *question) string {
	t.Helper()
	sql, args := q.sql(eventsMax)
	rows, err := c.Query(ctx, `EXPLAIN `+sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n") + "\n"
}

func TestCommitsAreOnDiskWhateverTheDatabaseIsSetTo(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	for set, want := range map[string]string{"off": "on", "remote_apply": "remote_apply"} {
		c, err := pgx.Connect(context.Background(), dsn)
		require.NoError(t, err)
		_, err = c.Exec(context.Background(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = `+set+`', current_database()); END $$`)
		require.NoError(t, err)
		require.NoError(t, c.Close(context.Background()))
		s := openTestStore(t, dsn)
		var is string
		require.NoError(t, s.session.conn.QueryRow(context.Background(), `SHOW synchronous_commit`).Scan(&is))
		require.Equal(t, want, is)
		require.NoError(t, s.Close())
	}
}

func TestMigrationsAreAppliedOnceAndInOrderAndLeaveNothingBehindWhenTheyFail(t *testing.T) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, pgtest.Shared(t).NewDatabase(t))
	require.NoError(t, err)
	defer c.Close(ctx)
	files := fstest.MapFS{"dir/0001_a.sql": {Data: []byte(`CREATE TABLE a (x int); INSERT INTO a VALUES (1)`)}}
	require.NoError(t, migrate(ctx, c, files, "dir"))
	files["dir/0002_b.sql"] = &fstest.MapFile{Data: []byte(`UPDATE a SET x = x + 1; INSERT INTO missing VALUES (1)`)}
	require.ErrorContains(t, migrate(ctx, c, files, "dir"), "migration 0002_b")
	files["dir/0002_b.sql"] = &fstest.MapFile{Data: []byte(`UPDATE a SET x = x + 1`)}
	for range 2 {
		require.NoError(t, migrate(ctx, c, files, "dir"))
	}
	var x int
	require.NoError(t, c.QueryRow(ctx, `SELECT sum(x) FROM a`).Scan(&x))
	require.Equal(t, 2, x)
	for _, names := range [][]string{{}, {"0002_a.sql"}, {"0001_a.sql", "0003_c.sql"}, {"0001.sql"}, {"first_a.sql"}} {
		bad := fstest.MapFS{}
		for _, name := range names {
			bad["dir/"+name] = &fstest.MapFile{}
		}
		_, err := migrations.Pending(bad, "dir", 0)
		require.Error(t, err, "%v", names)
	}
}
