package postgres

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
)

var dropEvents = flag.Int("drop-events", 6000, "events of the day that is dropped while others are appended")

var (
	oldDay   = time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)
	laterDay = oldDay.Add(24 * time.Hour)
)

// fillDay appends requests of a day, one row each, and returns where they lie.
func fillDay(t testing.TB, s *Store, at time.Time, requests int) (r events.Removal) {
	t.Helper()
	for n := 0; n < requests; {
		var batch []events.Append
		for ; len(batch) < 2000 && n < requests; n++ {
			batch = append(batch, events.Append{Rows: []events.Row{rowOf(t, requestAt(at, n), 0)}})
		}
		results, err := s.Append(context.Background(), batch, 1)
		require.NoError(t, err)
		for _, got := range results {
			require.NoError(t, got.Err)
			if r.First == 0 {
				r.First = got.First
			}
			r.Last = got.First
		}
	}
	r.Through = r.Last
	return r
}

func audited(t testing.TB, s *Store) events.Report {
	t.Helper()
	report, err := events.Audit{}.Verify(context.Background(), s)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
	return report
}

func TestAWholeDayIsDroppedAtOnceAndWhatIsOfTheNextClosingStays(t *testing.T) {
	for _, late := range []int{0, 3} {
		t.Run(fmt.Sprintf("%d requests committed late", late), func(t *testing.T) {
			s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
			put(t, s, rowOf(t, "node/a", 0))
			removal := fillDay(t, s, oldDay, 300)
			put(t, s, rowOf(t, requestAt(laterDay, 1), 0), rowOf(t, "node/a", 1))
			var want []string
			for i := range late {
				put(t, s, rowOf(t, requestAt(oldDay, 1000+i), 0))
				want = append(want, requestAt(oldDay, 1000+i))
			}
			n, err := s.Remove(context.Background(), removal, 10)
			require.NoError(t, err)
			require.Equal(t, 300, n)
			n, err = s.Remove(context.Background(), removal, 10)
			require.NoError(t, err)
			require.Zero(t, n)
			require.Equal(t, append([]string{"node/a", requestAt(laterDay, 1), "node/a"}, want...), streams(t, s))
			require.Equal(t, int64(300), audited(t, s).Archived)
			if late == 0 {
				require.NotContains(t, tables(t, s), "events_20200102")
			}
			put(t, s, rowOf(t, requestAt(oldDay, 5000), 0)) // the day can come again
			for i := range late {
				put(t, s, rowOf(t, requestAt(oldDay, 1000+i), 1))
			}
			audited(t, s)
		})
	}
}

// What is told late of a day that was dropped is refused, and does not bring its partition back.
func TestNothingIsAppendedBehindARequestWhoseDayWasDropped(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	removal := fillDay(t, s, oldDay, 100)
	require.NoError(t, put(t, s, rowOf(t, requestAt(oldDay, 3), 1))[0].Err)
	removal.Through++
	n, err := s.Remove(context.Background(), removal, 10)
	require.NoError(t, err)
	require.Equal(t, 101, n)
	refused := func(at time.Time) {
		t.Helper()
		results := put(t, s, rowOf(t, requestAt(at, 3), 1), rowOf(t, "node/a", events.AnyVersion))
		require.ErrorIs(t, results[0].Err, events.ErrConflict)
		require.ErrorContains(t, results[0].Err, "the events of its day were removed")
		require.NoError(t, results[1].Err)
		require.NotContains(t, tables(t, s), dayOfTime(at).table())
	}
	refused(oldDay)
	require.NoError(t, put(t, s, rowOf(t, requestAt(laterDay, 3), 0))[0].Err)
	_, err = s.session.conn.Exec(context.Background(), "DROP TABLE "+dayOfTime(laterDay).table()) // unknown to the store
	require.NoError(t, err)
	refused(laterDay)
}

// Whoever reads all the time can not be waited for: the day goes in chunks then.
func TestADayThatIsReadAllTheTimeGoesInChunks(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	s := openTestStore(t, dsn)
	removal := fillDay(t, s, oldDay, 30)
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer c.Close(ctx)
	_, err = c.Exec(ctx, `BEGIN; LOCK TABLE ONLY events IN ACCESS SHARE MODE`)
	require.NoError(t, err)
	begun := time.Now()
	n, err := s.Remove(ctx, removal, 2)
	tried := time.Since(begun)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	begun = time.Now()
	n, err = s.Remove(ctx, removal, 20)
	require.NoError(t, err)
	require.Equal(t, 20, n)
	require.Less(t, time.Since(begun), tried*2/3, "it is not tried for the same removal again")
	require.Equal(t, int64(22), audited(t, s).Archived)
}

// Appends go on while a day goes, and so do readings of the chain, which find every row once.
func TestAppendsAndAuditsGoOnWhileADayIsDropped(t *testing.T) {
	s := openTestStore(t, pgtest.Shared(t).NewDatabase(t))
	removal := fillDay(t, s, oldDay, *dropEvents)
	head, err := s.Head(context.Background())
	require.NoError(t, err)

	stop, done := make(chan struct{}), make(chan []time.Duration)
	appending := func() {
		var took []time.Duration
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- took
				return
			default:
			}
			begun := time.Now()
			results, err := s.Append(context.Background(), []events.Append{{Rows: []events.Row{rowOf(t, requestAt(time.Now(), i), 0)}}}, 1)
			if err != nil || results[0].Err != nil {
				t.Errorf("append %d: %v %+v", i, err, results)
			}
			took = append(took, time.Since(begun))
		}
	}
	figures := func(what string, took []time.Duration) {
		require.NotEmpty(t, took)
		slices.Sort(took)
		t.Logf("%s: %d appends, p50 %s, p99 %s, longest %s", what, len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	}
	go appending()
	time.Sleep(time.Second) // what it is like before
	close(stop)
	figures("before", <-done)

	stop = make(chan struct{})
	go appending()
	audits := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				audits <- n
				return
			default:
			}
			report, err := events.Audit{}.Verify(context.Background(), s)
			if err != nil || !report.Equal {
				t.Errorf("audit %d: %v %+v", n, err, report)
			}
			n++
			time.Sleep(100 * time.Millisecond) // the appends are measured, not the audits
		}
	}()
	begun := time.Now()
	n, err := s.Remove(context.Background(), removal, 50)
	took := time.Since(begun)
	require.NoError(t, err)
	close(stop)
	figures(fmt.Sprintf("while %d events went in %s", n, took.Round(time.Millisecond)), <-done)
	t.Logf("%d audits beside", <-audits)
	require.Equal(t, *dropEvents, n)
	require.NotContains(t, tables(t, s), "events_20200102")
	report := audited(t, s)
	require.Equal(t, int64(*dropEvents), report.Archived)
	require.Greater(t, report.Positions, head)
}
