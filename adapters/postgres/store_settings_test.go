package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// alter gives a database a setting of its own (SET …), or takes it back (RESET …).
func alter(t testing.TB, server *pgtest.Server, dsn, setting string) {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	server.Exec(t, "ALTER DATABASE "+u.Path[1:]+" "+setting)
}

func TestADatabaseMayHaveSettingsOfItsOwn(t *testing.T) {
	server := pgtest.Shared(t)
	const name = "upstream/größe Á 日本"
	for _, setting := range []string{
		"datestyle = 'SQL, DMY'", "datestyle = 'German'", "client_encoding = 'LATIN1'", "standard_conforming_strings = off",
		"timezone = 'Asia/Kathmandu'", "intervalstyle = 'sql_standard'", "bytea_output = 'escape'", "client_encoding = 'WIN1252'",
		"client_encoding = 'EUC_JP'", "lock_timeout = '1ms'", "statement_timeout = '1ms'", "default_transaction_deferrable = on",
		"default_transaction_isolation = 'serializable'",
	} {
		t.Run(setting, func(t *testing.T) {
			dsn := server.NewDatabase(t)
			alter(t, server, dsn, "SET "+setting)
			s := openStore(t, dsn, postgres.StoreOptions{})
			put(t, s, one(row(t, name, 0))...)
			require.Equal(t, name, rows(t, s)[0].Stream)
			onServer(t, dsn+"&client_encoding=UTF8&statement_timeout=0", func(ctx context.Context, c *pgx.Conn) {
				var seen string
				require.NoError(t, c.QueryRow(ctx, `SELECT stream FROM events`).Scan(&seen))
				require.Equal(t, name, seen, "by an auditor")
			})
			m := openRead(t, dsn, everyProjection...)
			settle(t, s, m, everyProjection...)
		})
	}
}

// Who waits for the append lock must see what was committed meanwhile, or positions are given twice, and a commit in doubt is taken
// for lost that went through.
func TestWritersSeeWhatWasWrittenWhileTheyWaitedWhateverTheIsolationOfTheDatabase(t *testing.T) {
	server := pgtest.Shared(t)
	for _, isolation := range []string{"repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			dsn := server.NewDatabase(t)
			alter(t, server, dsn, "SET default_transaction_isolation = '"+isolation+"'")
			stores := []*postgres.Store{
				openStore(t, dsn, postgres.StoreOptions{Shared: true}),
				openStore(t, dsn+"&default_transaction_isolation="+url.PathEscape(isolation), postgres.StoreOptions{Shared: true}),
			}
			a := auditor(t, dsn)
			do(t, a, `BEGIN; SELECT pg_advisory_xact_lock(1348824579, hashtext(current_schema()))`) // lockAppend
			fates := make(chan error)
			for i, s := range stores {
				r := row(t, fmt.Sprint(i), 0)
				go func() {
					_, err := s.Append(context.Background(), one(r), 1)
					fates <- err
				}()
			}
			const waiting = `SELECT pid::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
			for len(lines(t, a, waiting)) < len(stores) {
				select {
				case err := <-fates:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
			}
			do(t, a, `COMMIT`)
			require.NoError(t, <-fates)
			require.NoError(t, <-fates)
			require.Len(t, rows(t, stores[0]), 2)
		})
	}
}

// Servers may end sessions that rest for long. One that holds the claim to a database, or a shadow, rests for as long as nobody
// sends a request.
func TestASessionThatRestsKeepsWhatItHolds(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.NewDatabase(t)
	alter(t, server, dsn, "SET idle_session_timeout = '50ms'")
	openStore(t, dsn, postgres.StoreOptions{})
	shadow, err := openRead(t, dsn, everyProjection...).Beside(context.Background(), requestlog.Projection{})
	require.NoError(t, err)
	defer shadow.Close()
	guest, err := pgx.Connect(context.Background(), dsn)
	require.NoError(t, err)
	a := auditor(t, dsn+"&idle_session_timeout=0")
	guests := func() []string {
		return lines(t, a, `SELECT pid::text FROM pg_stat_activity WHERE pid = $1`, int(guest.PgConn().PID()))
	}
	require.Eventually(t, func() bool { return len(guests()) == 0 }, time.Minute, time.Millisecond, "who rests is ended")
	_, err = postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{ClaimWait: time.Millisecond})
	require.ErrorIs(t, err, postgres.ErrInUse)
	const locks = `SELECT classid::text FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	require.Contains(t, lines(t, a, locks), "1348824643", "the lock of the shadow")
}

// What is asked of the server is the right of any role that owns its database.
func TestARoleThatOwnsItsDatabaseMayRunAGateway(t *testing.T) {
	server := pgtest.Shared(t)
	server.Exec(t, `CREATE ROLE plain LOGIN`)
	t.Cleanup(func() { server.Exec(t, `DROP ROLE plain`) })
	dsn := server.NewDatabase(t)
	alter(t, server, dsn, "OWNER TO plain")
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.User("plain")
	s := openStore(t, u.String(), postgres.StoreOptions{})
	put(t, s, one(row(t, "a", 0))...)
	server.KillBackends(t, dsn)
	put(t, s, one(row(t, "a", 1))...)
	m := openRead(t, u.String(), everyProjection...)
	settle(t, s, m, everyProjection...)
	_, err = projections.Rebuild(context.Background(), s, m, requestlog.Projection{}, nil)
	require.NoError(t, err)
	require.NoError(t, m.Tend(context.Background(), requestlog.Projection{}))
	_, err = postgres.OpenStore(context.Background(), u.String(), postgres.StoreOptions{ClaimWait: time.Millisecond})
	require.ErrorIs(t, err, postgres.ErrInUse)
	_, err = postgres.OpenStore(context.Background(), dsn, postgres.StoreOptions{ClaimWait: time.Millisecond})
	require.ErrorIs(t, err, postgres.ErrInUse)
}
