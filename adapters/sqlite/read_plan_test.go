package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/projections/requestlog"
)

func TestMarksAreFoundByTheirKey(t *testing.T) {
	m, err := OpenReadModel(filepath.Join(t.TempDir(), "read.db"), requestlog.Projection{}, requestlog.Marker{})
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Requests(context.Background(), requestlog.Query{Outcome: "failed", Upstream: "u", Model: "m"})
	require.NoError(t, err)
	searches := 0
	for sql := range m.pool.idle[0].stmts {
		if strings.Contains(sql, requestlog.Marks.Name) {
			for _, step := range plan(t, m.pool.idle[0], &pageQuery{sql: sql}) {
				if strings.Contains(step, requestlog.Marks.Name) {
					searches++
					require.Contains(t, step, "SEARCH request_marks USING PRIMARY KEY (kind=? AND value=?")
				}
			}
		}
	}
	require.Equal(t, 7, searches, "six marks, and the unsure blocks")
}

func TestAPageOfTheLogNeverScansOrSortsTheTable(t *testing.T) {
	for _, c := range []struct {
		what string
		q    requestlog.Query
		step string
	}{
		{"newest", requestlog.Query{}, "SCAN requests USING INDEX requests_at_"},
		{"a key", requestlog.Query{Key: "k"}, "SEARCH requests USING INDEX requests_key_at (key=?)"},
		{"a key lately", requestlog.Query{Key: "k", Since: time.Now()}, "SEARCH requests USING INDEX requests_key_at (key=? AND at>?)"},
		{"an outcome", requestlog.Query{Outcome: "failed"}, "SCAN requests USING INDEX requests_at_"},
		{"a range", requestlog.Query{Since: time.Unix(1, 0), Until: time.Unix(2, 0)}, "SEARCH requests USING INDEX requests_at_"},
	} {
		t.Run(c.what, func(t *testing.T) {
			m, err := OpenReadModel(filepath.Join(t.TempDir(), "read.db"), requestlog.Projection{})
			require.NoError(t, err)
			defer m.Close()
			_, err = m.Requests(context.Background(), c.q)
			require.NoError(t, err)
			r := m.pool.idle[0]
			for sql := range r.stmts {
				if strings.HasPrefix(sql, selectRows(requestlog.Requests)) {
					steps := plan(t, r, &pageQuery{sql: sql})
					require.Contains(t, steps[0], c.step)
					for _, more := range steps[1:] { // entries of the same microsecond are put in order
						require.Equal(t, "USE TEMP B-TREE FOR LAST TERM OF ORDER BY", more)
					}
				}
			}
		})
	}
}
