package penstock_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/domain/books"
)

// What removes events waits for replays, and closings for each other, for minutes. Neither may keep a gateway from ending, or a
// question about the past from being answered meanwhile.
func TestWhatWaitsToRemoveEventsHoldsUpNeitherTheEndNorTheNextReplay(t *testing.T) {
	for name, hold := range map[string]func(*penstock.Gateway) func(){
		"a replay runs": (*penstock.Gateway).HoldReplays, "books are being closed": (*penstock.Gateway).HoldBooks,
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := aged(t, nil)
			r.open()
			release := sync.OnceFunc(hold(r.gw))
			defer release()
			r.apply(map[string]any{"kind": "setting", "name": "retention.events", "value": "5"})
			yesterday := midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)
			q, err := http.NewRequest("POST", "http://"+r.gw.AdminAddr()+"/api/v1/books/close", strings.NewReader(`{"until":"`+yesterday+`"}`))
			require.NoError(t, err)
			q.Header.Set("Authorization", "Bearer "+r.gw.AdminToken())
			q.Header.Set("Content-Type", "application/json")
			waiting := make(chan struct{})
			go func() {
				defer close(waiting)
				if answer, err := http.DefaultClient.Do(q); err == nil {
					_ = answer.Body.Close()
				}
			}()
			if name == "a replay runs" {
				require.Eventually(t, func() bool { return len(bookOf[books.Removed](r, "books.removed")) > 0 }, time.Minute, 5*time.Millisecond)
			}
			asked := make(chan int, 1)
			go func() {
				status, _ := r.admin("GET", "/api/v1/billing?as_of=1", nil)
				asked <- status
			}()
			select {
			case <-asked:
			case <-time.After(time.Minute):
				t.Error("a question about the past waits behind what waits to remove events")
			}
			ended := make(chan error, 1)
			gw := r.gw
			r.gw = nil
			go func() { ended <- gw.Close(context.Background()) }()
			select {
			case err := <-ended:
				require.NoError(t, err)
			case <-time.After(2 * time.Minute):
				t.Error("the gateway does not end")
				release()
				<-ended
			}
			<-waiting
		})
	}
}

// A day whose archive can not be written stays, and those behind it. What was said to go before it goes all the same: it
// stayed for as long as the archive was full, which it may be for want of that room.
func TestAnArchiveThatCanNotBeWrittenHoldsUpNothingThatNeedsNone(t *testing.T) {
	r, _ := aged(t, map[string]string{"books.archive": "archive"})
	o := offline(t, r)
	yesterday := midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)
	first := midnight(time.Now()).AddDate(0, 0, -8).Format(time.DateOnly)
	closed, err := o.CloseBooks(context.Background(), first)
	require.NoError(t, err)
	require.Len(t, closed, 1)
	require.NoError(t, o.Close())
	archive := filepath.Join(r.config.DataDir, "archive")
	require.NoError(t, os.Rename(archive, archive+"-before"))
	require.NoError(t, os.WriteFile(archive, nil, 0o600)) // no folder can be there, also for what the gateway closes by itself

	r.open()
	r.apply(map[string]any{"kind": "setting", "name": "books.archive", "value": ""})
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": yesterday})
	r.apply(map[string]any{"kind": "setting", "name": "books.archive", "value": "archive"},
		map[string]any{"kind": "setting", "name": "retention.events", "value": "5"})
	status, body := r.admin("POST", "/api/v1/books/close", map[string]any{"until": yesterday})
	require.Equal(t, 500, status, "%s", body)
	require.Contains(t, string(body), archive, "the folder is named")
	removed := bookOf[books.Removed](r, "books.removed")
	require.Len(t, removed, 1)
	require.Equal(t, first, removed[0].Day)
	require.Equal(t, closed[0].Rows, equal(t, r))
	half := midnight(time.Now()).AddDate(0, 0, -8).Add(18 * time.Hour).Format(time.RFC3339)
	status, body = r.admin("GET", "/api/v1/billing?since="+half, nil)
	require.Equal(t, 422, status, "half a day of which only the sum is left: %s", body)
}

// A process that is killed while it writes an archive leaves what it has of it, as large as a day, where nobody sees it.
func TestWhatIsLeftOfAnArchiveThatWasCutShortIsCleared(t *testing.T) {
	r, _ := aged(t, map[string]string{"books.archive": "archive"})
	day := midnight(time.Now()).AddDate(0, 0, -8).Format(time.DateOnly)
	folder := filepath.Join(r.config.DataDir, "archive")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	write := func(name string, age time.Duration) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
		require.NoError(t, os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age)))
		return path
	}
	left := write("."+day+".123", 2*time.Hour)
	kept := []string{write("."+day+".456", time.Minute), write("."+day+"x", 2*time.Hour), write(day+".789", 2*time.Hour)} // another gateway's, others
	o := offline(t, r)
	closed, err := o.CloseBooks(context.Background(), day)
	require.NoError(t, err)
	require.Len(t, closed, 1)
	require.NoFileExists(t, left)
	for _, path := range append(kept, filepath.Join(folder, closed[0].Archive.File)) {
		require.FileExists(t, path)
	}
	require.NoError(t, o.Close())
}
