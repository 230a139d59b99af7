package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (r *recorded) Backup(_ context.Context, w io.Writer) error {
	for r.stalled != nil { // as a store without an end
		if _, err := w.Write(make([]byte, 64<<10)); err != nil {
			r.stalled <- err
			return err
		}
	}
	if r.backedUp != "" {
		if _, err := io.WriteString(w, r.backedUp); err != nil {
			return err
		}
	}
	return r.backupFails
}

func TestABackupThatFailsIsNoAnswerThatLooksWhole(t *testing.T) {
	b := newBench(t)
	web := httptest.NewServer(b.srv.Handler())
	defer web.Close()
	get := func(token string) (*http.Response, string, error) {
		r, err := http.NewRequest(http.MethodGet, web.URL+"/api/v1/backup", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := web.Client().Do(r)
		if err != nil {
			return nil, "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer, string(text), err
	}
	b.books.backedUp = "{}\n"
	answer, text, err := get(token)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "application/jsonl", answer.Header.Get("Content-Type"))
	require.Equal(t, "{}\n", text)

	b.books.backupFails = Unavailable(errors.New("the store is away"))
	_, _, err = get(token)
	require.ErrorContains(t, err, "EOF")

	b.books.backedUp = ""
	answer, text, err = get(token)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, text, "the store is away")
	answer, _, _ = get("another")
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
}

func TestAClientThatTakesNothingOfItsBackupIsCutOff(t *testing.T) {
	b := newBench(t)
	b.srv.stallMax = 50 * time.Millisecond
	b.books.stalled = make(chan error, 1)
	web := httptest.NewServer(b.srv.Handler())
	defer web.Close()
	r, err := http.NewRequest(http.MethodGet, web.URL+"/api/v1/backup", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := web.Client().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	select {
	case err := <-b.books.stalled:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(30 * time.Second):
		t.Fatal("it is waited for")
	}
}
