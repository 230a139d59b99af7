package sqlite

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

func TestAPageOfTheLogScansNoTable(t *testing.T) {
	ctx := context.Background()
	m, err := OpenReadModel(filepath.Join(t.TempDir(), "read.db"), requestlog.Projection{}, requestlog.Marker{})
	require.NoError(t, err)
	defer m.Close()
	line := make([]projections.Value, len(requestlog.Requests.Columns))
	for i, c := range requestlog.Requests.Columns {
		if line[i] = projections.Text("m"); c.Number() {
			line[i] = projections.Int(500)
		}
	}
	line[len(line)-1] = projections.Text("{}")
	var changes projections.Changes
	changes.Put(requestlog.Requests, line...)
	changes.Widen(requestlog.Spans, projections.Int(1), projections.Int(0), projections.Int(500), projections.Int(500), projections.Int(0), projections.Int(0))
	both := requestlog.Query{Key: "m", Model: "m"}
	for block := range int64(requestlog.MarksMax + 10) {
		for _, mark := range append(both.Marks(), both.AreaMarks()...) {
			changes.Append(requestlog.Marks, projections.Int(int64(mark.Kind)), projections.Text(mark.Value), projections.Int(block))
		}
	}
	require.NoError(t, m.Commit(ctx, &changes, nil))
	found, err := m.Request(ctx, "m")
	require.NoError(t, err)
	require.Nil(t, found, "its number is beyond those of the row")
	for sql := range m.pool.idle[0].stmts {
		if strings.Contains(sql, "request = ?") {
			require.Contains(t, plan(t, m.pool.idle[0], sql), "SEARCH requests USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)")
		}
	}
	spans := []string{"SEARCH request_spans USING INDEX request_spans_high_block_minute (high>? AND (high,block,minute)<(?,?,?))", "SCALAR SUBQUERY", "SEARCH requests"}
	listed := []string{"SCAN listed VIRTUAL TABLE", "SEARCH request_spans USING PRIMARY KEY (block=?)", "SCALAR SUBQUERY", "SEARCH requests", "USE TEMP B-TREE FOR ORDER BY"}
	mark := []string{"CORRELATED SCALAR SUBQUERY", "SEARCH request_marks USING PRIMARY KEY (kind=? AND value=? AND block=?)"}
	for _, c := range []struct {
		what  string
		q     requestlog.Query
		lines int
		spans []string // prefixes of steps
	}{
		{"newest", requestlog.Query{}, 1, spans},
		{"a range", requestlog.Query{Since: time.UnixMicro(1), Until: time.Unix(2, 0)}, 1, spans},
		{"behind a cursor", requestlog.Query{Before: requestlog.Cursor{At: time.Unix(1, 0), Position: 7}}, 1, spans},
		{"a frequent key", requestlog.Query{Key: "m"}, 1, slices.Concat(spans, mark, mark)},
		{"a frequent key and model", both, 1, slices.Concat(spans, mark, mark, mark, mark, mark)},
		{"a rare key", requestlog.Query{Key: "nobody"}, 0, listed},
	} {
		t.Run(c.what, func(t *testing.T) {
			page, err := m.Requests(ctx, c.q)
			require.NoError(t, err)
			require.Len(t, page, c.lines)
			r := m.pool.idle[0]
			for sql, s := range r.stmts {
				steps := plan(t, r, sql)
				switch {
				case strings.HasPrefix(sql, "SELECT high"):
					require.Len(t, steps, len(c.spans), steps)
					for i, step := range steps {
						require.True(t, strings.HasPrefix(step, c.spans[i]), steps)
					}
				case strings.HasPrefix(sql, selectRows(requestlog.Requests)):
					require.Contains(t, steps, "SEARCH requests USING INTEGER PRIMARY KEY (rowid=?)")
					require.Contains(t, steps, "SEARCH requests USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)")
				case strings.Contains(sql, requestlog.Marks.Name):
					for _, step := range steps {
						require.NotContains(t, step, "SCAN request_marks")
					}
				}
				require.NoError(t, s.Close())
				delete(r.stmts, sql)
			}
		})
	}
}
