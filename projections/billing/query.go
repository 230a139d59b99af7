package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/events"
)

// ErrQuery is wrapped by every refusal of a query; the text names the field.
var ErrQuery = errors.New("bad bill query")

// Dimensions are what a bill can be grouped by.
var Dimensions = []string{"day", "key", "user", "group", "model", "upstream", "account", "price_version", "price_origin", "paid_by"}

// Query selects and groups what was billed. The zero value is one line over everything.
type Query struct {
	By    []string  // Dimensions, in the order of the lines
	Since time.Time // by the time an attempt ended
	Until time.Time // exclusive

	// The books as they stood: only facts up to the position count, or, when that is 0, those that were there at the time.
	// Readers pass over both: who asks them gives them a read model of that moment.
	AsOf     events.Position
	AsOfTime time.Time
}

// ParseAsOf reads a position or a time in RFC 3339 into the query; "" is now.
func (q *Query) ParseAsOf(text string) error {
	if text == "" {
		return nil
	}
	return q.ParseMoment("as_of", text)
}

// ParseMoment is ParseAsOf of a field of another name, which must not be empty.
func (q *Query) ParseMoment(field, text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		q.AsOf = events.Position(n)
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.IsZero() {
		return fmt.Errorf("%w: %s: %q is neither a position nor a time", ErrQuery, field, text)
	}
	q.AsOfTime = t
	return nil
}

// Stood says that the query asks for the books of an earlier moment.
func (q *Query) Stood() bool { return q.AsOf > 0 || !q.AsOfTime.IsZero() }

// Check refuses a query that can not be answered. The error wraps ErrQuery.
func (q *Query) Check() error {
	for i, by := range q.By {
		if !slices.Contains(Dimensions, by) {
			return fmt.Errorf("%w: by: %q is not one of %s", ErrQuery, by, strings.Join(Dimensions, ", "))
		}
		if slices.Contains(q.By[:i], by) {
			return fmt.Errorf("%w: by: %q is named twice", ErrQuery, by)
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return fmt.Errorf("%w: until: is not after since", ErrQuery)
	}
	return nil
}

// Reader answers queries over what was billed. Every read model of this projection is one.
type Reader interface {
	// Bill sums what matches, ordered by the fields it is grouped by. Without groups it is exactly one line.
	Bill(ctx context.Context, q Query) ([]Line, error)
	// BilledTotal is the cost of all entries.
	BilledTotal(ctx context.Context) (money.Amount, error)
}
