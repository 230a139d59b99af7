package penstock_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/books"
)

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

	r.open()
	r.apply(map[string]any{"kind": "setting", "name": "books.archive", "value": ""})
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": yesterday})
	require.NoError(t, os.WriteFile(filepath.Join(r.config.DataDir, "full"), nil, 0o600)) // no folder can be there
	r.apply(map[string]any{"kind": "setting", "name": "books.archive", "value": "full"},
		map[string]any{"kind": "setting", "name": "retention.events", "value": "5"})
	status, body := r.admin("POST", "/api/v1/books/close", map[string]any{"until": yesterday})
	require.Equal(t, 500, status, "%s", body)
	removed := bookOf[books.Removed](r, "books.removed")
	require.Len(t, removed, 1)
	require.Equal(t, first, removed[0].Day)
	require.Equal(t, closed[0].Rows, equal(t, r))
	half := midnight(time.Now()).AddDate(0, 0, -8).Add(18 * time.Hour).Format(time.RFC3339)
	status, body = r.admin("GET", "/api/v1/billing?since="+half, nil)
	require.Equal(t, 422, status, "half a day of which only the sum is left: %s", body)
}
