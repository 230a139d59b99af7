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

// copying is a backup: what it writes, and how it ends.
type copying struct {
	text    string
	fails   error
	stalled chan error // what ends one that has no end itself; nil: it has one
}

func (r *recorded) Backup(_ context.Context, w io.Writer) error {
	c := r.copying.Load()
	for c.stalled != nil { // as a store without an end
		if _, err := w.Write(make([]byte, 64<<10)); err != nil {
			c.stalled <- err
			return err
		}
	}
	if c.text != "" {
		if _, err := io.WriteString(w, c.text); err != nil {
			return err
		}
	}
	return c.fails
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
	b.books.copying.Store(&copying{text: "{}\n"})
	answer, text, err := get(token)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "application/jsonl", answer.Header.Get("Content-Type"))
	require.Equal(t, "{}\n", text)

	away := Unavailable(errors.New("the store is away"))
	b.books.copying.Store(&copying{text: "{}\n", fails: away})
	_, _, err = get(token)
	require.ErrorContains(t, err, "EOF")

	b.books.copying.Store(&copying{fails: away})
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
	stalled := make(chan error, 1)
	b.books.copying.Store(&copying{stalled: stalled})
	web := httptest.NewServer(b.srv.Handler())
	defer web.Close()
	r, err := http.NewRequest(http.MethodGet, web.URL+"/api/v1/backup", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := web.Client().Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	select {
	case err := <-stalled:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(30 * time.Second):
		t.Fatal("it is waited for")
	}
}
