package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	Removed *Absent           `json:"removed,omitempty"` // by retention: the facts, or some of them
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

// searchSpan is how many positions one page of a search for a text looks at, at most: no index helps there.
const searchSpan = 50_000

// textMax bounds the text of a search, in bytes.
const textMax = 200

// CheckText refuses a text that no stored fact can hold.
func CheckText(text string) error {
	switch {
	case len(text) > textMax:
		return errors.Newf("must have at most %d bytes", textMax)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("must be UTF-8 without control characters")
	}
	return nil
}

// FindEvents reads the facts of the rows that match; of those that were asked for by type or by a text, only these. next
// is where the following page begins, 0 when there is none. A search for a text looks at a bounded number of rows: its
// page may be short, or empty, and have a next one all the same.
func FindEvents(ctx context.Context, store Events, q events.Query) (found []Event, next events.Position, err error) {
	if q.Text == "" {
		return findEvents(ctx, store, q)
	}
	first := q // what the other filters find first is where the search begins
	first.Text, first.Limit = "", 1
	begin := events.Position(0)
	err = store.Find(ctx, first, func(row *events.Committed) bool {
		begin = row.Position
		return false
	})
	if err != nil || begin == 0 {
		return []Event{}, 0, errors.Wrap(err, "read events")
	}
	if q.Through = begin + searchSpan - 1; q.Newest {
		q.Through = max(1, begin-searchSpan+1)
	}
	found, next, err = findEvents(ctx, store, q)
	if err != nil || next > 0 || q.Newest && q.Through == 1 {
		return found, next, err
	}
	first.After = q.Through // a cursor behind the last row would pass over what comes next
	err = store.Find(ctx, first, func(*events.Committed) bool {
		next = q.Through
		return false
	})
	return found, next, errors.Wrap(err, "read events")
}

func findEvents(ctx context.Context, store Events, q events.Query) (found []Event, next events.Position, err error) {
	found = []Event{}
	rows := 0
	var last events.Position
	var broken error
	err = store.Find(ctx, q, func(row *events.Committed) bool {
		var all []Event
		if all, broken = eventsOf(row); broken != nil {
			return false
		}
		rows, last = rows+1, row.Last()
		if q.Newest {
			last = row.Position
			slices.Reverse(all)
		}
		for _, e := range all {
			if (q.Type == "" || e.Type == q.Type) && (q.Text == "" || bytes.Contains(e.Data, []byte(q.Text))) {
				found = append(found, e)
			}
		}
		return true
	})
	if err = errors.CombineErrors(err, broken); err != nil {
		return nil, 0, errors.Wrap(err, "read events")
	}
	if q.Limit > 0 && rows == q.Limit {
		next = last
	}
	return found, next, nil
}
