package pgtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres/cluster"
)

// child is set for a run of this test program that is killed in the middle of a test.
const child = "PENSTOCK_PGTEST_CHILD"

func TestMain(m *testing.M) { Main(m) }

func ping(dsn string) error { return pingFor(startMax, dsn) }

func pingFor(most time.Duration, dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func TestAServerIsStoppedHungContinuedAndStartedAtTheSameAddress(t *testing.T) {
	s := Start(t)
	dsn := s.NewDatabase(t)
	require.NoError(t, ping(dsn))
	s.Pause(t)
	require.ErrorIs(t, pingFor(300*time.Millisecond, dsn), context.DeadlineExceeded)
	s.Continue(t)
	require.NoError(t, ping(dsn))
	for _, how := range []Mode{Fast, Immediate} {
		s.Stop(t, how)
		require.Error(t, ping(dsn))
		s.Restart(t)
		require.NoError(t, ping(dsn))
	}
	s.Pause(t)
	s.Restart(t)
	require.NoError(t, ping(dsn))

	c, err := pgx.Connect(context.Background(), dsn)
	require.NoError(t, err)
	s.KillBackends(t, dsn)
	beside, err := pgx.Connect(context.Background(), s.DSN())
	require.NoError(t, err)
	defer beside.Close(context.Background())
	var known int
	require.NoError(t, beside.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, c.PgConn().PID()).Scan(&known))
	require.Zero(t, known, "the server knows the session that was ended")
	require.Error(t, c.Ping(context.Background()))
}

func TestAServerIsGoneWithItsFilesWhenItsTestEnds(t *testing.T) {
	var s *Server
	t.Run("a test", func(t *testing.T) {
		s = Start(t)
		require.DirExists(t, s.files.Folder)
	})
	require.NoDirExists(t, s.files.Folder)
	require.Error(t, ping(s.DSN()))
}

// A test program that is killed has no time to clean up.
func TestAServerIsGoneWithItsFilesWhenItsTestProgramIsKilled(t *testing.T) {
	if os.Getenv(child) != "" {
		s := Start(t)
		s.Pause(t)
		require.NoError(t, os.WriteFile(os.Getenv(child), []byte(s.files.Folder+"\n"+s.DSN()), 0o600))
		select {} // until it is killed
	}
	if err := cluster.Installed(); err != nil {
		missing(t, err)
		t.Fatal(err)
	}
	note := filepath.Join(t.TempDir(), "note")
	c := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	c.Env = append(os.Environ(), child+"="+note)
	require.NoError(t, c.Start())
	var said []byte
	require.Eventually(t, func() bool { said, _ = os.ReadFile(note); return len(said) > 0 }, startMax, 10*time.Millisecond)
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	folder, dsn, _ := strings.Cut(string(said), "\n")
	require.Eventually(t, func() bool { _, err := os.Stat(folder); return os.IsNotExist(err) }, startMax, 10*time.Millisecond)
	require.Error(t, ping(dsn))
}
