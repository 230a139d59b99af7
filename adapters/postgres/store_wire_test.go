package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// bigRow has some hundred KB, so that a COPY of a few of them takes several messages.
func bigRow(t testing.TB, stream string, version int64) events.Row {
	r := rowOf(t, stream, version)
	r.Facts = []events.Fact{&request.Resumed{Upstream: strings.Repeat(stream, 300<<10/len(stream))}}
	require.NoError(t, events.Encode(&r))
	return r
}

func TestRowsOfAnySizeAndOfManyDaysAreStoredInOneCommit(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	var want []events.Row
	for i := range 12 {
		want = append(want,
			bigRow(t, requestAt(time.Now().AddDate(0, 0, -i%3), i), 0), rowOf(t, requestAt(time.Now(), 100+i), 0),
			bigRow(t, fmt.Sprintf("upstream/%d", i), 0), rowOf(t, fmt.Sprintf("catalog/x/%d", i), 0))
	}
	put(t, s, want...)
	require.Greater(t, cap(s.spare.rows), len(want)-1)
	for _, r := range s.spare.rows[:cap(s.spare.rows)] {
		require.Zero(t, r, "what is left for the next commit holds on to rows of this one")
	}
	require.Empty(t, s.spare.tails)
	require.LessOrEqual(t, cap(s.session.wire.out), wireKept)
	var got []events.Row
	require.NoError(t, s.After(context.Background(), 0, func(c *events.Committed) bool { got = append(got, c.Row); return true }))
	require.Equal(t, want, got)
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}

// The server has all statements of a commit before it says what it thinks of the first one.
func TestOfWhatIsSentAtOnceNothingIsStoredBehindAnError(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	put(t, s, rowOf(t, "catalog/x/1", 0))
	was, ctx := s.chain, context.Background()
	for what, spoil := range map[string]func(*group){
		"a payload that is no JSON":    func(g *group) { g.rows[0].payload = []byte(`[`) },
		"a stream that is there":       func(g *group) { g.rows[1] = g.rows[0] },
		"a partition that is not":      func(g *group) { g.rows[1].day = 20010101 },
		"a link that is there already": func(g *group) { g.rows[0].position, g.next = 1, 2 },
	} {
		w := s.session
		g := &group{s: s, batch: []events.Append{
			{Rows: []events.Row{rowOf(t, "catalog/x/2", 0)}}, {Rows: []events.Row{rowOf(t, "upstream/3", 0)}},
		}}
		require.NoError(t, g.openDays(ctx, w))
		require.NoError(t, w.prepareCopies(ctx, []day{20010101}))
		_, err := s.begin(ctx, w, func(b *pgx.Batch) { g.ask(b, false) })
		require.NoError(t, err)
		require.True(t, g.decide())
		g.days = append(g.days, 20010101)
		spoil(g)
		err = g.store(ctx, w)
		require.True(t, refused(err), "%s: %v", what, err)
		require.Nil(t, s.doubt, what)
		_, err = w.conn.Exec(ctx, `ROLLBACK`)
		require.NoError(t, err)
		s.blocks.end = chain{first: -1} // as after any failure, it has seen what is not there
		require.Equal(t, was, s.chain, what)
		require.Equal(t, []string{"catalog/x/1"}, streams(t, s), what)
	}
	put(t, s, rowOf(t, "catalog/x/2", 0))
	require.Equal(t, []string{"catalog/x/1", "catalog/x/2"}, streams(t, s))
}

// Who gives up leaves neither a deadline nor an answer behind for those who come after.
func TestACallThatEndsWhileItWaitsLeavesNothingBehindOnTheConnection(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	put(t, s, rowOf(t, "catalog/x/1", 0))
	for range 100 { // whether the answer or the end comes first
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		x := &s.session.wire
		x.plain(stmtChain)
		switch err := x.trip(ctx, nil); {
		case err == nil:
			x.plain(stmtChain)
			require.NoError(t, x.trip(context.Background(), nil))
		case x.conn.PgConn().Conn().SetDeadline(time.Time{}) == nil: // before anything was sent
			require.ErrorIs(t, err, context.Canceled)
		default:
			require.Error(t, s.session.conn.Ping(context.Background()))
			require.NoError(t, s.openSession(context.Background()))
		}
		require.Empty(t, s.session.wire.out)
	}
	put(t, s, rowOf(t, "catalog/x/1", 1))
}

func TestASessionKeepsFewStatementsForDays(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	var last []events.Row
	for i := range 2 * copiesMax {
		last = append(last, rowOf(t, requestAt(time.Now().AddDate(0, 0, -i), i), 0))
		put(t, s, last[i])
		var n int
		const sql = `SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'penstock_copy_%'`
		require.NoError(t, s.session.conn.QueryRow(context.Background(), sql).Scan(&n))
		require.LessOrEqual(t, n, copiesMax)
		require.Len(t, s.session.copies, n)
	}
	for i := range last { // all at once
		last[i].Version = 1
	}
	put(t, s, last...)
	require.Len(t, streams(t, s), 4*copiesMax)
}

func TestACommitCostsFewAllocations(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	const rows = 64
	batch := make([]events.Append, rows)
	next := int64(0)
	n := testing.AllocsPerRun(20, func() {
		for i := range batch {
			batch[i] = events.Append{Rows: []events.Row{rowOf(t, fmt.Sprintf("upstream/%d", i), next)}}
		}
		next++
	})
	stored := testing.AllocsPerRun(20, func() {
		for i := range batch {
			batch[i] = events.Append{Rows: []events.Row{rowOf(t, fmt.Sprintf("upstream/%d", i), events.AnyVersion)}}
		}
		_, err := s.Append(context.Background(), batch, 1)
		require.NoError(t, err)
	})
	require.Less(t, stored-n, 2.5*rows, "one per row for its number, and less than that for all else")
}
