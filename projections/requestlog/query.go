package requestlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/events"
)

// Limits of a page.
const (
	LimitDefault = 100
	LimitMax     = 1000
)

// ErrQuery is wrapped by every refusal of a query; the text names the field.
var ErrQuery = errors.New("bad log query")

// Cursor is a place in the log, that of an entry: the page before it holds older ones. The zero value is the top.
type Cursor struct {
	At       time.Time
	Position events.Position
}

// IsZero says that the cursor is the top of the log.
func (c Cursor) IsZero() bool { return c.Position == 0 }

// Cursor is the place of the entry.
func (e *Entry) Cursor() Cursor { return Cursor{At: e.At, Position: e.Position} }

// String is the cursor as the API hands it out, "" for the top.
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d-%d", c.At.UnixMicro(), c.Position)
}

// ParseCursor reads what String wrote; the error wraps ErrQuery.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	var micros, position int64
	if n, err := fmt.Sscanf(s, "%d-%d", &micros, &position); err != nil || n != 2 || position < 1 {
		return Cursor{}, fmt.Errorf("%w: before: %q is no cursor of this log", ErrQuery, s)
	}
	c := Cursor{At: time.UnixMicro(micros).UTC(), Position: events.Position(position)}
	if c.String() != s {
		return Cursor{}, fmt.Errorf("%w: before: %q is no cursor of this log", ErrQuery, s)
	}
	return c, nil
}

// Query selects entries, newest first. Zero fields do not filter.
type Query struct {
	Limit    int // 0 = LimitDefault, at most LimitMax
	Since    time.Time
	Until    time.Time // exclusive
	Key      string
	Outcome  string
	Model    string // as asked or as resolved
	Upstream string // of the last attempt
	Before   Cursor // entries older than this one
}

// Check refuses a query that can not be meant, and sets the default limit. The error wraps ErrQuery.
func (q *Query) Check() error {
	if q.Limit == 0 {
		q.Limit = LimitDefault
	}
	if q.Limit < 0 || q.Limit > LimitMax {
		return fmt.Errorf("%w: limit: %d is not between 1 and %d", ErrQuery, q.Limit, LimitMax)
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return fmt.Errorf("%w: until: is not after since", ErrQuery)
	}
	switch q.Outcome {
	case "", "completed", "failed", "rejected", "cancelled", "abandoned":
		return nil
	}
	return fmt.Errorf("%w: outcome: %q is not one of completed, failed, rejected, cancelled, abandoned", ErrQuery, q.Outcome)
}

// Reader answers queries over the log. Every read model of this projection is one.
type Reader interface {
	// Requests are the entries that match, newest first. The Cursor of the last one is the Before of the next page.
	Requests(ctx context.Context, q Query) ([]Entry, error)
	// Request is one entry, nil when there is none of this id.
	Request(ctx context.Context, id string) (*Entry, error)
}
