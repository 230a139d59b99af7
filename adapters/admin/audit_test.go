package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exporter writes until it is told that nobody reads, or ends with an error of its own.
type exporter struct {
	Audit
	fault error
}

func (x exporter) AuditExport(_ context.Context, _, _ time.Time, w io.Writer) error {
	for range 3 {
		if _, err := io.WriteString(w, "{}\n"); err != nil {
			return err
		}
	}
	return x.fault
}

// leaver is a client that has gone.
type leaver struct{ *httptest.ResponseRecorder }

func (leaver) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A client that leaves an export is no fault that anybody need look at; a store that does not give it is.
func TestWhoLeavesAnExportIsNoFault(t *testing.T) {
	for says, c := range map[string]struct {
		fault error
		gone  bool
	}{"level=INFO": {nil, true}, "level=ERROR": {errors.New("the store is away"), false}, "": {nil, false}} {
		var log strings.Builder
		srv, err := New(Config{Token: token, Logger: slog.New(slog.NewTextHandler(&log, nil)), Audit: exporter{fault: c.fault}})
		require.NoError(t, err)
		r := httptest.NewRequest("GET", "/api/v1/audit/export", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		if c.gone {
			srv.Handler().ServeHTTP(leaver{w}, r)
		} else {
			srv.Handler().ServeHTTP(w, r)
			require.Equal(t, "{}\n{}\n{}\n", w.Body.String())
		}
		require.Contains(t, log.String(), says)
		require.Equal(t, says == "", log.Len() == 0, log.String())
	}
}
