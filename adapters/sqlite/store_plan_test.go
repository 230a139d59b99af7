package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

func TestASearchReadsBlocksAndRowsByTheirKeys(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "events.db"), StoreOptions{})
	require.NoError(t, err)
	defer s.Close()
	c := s.writer
	steps := func(q pageQuery) string { return strings.Join(plan(t, c, &q), "; ") }
	require.Equal(t, "SEARCH blocks USING PRIMARY KEY (block=? AND kind=? AND value=?)", steps(pageQuery{sql: selectBlock}))
	require.Equal(t, "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", steps(pageQuery{sql: selectTerms}))
	for what, f := range map[string]events.Query{
		"a key": {Key: "k"}, "an upstream": {Upstream: "u", Newest: true}, "a type": {Type: "request.settled"},
		"all of them": {Key: "k", Upstream: "u", Type: "t", Text: "x", Since: time.Unix(1, 0), Until: time.Unix(2, 0)},
	} {
		require.NotEmpty(t, f.Terms(), what)
		q := pageQuery{conn: c}
		q.find(f, 5, 5)
		require.Equal(t, "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", steps(q), what)
	}
}
