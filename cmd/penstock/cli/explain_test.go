package cli

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/requestlog"
)

// The golden file is what an operator reads.
func TestExplainTellsTheStory(t *testing.T) {
	d := newDesk(t)
	got := d.ok("explain", "r1")
	const golden = "testdata/explain.golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	require.NotContains(t, got, "\x1b", "what an upstream says does not drive the terminal")
	var story struct{ Events []struct{ Type string } }
	require.NoError(t, json.Unmarshal([]byte(d.ok("explain", "r1", "--json")), &story))
	require.Len(t, story.Events, 7)
}

func TestTheEndOfARequestIsToldWithoutWhatThereWasNot(t *testing.T) {
	require.Equal(t, "abandoned after 1s, ABANDONED NODE_DIED",
		saySettled(&request.Settled{Outcome: request.Abandoned, Code: "ABANDONED", Reason: "NODE_DIED", DurationUS: 1_000_000}), "nobody got a status")
	require.Equal(t, "rejected with 504 after 1s, QUEUE_WAIT_TIMEOUT at queue", saySettled(&request.Settled{
		Outcome: request.RejectedOut, Status: 504, Code: "QUEUE_WAIT_TIMEOUT", Reason: "QUEUE_WAIT_TIMEOUT", Stage: "queue", DurationUS: 1_000_000,
	}))
	require.Equal(t, "", logCells(&requestlog.Entry{Outcome: "abandoned"})[5])
}

// What retention has removed is not passed over in silence, whether the gateway runs or not.
func TestWhatRetentionHasRemovedIsSaidBesideWhatIsThere(t *testing.T) {
	const gone = "019ca945-0a00-7000-8000-000000000001" // of 2026-03-01T12:00:00Z
	origins(t, func(t *testing.T, d *desk) {
		row := events.Row{Stream: books.Stream, At: noon, Facts: []events.Fact{
			&books.Removed{Day: "2026-03-01", Span: books.Span{First: 1, Last: 3, Through: 5}},
		}}
		require.NoError(t, events.Encode(&row))
		d.place.rows = append(d.place.rows, events.Committed{Position: 1000, Row: row})
		code, stdout, stderr := d.run("events", "--json")
		require.Zero(t, code, stderr)
		require.NotContains(t, stdout, "retention")
		require.Contains(t, stderr, "retention has removed events of requests of 2026-03-01, up to position 5")
		code, _, stderr = d.run("events", "--type", "key.changed")
		require.Zero(t, code)
		require.Empty(t, stderr)
		require.Contains(t, d.fails(exitFailed, "explain", gone), "of 2026-03-01: removed by retention")
		require.Equal(t, "there is no request r99", d.fails(exitFailed, "explain", "r99"))
	})
}
