package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

func (p *place) Backup(ctx context.Context, w io.Writer) error {
	if p.away.Load() {
		return admin.Unavailable(errors.New("a backup needs the event store"))
	}
	if at := p.cutAt.Load(); at > 0 {
		w = &cutting{w, int(at)}
	}
	_, err := events.Backup(ctx, p.chain, events.BackupOptions{By: "penstock test", At: noon, Sign: func(h *events.Head) { h.Sign(p.signing, noon) }}, w)
	return err
}

// cutting fails behind some bytes.
type cutting struct {
	w    io.Writer
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b[:min(len(b), c.left)])
	if c.left -= n; err == nil && n < len(b) {
		err = errors.New("the store has gone")
	}
	return n, err
}

func TestABackupIsAFileThatCanBeRestored(t *testing.T) {
	origins(t, func(t *testing.T, d *desk) {
		chained(t, d.place)
		out := filepath.Join(t.TempDir(), "b.jsonl")
		_, stdout, stderr := d.run("backup", "--out", out)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "3 positions, 0 sealed credentials, 0 consumer groups; head 3:")
		is, err := os.Stat(out)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), is.Mode().Perm())
		plain, err := os.ReadFile(out)
		require.NoError(t, err)
		require.Equal(t, string(plain), d.ok("backup"), "standard output is the same")
		require.Contains(t, d.ok("audit", "verify", "--file", out), "intact: 3 positions")

		require.Contains(t, d.fails(1, "backup", "--out", out), "there is a file")
		d.ok("backup", "--out", out, "--force")
		require.Contains(t, d.fails(2, "backup", "--out", filepath.Dir(out)), "is a folder")
		zipped := out + ".gz"
		d.ok("backup", "--out", zipped)
		text, err := os.ReadFile(zipped)
		require.NoError(t, err)
		r, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		unzipped, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, string(plain), string(unzipped))

		head := strings.TrimSpace(d.ok("audit", "head"))
		require.Contains(t, d.ok("restore", zipped, "--head", head), "restored: 3 positions, 3 rows in 3 commits, 0 sealed credentials, 0 consumer groups, known heads met: 1; head 3:")
		d.stdin = string(plain)
		var line events.Restored
		require.NoError(t, json.Unmarshal([]byte(d.ok("restore", "-", "--json")), &line))
		require.EqualValues(t, 3, line.Positions)
		d.place.chain = d.restored
		require.Contains(t, d.ok("audit", "verify", "--head", head), "intact: 3 positions")
	})
}

func TestABackupThatFailsLeavesNoFile(t *testing.T) {
	origins(t, func(t *testing.T, d *desk) {
		for n := range 40 {
			r := events.Row{Stream: "node/n", Version: int64(n), At: noon, Facts: []events.Fact{&request.Rejected{Reason: strings.Repeat("x", 10_000)}}}
			require.NoError(t, events.Encode(&r))
			_, err := d.place.chain.Append(context.Background(), []events.Append{{Rows: []events.Row{r}}}, 0)
			require.NoError(t, err)
		}
		folder := t.TempDir()
		out := filepath.Join(folder, "b.jsonl.gz")
		left := func() []os.DirEntry {
			list, err := os.ReadDir(folder)
			require.NoError(t, err)
			return list
		}
		for _, at := range []int64{1, 5_000, 300_000} {
			d.place.cutAt.Store(at)
			require.NotEmpty(t, d.fails(1, "backup", "--out", out))
			require.Empty(t, left())
			require.NotEmpty(t, d.fails(1, "backup"), "to standard output")
		}
		d.place.cutAt.Store(0)
		d.place.away.Store(true)
		require.Contains(t, d.fails(1, "backup", "--out", out), "a backup needs the event store")
		require.Empty(t, left())
		d.place.away.Store(false)
		d.full = true
		require.Contains(t, d.fails(1, "backup"), "no space left on device")
		d.full = false
		require.Contains(t, d.fails(1, "backup", "--out", filepath.Join(folder, "none", "b")), "no such file")
		d.ok("backup", "--out", out)
		require.Len(t, left(), 1)
	})
}

// A proxy between the two may hide that an answer has ended early.
func TestABackupIsNotWholeUntilItsLastLine(t *testing.T) {
	s := memory.NewStore()
	var file bytes.Buffer
	_, err := events.Backup(context.Background(), s, events.BackupOptions{}, &file)
	require.NoError(t, err)
	for n := range file.Len() {
		b := passing{w: io.Discard}
		_, _ = b.Write(file.Bytes()[:n])
		require.Error(t, b.whole(), "%d bytes", n)
	}
	b := passing{w: io.Discard}
	for i := range file.Len() {
		_, _ = b.Write(file.Bytes()[i : i+1])
	}
	require.NoError(t, b.whole())
}

func TestAFileThatIsNoBackupIsNotRestored(t *testing.T) {
	d := newDesk(t)
	chained(t, d.place)
	require.Contains(t, d.fails(1, "restore", d.file("x", d.ok("audit", "export"))), "it is an export for audits")
	require.Contains(t, d.fails(1, "restore", d.file("x", d.ok("backup")[:900])), "nothing was stored")
	require.Contains(t, d.fails(1, "restore", filepath.Join(t.TempDir(), "none")), "no such file")
	d.fails(2, "restore")
	require.Contains(t, d.fails(1, "restore", d.file("x", d.ok("backup")), "--head", "2:"+strings.Repeat("ab", 32)), "another one than that of the known head")
}
