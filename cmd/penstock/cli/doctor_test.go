package cli

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoctorLooksAtTheDatabaseAndKeepsItsPasswordToItself(t *testing.T) {
	d := newDesk(t)
	delete(d.env, "PENSTOCK_ADMIN_URL")
	d.env["PENSTOCK_LISTEN"], d.env["PENSTOCK_ADMIN_LISTEN"] = "127.0.0.1:0", "127.0.0.1:0"
	d.env["PENSTOCK_STORE"] = "postgres://pen:hush@db.internal:5432/pen?password=hush"
	fresh := filepath.Join(d.folder, "not", "yet")
	for _, folder := range []string{d.folder, fresh} {
		got := d.ok("doctor", "--data", folder)
		require.Contains(t, got, "postgres://pen@db.internal:5432/pen")
		require.NotContains(t, got, "hush")
	}
	d.migrating = errors.New("connection refused")
	code, got, _ := d.run("doctor", "--data", fresh)
	require.Equal(t, 1, code)
	require.Contains(t, got, "failed  database: connection refused\n        the database must answer")
	require.NoDirExists(t, filepath.Dir(fresh), "looking leaves nothing behind")
}
