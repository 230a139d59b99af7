package admin

import (
	"encoding/json"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/requestlog"
)

// Event is one fact as an auditor reads it.
type Event struct {
	Position events.Position `json:"position"`
	Stream   string          `json:"stream"`
	Version  int64           `json:"version"` // of the stream with this fact, from 1
	Type     string          `json:"type"`
	Schema   int             `json:"schema"`
	At       time.Time       `json:"at"`
	Node     string          `json:"node"`
	Data     json.RawMessage `json:"data"`
}

// Story is everything that is known of one request: its line of the log and its facts in order.
type Story struct {
	Request *requestlog.Entry `json:"request"` // null when the log has not seen it yet
	Events  []Event           `json:"events"`
}

// eventsOf takes a stored row apart into its facts.
func eventsOf(row *events.Committed) ([]Event, error) {
	var objects []json.RawMessage
	if err := json.Unmarshal(row.Payload, &objects); err != nil {
		return nil, errors.Wrapf(err, "read event at position %d", row.Position)
	}
	all := make([]Event, 0, len(objects))
	for name, schema := range events.EachType(row.Types) {
		i := len(all)
		if i == len(objects) {
			break
		}
		all = append(all, Event{
			Position: row.Position + events.Position(i), Stream: row.Stream, Version: row.Version + int64(i) + 1,
			Type: name, Schema: schema, At: row.At.UTC(), Node: row.Node, Data: objects[i],
		})
	}
	if len(all) != len(objects) {
		return nil, errors.Newf("event at position %d: %d facts, types %q", row.Position, len(objects), row.Types)
	}
	return all, nil
}
