package postgres_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
)

func TestAPoolerIsNotTakenForTheServer(t *testing.T) {
	server := pgtest.Shared(t)
	for name, passes := range map[string]bool{"it refuses settings": false, "it passes over settings": true} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.OpenStore(t.Context(), newPooler(t, server.NewDatabase(t), passes), postgres.StoreOptions{})
			require.ErrorIs(t, err, postgres.ErrPooled)
			require.ErrorIs(t, err, events.ErrUnavailable)
			require.ErrorContains(t, err, "the address of the server itself")
		})
	}
}

// newPooler does to the start of a session what poolers do: of the settings it knows none. It either passes over them or refuses
// the session. It returns the address of the database through it.
func newPooler(t *testing.T, dsn string, passes bool) string {
	t.Helper()
	return between(t, dsn, func(c net.Conn, server string) { pool(t.Context(), c, server, passes) }, func() {})
}

// pool serves one session until either side ends it.
func pool(ctx context.Context, client net.Conn, address string, passes bool) {
	defer client.Close()
	front := pgproto3.NewBackend(client, client)
	m, err := front.ReceiveStartupMessage()
	start, ok := m.(*pgproto3.StartupMessage)
	if err != nil || !ok {
		return
	}
	if !passes {
		front.Send(&pgproto3.ErrorResponse{
			Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "unsupported startup parameter: enable_seqscan",
		})
		_ = front.Flush() // the client sees the end anyway
		return
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	for name := range start.Parameters {
		if name != "user" && name != "database" {
			delete(start.Parameters, name)
		}
	}
	back := pgproto3.NewFrontend(server, server)
	back.Send(start)
	if back.Flush() != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	both.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	both.Wait()
}
