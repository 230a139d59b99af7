package penstock_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
)

// copied is a new data folder with the secret key of a rig.
func copied(t *testing.T, r *rig) (folder string) {
	t.Helper()
	folder = t.TempDir()
	key, err := os.ReadFile(filepath.Join(r.config.DataDir, "secret.key"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "secret.key"), key, 0o600))
	return folder
}

func restore(folder, store string, file []byte) (events.Restored, error) {
	return penstock.Restore(context.Background(), penstock.RestoreOptions{DataDir: folder, Store: store}, bytes.NewReader(file))
}

// restored is a gateway on what was restored from a file that is of another one.
func restored(t *testing.T, from *rig, file []byte) *rig {
	t.Helper()
	folder := copied(t, from)
	_, err := restore(folder, "", file)
	require.NoError(t, err)
	return newRig(t, func(c *penstock.Config) { c.DataDir = folder })
}

// held is a file whose first bytes are waited with.
type held struct {
	bytes.Buffer
	begun, goOn chan struct{}
	once        sync.Once
}

func (h *held) Write(b []byte) (int, error) {
	h.once.Do(func() { close(h.begun); <-h.goOn })
	return h.Buffer.Write(b)
}

// Of what retention takes while a backup is written it is not said in the file that it did: an audit would ask where it is.
func TestNothingIsTakenAwayBesideABackup(t *testing.T) {
	r, _ := aged(t, nil)
	until := midnight(time.Now())
	r.open()
	file := &held{begun: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- r.gw.Backup(context.Background(), file) }()
	<-file.begun
	r.apply(map[string]any{"kind": "setting", "name": "retention.events", "value": "5"})
	q, err := http.NewRequest("POST", "http://"+r.gw.AdminAddr()+"/api/v1/books/close", strings.NewReader(`{"until":"`+until.AddDate(0, 0, -1).Format(time.DateOnly)+`"}`))
	require.NoError(t, err)
	q.Header.Set("Authorization", "Bearer "+r.gw.AdminToken())
	q.Header.Set("Content-Type", "application/json")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if answer, err := http.DefaultClient.Do(q); err == nil {
			_ = answer.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return len(bookOf[books.Removed](r, "books.removed")) > 0 }, 60*time.Second, 5*time.Millisecond)
	require.Never(t, func() bool { return ask[events.Report](r, "GET", "/api/v1/audit/verify", nil).Archived > 0 }, 400*time.Millisecond, 10*time.Millisecond)
	close(file.goOn)
	require.NoError(t, <-done)
	<-closed
	before := restored(t, r, file.Bytes())
	require.Zero(t, equal(t, before))
	require.Equal(t, bill(t, r, until), bill(t, before, until))

	archived := equal(t, r)
	require.Positive(t, archived)
	var later bytes.Buffer
	require.NoError(t, r.gw.Backup(context.Background(), &later))
	after := restored(t, r, later.Bytes())
	require.Equal(t, archived, equal(t, after))
	require.Equal(t, bill(t, r, until), bill(t, after, until))
}

// What waits in the spool is in no backup: it would look whole, and lack the requests of the outage.
func TestABackupIsRefusedWhileEventsWaitInTheSpool(t *testing.T) {
	r, server, key := onOwnServer(t, nil)
	l := newLoad(r, key, 2)
	l.passes(10)
	server.Stop(t, pgtest.Immediate)
	becomes(r, "spooling", isSpooling)
	status, body := r.admin("GET", "/api/v1/backup", nil)
	require.Equal(t, http.StatusServiceUnavailable, status, "%s", body)
	require.Contains(t, string(body), "a backup needs the event store")
	l.passes(10)
	server.Restart(t)
	becomes(r, "all is stored", isWell)
	sent := l.end()
	status, body = r.admin("GET", "/api/v1/backup", nil)
	require.Equal(t, http.StatusOK, status)
	into := restored(t, r, body)
	lines := ask[items[struct{ Requests int64 }]](into, "GET", "/api/v1/billing", nil).Items
	require.Len(t, lines, 1)
	require.Equal(t, sent, lines[0].Requests)
	equal(t, into)
}

// In a folder that was in use before there are read models of other events, and heads of events that may be lost.
func TestARestoreInPlaceOfALostStoreTakesNothingOfItForItsOwn(t *testing.T) {
	call := func(r *rig, n int) {
		for range n {
			resp, body := r.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "Authorization", "Bearer "+r.secret["k"])
			require.Equal(t, 200, resp.StatusCode, body)
		}
	}
	rigs := [2]*rig{newRig(t, nil), newRig(t, nil)}
	for i, r := range rigs {
		r.upstream("up", simulator.Behavior{}, nil)
		r.key("k", nil)
		call(r, 1+4*i)
	}
	other, r := rigs[0], rigs[1]
	other.close()
	var file bytes.Buffer
	require.NoError(t, r.gw.Backup(context.Background(), &file))
	call(r, 1)
	_, err := restore(r.config.DataDir, "", file.Bytes())
	require.ErrorIs(t, err, penstock.ErrLocked)
	r.close()
	_, err = restore(r.config.DataDir, "", file.Bytes())
	require.ErrorContains(t, err, "knows of events up to position")

	folder := r.config.DataDir
	heads := filepath.Join(folder, "heads.jsonl")
	require.NoError(t, os.Rename(heads, heads+".lost"))
	_, err = restore(folder, "", file.Bytes())
	require.ErrorIs(t, err, events.ErrNotEmpty)
	require.NoError(t, os.Remove(filepath.Join(folder, "events.db")))
	stale, err := os.ReadFile(filepath.Join(other.config.DataDir, "read.db"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "read.db"), stale, 0o600))
	_, err = restore(folder, "", file.Bytes())
	require.NoError(t, err)
	r.open()
	equal(t, r)
	call(r, 1)
	lines := ask[items[struct{ Requests int64 }]](r, "GET", "/api/v1/billing", nil).Items
	require.Len(t, lines, 1)
	require.EqualValues(t, 5+1, lines[0].Requests)
}

// A restore waits for nobody to make a key that opens nothing.
func TestARestoreMakesNoSecretKey(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("up", simulator.Behavior{}, nil)
	var file bytes.Buffer
	require.NoError(t, r.gw.Backup(context.Background(), &file))
	folder := t.TempDir()
	_, err := restore(folder, "", file.Bytes())
	require.ErrorContains(t, err, "there is no secret key in")
	require.NoFileExists(t, filepath.Join(folder, "secret.key"))
	require.NoFileExists(t, filepath.Join(folder, "events.db"), "nothing was written")
	_, err = penstock.Restore(context.Background(), penstock.RestoreOptions{DataDir: folder, SecretKey: "another phrase that is long enough"}, bytes.NewReader(file.Bytes()))
	require.ErrorContains(t, err, "up-1")
	require.NoFileExists(t, filepath.Join(folder, "events.db"), "nothing was written")
	_, err = penstock.Restore(context.Background(), penstock.RestoreOptions{DataDir: filepath.Join(folder, "none")}, io.LimitReader(&file, 100))
	require.ErrorIs(t, err, events.ErrBackup)
	require.NoDirExists(t, filepath.Join(folder, "none"))
}
