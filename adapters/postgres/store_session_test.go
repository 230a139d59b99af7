package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
)

// The server must notice that a machine has gone, both while it waits for a question and while an answer is on its way: what its
// sessions hold keeps the next gateway waiting.
func TestEverySessionHasTheServerLookForItsClient(t *testing.T) {
	dsn := pgtest.Shared(t).NewDatabase(t)
	s := openTestStore(t, dsn)
	looksFor := func(c *pgx.Conn) (settings []string) {
		t.Helper()
		for _, name := range []string{"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"} {
			var value string
			require.NoError(t, c.QueryRow(context.Background(), "SHOW "+name).Scan(&value))
			settings = append(settings, value)
		}
		return settings
	}
	want := []string{"10", "5", "4", "30000"}
	require.Equal(t, want, looksFor(s.session.conn))
	require.NoError(t, s.read(context.Background(), func(_ context.Context, c *pgx.Conn) error {
		require.Equal(t, want, looksFor(c))
		return nil
	}))
	m, err := OpenReadModel(context.Background(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.Equal(t, want, looksFor(m.w.conn))
}
