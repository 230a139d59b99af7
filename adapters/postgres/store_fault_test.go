package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
)

// insist repeats an append until the store has taken it, and counts the failures.
func insist(t testing.TB, s events.Store, batch []events.Append) (results []events.Result, failures int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; failures++ {
		r, err := s.Append(context.Background(), batch, 1)
		if err == nil {
			return r, failures
		}
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.True(t, time.Now().Before(deadline), "the store does not heal: %v", err)
		time.Sleep(5 * time.Millisecond) // as a journal does between two tries
	}
}

// eventually waits until the store answers again, with this head.
func eventually(t testing.TB, s events.Store, want events.Position) {
	t.Helper()
	answers := func() bool {
		h, err := s.Head(context.Background())
		return err == nil && h == want
	}
	require.Eventually(t, answers, time.Minute, 5*time.Millisecond)
}

// A batch is tried with the network cut at its first chunk, its second, … in either direction: whether the server had
// committed or not, the retry must give what an undisturbed store has. Rows without a version, too, are stored once.
func TestANetworkThatIsCutAtAnyPointLosesNothingAndDoublesNothing(t *testing.T) {
	server := pgtest.Shared(t)
	for _, c := range []struct {
		what  string
		stays bool
		rows  int
	}{
		{"a short cut", false, 1}, {"an outage", true, 1}, {"a short cut in a big batch", false, 150}, {"an outage in a big batch", true, 150},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			w := newCable(t, server.NewDatabase(t))
			s := openStore(t, w.dsn, postgres.StoreOptions{})
			oracle := memory.NewStore()
			cuts, inDoubt := 0, 0
			for step := range int64(48) {
				// As a journal: the caller who is refused comes again with the same rows.
				batch := func() (batch []events.Append) {
					batch = append(batch, events.Append{
						Rows:    []events.Row{row(t, "a", step), row(t, "b", events.AnyVersion)},
						Secrets: []events.Secret{{ID: "s", Version: step + 1}},
					})
					for i := range c.rows {
						batch = append(batch, one(row(t, fmt.Sprintf("own/%d/%d", step, i), 0))...)
					}
					return append(batch, append(one(row(t, "b", events.AnyVersion)), one(row(t, "b", events.AnyVersion))...)...)
				}
				w.cutAfter(int(step%12), c.stays)
				got, err := s.Append(context.Background(), batch(), 1)
				if w.mend() {
					cuts++
				}
				if err != nil {
					require.ErrorIs(t, err, events.ErrUnavailable)
					if errors.Is(err, events.ErrInDoubt) {
						inDoubt++
					}
					if step%2 == 0 {
						require.Eventually(t, func() bool { return s.Probe(context.Background()) == nil }, time.Minute, 5*time.Millisecond)
					}
					got, _ = insist(t, s, batch())
				}
				want, err := oracle.Append(context.Background(), batch(), 1)
				require.NoError(t, err)
				require.Equal(t, want, got, "step %d", step)
			}
			require.Equal(t, rows(t, oracle), rows(t, s))
			require.Greater(t, cuts, 10, "the cuts did not hit")
			if c.stays {
				require.Positive(t, inDoubt, "no commit was ever in doubt")
			}
			report, err := events.Audit{}.Verify(context.Background(), s)
			require.NoError(t, err)
			require.True(t, report.Equal, "%+v", report)
		})
	}
}

func TestAnAppendThatIsNotRepeatedAfterAnOutageLeavesNothingBehindThatSwallowsAnother(t *testing.T) {
	w := newCable(t, pgtest.Shared(t).NewDatabase(t))
	s := openStore(t, w.dsn, postgres.StoreOptions{})
	put(t, s, one(row(t, "a", events.AnyVersion))...)
	committed := false
	for chunks := 0; !committed; chunks++ { // until the answer to the commit is what gets lost
		before := head(t, s)
		other := row(t, "a", events.AnyVersion)
		other.Node = fmt.Sprintf("node-%d", chunks)
		w.cutAfter(chunks, true)
		_, err := s.Append(context.Background(), one(other), 1)
		require.ErrorIs(t, err, events.ErrUnavailable)
		err = s.Probe(context.Background())
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.NotErrorIs(t, err, events.ErrInDoubt, "that is another call's doubt")
		w.mend()
		insist(t, s, one(row(t, "b", events.AnyVersion)))
		committed = head(t, s) == before+2
		require.LessOrEqual(t, chunks, 20, "no cut hit the answer to a commit")
	}
	// "b" has been stored each time, and is again.
	n := head(t, s)
	r := put(t, s, one(row(t, "b", events.AnyVersion))...)
	require.Equal(t, n+1, r[0].First)
}

func TestSessionsThatAreEndedCostNoAppendAndNoReading(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.NewDatabase(t)
	s := openStore(t, dsn, postgres.StoreOptions{})
	for i := range int64(5) {
		put(t, s, one(row(t, "a", i))...)
		require.Equal(t, events.Position(i+1), head(t, s))
		server.KillBackends(t, dsn)
	}
	require.Len(t, rows(t, s), 5)
}

// Crashes of the server in the middle of appends: all that was acknowledged is there, nothing is there twice, and the
// store goes on by itself when the server is back.
func TestAServerThatCrashesAndHangsUnderAppends(t *testing.T) {
	server := pgtest.Start(t)
	t.Run("crash", func(t *testing.T) {
		dsn := server.NewDatabase(t)
		s := openStore(t, dsn, postgres.StoreOptions{})
		stop, progress, done := make(chan struct{}), make(chan struct{}, 1), make(chan [2]int)
		go func() {
			n, failures := 0, 0
			for {
				select {
				case <-stop:
					done <- [2]int{n, failures}
					return
				default:
				}
				mine := row(t, "shared", events.AnyVersion)
				mine.Request = fmt.Sprint(n) // tells it from its neighbours
				_, failed := insist(t, s, append(one(row(t, "own", int64(n))), one(mine)...))
				n, failures = n+1, failures+failed
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		}()
		for range 5 {
			for range 20 {
				<-progress
			}
			server.Stop(t, pgtest.Immediate)
			server.Restart(t)
		}
		<-progress
		<-progress
		close(stop)
		was := <-done
		t.Logf("%d batches, %d failed tries", was[0], was[1])
		counts := map[string]int{}
		for _, c := range rows(t, s) {
			if c.Stream == "shared" {
				counts[c.Request]++
			} else {
				counts["own"]++
			}
		}
		require.Equal(t, was[0], counts["own"])
		for n := range was[0] {
			require.Equal(t, 1, counts[fmt.Sprint(n)], "append %d", n)
		}
		report, err := events.Audit{}.Verify(context.Background(), s)
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
	})
	t.Run("hang", func(t *testing.T) {
		dsn := server.NewDatabase(t)
		beside := openStore(t, dsn, postgres.StoreOptions{Shared: true}) // has made the tables
		s := openStore(t, dsn, postgres.StoreOptions{Deadline: time.Second, ClaimWait: 5 * time.Second})
		insist(t, s, one(row(t, "a", 0)))
		for i := range int64(4) {
			server.Pause(t)
			began := time.Now()
			_, err := s.Append(context.Background(), one(row(t, "a", i+1)), 1)
			require.ErrorIs(t, err, events.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(began), 30*time.Second)
			_, err = s.Head(context.Background())
			require.ErrorIs(t, err, events.ErrUnavailable)
			server.Continue(t)
			insist(t, s, one(row(t, "a", i+1)))
		}
		eventually(t, s, 5)
		require.Len(t, rows(t, beside), 5)
	})
	t.Run("down", func(t *testing.T) {
		dsn := server.NewDatabase(t)
		s := openStore(t, dsn, postgres.StoreOptions{})
		server.Stop(t, pgtest.Fast)
		_, err := s.Append(context.Background(), one(row(t, "a", 0)), 1)
		require.ErrorIs(t, err, events.ErrUnavailable)
		require.ErrorIs(t, s.Probe(context.Background()), events.ErrUnavailable)
		_, err = s.Head(context.Background())
		require.ErrorIs(t, err, events.ErrUnavailable)
		_, err = postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{})
		require.ErrorIs(t, err, events.ErrUnavailable)
		server.Restart(t)
		insist(t, s, one(row(t, "a", 0)))
		eventually(t, s, 1)
	})
}

func TestAServerThatIsDownIsNotStormed(t *testing.T) {
	w := newCable(t, pgtest.Shared(t).NewDatabase(t))
	s := openStore(t, w.dsn, postgres.StoreOptions{})
	w.cutAfter(0, true)
	before := w.dials.Load()
	for range 20_000 {
		require.ErrorIs(t, s.Probe(context.Background()), events.ErrUnavailable)
		require.Less(t, w.dials.Load()-before, int64(200), "nearly all are answered without the network")
	}
	require.Greater(t, w.dials.Load(), before, "it is tried now and then")
	w.mend()
	require.Eventually(t, func() bool { return s.Probe(context.Background()) == nil }, time.Minute, 5*time.Millisecond)
}

func TestOneGatewayAtATime(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.NewDatabase(t)
	a := openStore(t, dsn, postgres.StoreOptions{})
	put(t, a, one(row(t, "a", 0))...)
	brief, patient := postgres.StoreOptions{ClaimWait: 50 * time.Millisecond}, postgres.StoreOptions{ClaimWait: 40 * time.Second}

	_, err := postgres.OpenStore(context.Background(), dsn, brief)
	require.ErrorIs(t, err, postgres.ErrInUse)
	require.ErrorIs(t, err, events.ErrUnavailable)
	require.ErrorContains(t, err, "127.0.0.1")
	require.ErrorContains(t, err, "server process")
	reader := openStore(t, dsn, postgres.StoreOptions{Shared: true})
	require.Equal(t, events.Position(1), head(t, reader))

	// The claim goes with the connection: who has lost it cannot append until nobody else has it.
	server.KillBackends(t, dsn)
	b := openStore(t, dsn, patient)
	put(t, b, one(row(t, "a", 1))...)
	_, err = a.Append(context.Background(), one(row(t, "a", 1)), 1)
	require.ErrorIs(t, err, postgres.ErrInUse)
	put(t, b, one(row(t, "a", 2))...)
	require.NoError(t, b.Close())
	results, _ := insist(t, a, one(row(t, "a", 3))) // the server may still be ending its session
	require.Equal(t, []events.Result{{First: 4}}, results)
}

// The rows that are shown are in one schema of the database: gateways whose events are in two would write over each other's.
func TestTwoGatewaysInTwoSchemasOfADatabaseAreTwoGateways(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	do(t, auditor(t, dsn), `CREATE SCHEMA a; CREATE SCHEMA b`)
	brief := postgres.StoreOptions{ClaimWait: 50 * time.Millisecond}
	first := openStore(t, dsn+"&search_path=a", brief)
	_, err := postgres.OpenStore(context.Background(), dsn+"&search_path=b", brief)
	require.ErrorIs(t, err, postgres.ErrInUse)
	require.ErrorContains(t, err, "server process")
	require.NoError(t, first.Close())
	openStore(t, dsn+"&search_path=b", postgres.StoreOptions{ClaimWait: 40 * time.Second})
}

func TestAKilledGatewayIsFollowedByTheNextAtOnce(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	w := newCable(t, dsn)
	openStore(t, w.dsn, postgres.StoreOptions{})
	go w.cut() // its process is gone
	openStore(t, dsn, postgres.StoreOptions{ClaimWait: 40 * time.Second})
}

func TestADatabaseOfANewerVersionIsRefused(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	require.NoError(t, openStore(t, dsn, postgres.StoreOptions{}).Close())
	onServer(t, dsn, func(ctx context.Context, c *pgx.Conn) {
		_, err := c.Exec(ctx, `INSERT INTO schema_migrations (number, name) VALUES (999, 'later')`)
		require.NoError(t, err)
	})
	_, err := postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{})
	require.ErrorIs(t, err, postgres.ErrNewerSchema)
	require.ErrorContains(t, err, "999")
}

func TestAnAddressThatIsNoneIsRefusedWithoutItsPassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:hunter2@127.0.0.1:99999/x", "host=127.0.0.1 port=1 password=hunter2 user=u dbname=x", "postgres://u:a@hunter2@127.0.0.1/x",
		"postgres://u:a@127.0.0.1,hunter2@127.0.0.2/x", "postgres://u:hunter2#a@127.0.0.1:1/x", "postgres://u:a/hunter2@127.0.0.1:1/x",
		"postgres://u:%zzhunter2@127.0.0.1:1/x", "postgres://127.0.0.1:1/x?user=u&password=hunter2", "postgres://u:hunter2@127.0.0.1:1/x?sslmode=odd",
	} {
		_, err := postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = postgres.OpenReadModel(context.Background(), dsn)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
		_, err = postgres.Pending(context.Background(), dsn)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
}
