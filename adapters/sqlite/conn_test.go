package sqlite

import (
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/migrations"
)

func openTestConn(t *testing.T) *conn {
	t.Helper()
	c, err := openConn(filepath.Join(t.TempDir(), "x.db"), connOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.close() })
	return c
}

func files(content map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, sql := range content {
		fs["dir/"+name] = &fstest.MapFile{Data: []byte(sql)}
	}
	return fs
}

func TestMigrationsAreAppliedOnceAndInOrder(t *testing.T) {
	c := openTestConn(t)
	first := map[string]string{"0001_a.sql": `CREATE TABLE a (x); INSERT INTO a VALUES (1)`}
	require.NoError(t, migrate(c, files(first), "dir"))
	require.NoError(t, migrate(c, files(first), "dir"))
	first["0002_b.sql"] = `UPDATE a SET x = x + 1`
	require.NoError(t, migrate(c, files(first), "dir"))
	require.NoError(t, migrate(c, files(first), "dir"))
	n, err := c.integer(`SELECT sum(x) FROM a`)
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	at, err := schemaNumber(c)
	require.NoError(t, err)
	require.Equal(t, int64(2), at)
}

func TestAMigrationThatFailsLeavesNothingBehind(t *testing.T) {
	c := openTestConn(t)
	fs := map[string]string{"0001_a.sql": `CREATE TABLE a (x)`, "0002_b.sql": `CREATE TABLE b (x); INSERT INTO missing VALUES (1)`}
	require.ErrorContains(t, migrate(c, files(fs), "dir"), "migration 0002_b")
	n, err := c.integer(`SELECT count(*) FROM sqlite_schema WHERE name = 'b'`)
	require.NoError(t, err)
	require.Zero(t, n)
	fs["0002_b.sql"] = `CREATE TABLE b (x)`
	require.NoError(t, migrate(c, files(fs), "dir"))
}

func TestMigrationFilesAreNumberedWithoutGaps(t *testing.T) {
	for _, fs := range []map[string]string{
		{}, {"0002_a.sql": ""}, {"0001_a.sql": "", "0003_c.sql": ""}, {"0001.sql": ""}, {"first_a.sql": ""},
	} {
		_, err := migrations.Pending(files(fs), "dir", 0)
		require.Error(t, err, "%v", fs)
	}
}

func TestAWriteThatFailsIsRolledBackAndTheConnectionWorksOn(t *testing.T) {
	c := openTestConn(t)
	require.NoError(t, c.Exec(`CREATE TABLE a (x UNIQUE)`))
	fault := errors.New("no")
	require.ErrorIs(t, c.write(func() error {
		require.NoError(t, c.run(`INSERT INTO a VALUES (1)`))
		return fault
	}), fault)
	require.True(t, c.GetAutocommit())
	require.NoError(t, c.write(func() error { return c.run(`INSERT INTO a VALUES (1)`) }))
	n, err := c.integer(`SELECT count(*) FROM a`)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

func TestReadingConnectionsRefuseToWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	w, err := openConn(path, connOptions{})
	require.NoError(t, err)
	defer w.close()
	require.NoError(t, w.Exec(`CREATE TABLE a (x)`))
	r, err := openConn(path, connOptions{QueryOnly: true})
	require.NoError(t, err)
	defer r.close()
	require.Error(t, r.Exec(`INSERT INTO a VALUES (1)`))
}

// plan is what SQLite does for a query, one step per element.
func plan(t *testing.T, c *conn, sql string) (steps []string) {
	t.Helper()
	s, _, err := c.Prepare(`EXPLAIN QUERY PLAN ` + sql)
	require.NoError(t, err)
	defer s.Close()
	for s.Step() {
		steps = append(steps, s.ColumnText(3))
	}
	require.NoError(t, s.Err())
	return steps
}

func TestAFileWithoutALogMayBeOpenedByManyAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "db")
		old, err := sqlite3.Open(path)
		require.NoError(t, err)
		require.NoError(t, old.Exec(`CREATE TABLE t (x)`))
		require.NoError(t, old.Close())
		opened := make(chan error, 4)
		for range cap(opened) {
			go func() {
				c, err := openConn(path, connOptions{})
				if err == nil {
					err = c.close()
				}
				opened <- err
			}()
		}
		for range cap(opened) {
			require.NoError(t, <-opened)
		}
	}
}
