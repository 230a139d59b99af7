package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

// A commit's messages are made and read here, not by pgx: they must pass every way that leads to a server.
func TestTheStoreKeepsItsPromisesOverTLS(t *testing.T) {
	server := pgtest.Shared(t)
	storetest.Run(t, func(t *testing.T) events.Store {
		return openStore(t, server.OverTLS(server.NewDatabase(t)), postgres.StoreOptions{})
	})
}

func TestTheStoreAnswersAsTheMemoryStoreThroughASocketOfTheFileSystem(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.OverUnix(server.NewDatabase(t))
	storetest.Differential(t, 7, memory.NewStore(), func(t *testing.T) events.Store {
		return openStore(t, dsn, postgres.StoreOptions{Shared: true}) // the one before may still be open
	})
}

func TestTheWaysOfTheTestsAreThoseTheyAreSaidToBe(t *testing.T) {
	server := pgtest.Shared(t)
	for dsn, want := range map[string][2]bool{
		server.DSN():                  {false, true},
		server.OverTLS(server.DSN()):  {true, true},
		server.OverUnix(server.DSN()): {false, false},
	} {
		c, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err, dsn)
		var encrypted, network bool
		require.NoError(t, c.QueryRow(t.Context(), `SELECT ssl, inet_client_addr() IS NOT NULL FROM pg_stat_ssl
			WHERE pid = pg_backend_pid()`).Scan(&encrypted, &network))
		require.Equal(t, want, [2]bool{encrypted, network}, dsn)
		require.NoError(t, c.Close(t.Context()))
	}
}
