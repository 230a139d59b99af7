package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/requestlog"
)

// idAt is the id of a request that came then.
func idAt(t *testing.T, at time.Time) string {
	t.Helper()
	id, err := uuid.NewV7()
	require.NoError(t, err)
	for i, ms := 0, at.UnixMilli(); i < 6; i++ {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id.String()
}

type emptyLog struct{ requestlog.Reader }

func (emptyLog) Request(context.Context, string) (*requestlog.Entry, error) { return nil, nil }

// Who asks for what retention has taken away is told; who asks for what lies beside it is not bothered.
func TestAnAnswerThatLacksWhatWasRemovedSaysSo(t *testing.T) {
	ctx, store := context.Background(), memory.NewStore()
	march := func(day, hour int) time.Time { return time.Date(2026, 3, day, hour, 0, 0, 0, time.UTC) }
	kept := idAt(t, march(2, 9))
	for version, f := range []events.Fact{
		&books.Removed{Day: "2026-03-01", Span: books.Span{First: 1, Last: 30, Through: 40}},
		&books.Removed{Day: "2026-03-02", Span: books.Span{First: 31, Last: 60, Through: 66}},
		&request.Rejected{Code: "X"},
	} {
		row := events.Row{Stream: books.Stream, Version: int64(version), At: march(9, 1), Facts: []events.Fact{f}}
		if version == 2 {
			row.Stream, row.Request, row.Version, row.Terminal = events.RequestStreams+kept, kept, 0, true
		}
		require.NoError(t, events.Encode(&row))
		_, err := store.Append(ctx, []events.Append{{Rows: []events.Row{row}}}, 1)
		require.NoError(t, err)
	}
	both := &admin.Absent{FirstDay: "2026-03-01", LastDay: "2026-03-02", Through: 66}
	first := &admin.Absent{FirstDay: "2026-03-01", LastDay: "2026-03-01", Through: 40}
	second := &admin.Absent{FirstDay: "2026-03-02", LastDay: "2026-03-02", Through: 66}
	for name, c := range map[string]struct {
		q    events.Query
		want *admin.Absent
	}{
		"all":                     {events.Query{}, both},
		"facts of requests":       {events.Query{Type: "request.settled"}, both},
		"attempts":                {events.Query{Type: "attempt.failed", Key: "k"}, both},
		"the catalogue":           {events.Query{Type: "key.changed"}, nil},
		"another stream":          {events.Query{Stream: "catalog/key/k"}, nil},
		"since the second day":    {events.Query{Since: march(2, 0)}, second},
		"within the second day":   {events.Query{Since: march(2, 23)}, second},
		"since the third day":     {events.Query{Since: march(3, 0)}, nil},
		"until the first ends":    {events.Query{Until: march(2, 0)}, first},
		"before the first":        {events.Query{Until: march(1, 0)}, nil},
		"behind the first":        {events.Query{After: 40}, second},
		"behind both":             {events.Query{After: 66}, nil},
		"newest, to the first":    {events.Query{Newest: true, After: 31}, first},
		"newest, from the end":    {events.Query{Newest: true}, both},
		"a request of the first":  {events.Query{Request: idAt(t, march(1, 12))}, first},
		"its stream":              {events.Query{Stream: events.RequestStreams + idAt(t, march(1, 12))}, first},
		"one around midnight":     {events.Query{Request: idAt(t, march(2, 0))}, both},
		"one of another day":      {events.Query{Request: idAt(t, march(3, 12))}, nil},
		"one that says no moment": {events.Query{Request: "r1"}, both},
	} {
		have, err := admin.AbsentFrom(ctx, store, c.q)
		require.NoError(t, err, name)
		require.Equal(t, c.want, have, name)
	}
	_, err := admin.Explain(ctx, emptyLog{}, store, idAt(t, march(1, 12)))
	require.ErrorIs(t, err, admin.ErrRemoved)
	require.Contains(t, err.Error(), "2026-03-01")
	for _, id := range []string{idAt(t, march(3, 12)), "r1", strings.Repeat("0", 64)} {
		_, err = admin.Explain(ctx, emptyLog{}, store, id)
		require.ErrorIs(t, err, admin.ErrNotFound, id)
	}
	story, err := admin.Explain(ctx, emptyLog{}, store, kept)
	require.NoError(t, err)
	require.Len(t, story.Events, 1)
	require.Nil(t, story.Removed, "what is there is the whole story")
}
