package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/money"
)

// ErrQuery is wrapped by every refusal of a query; the text names the field.
var ErrQuery = errors.New("bad bill query")

// Dimensions are what a bill can be grouped by.
var Dimensions = []string{"day", "key", "user", "group", "model", "upstream", "account", "price_version"}

// Query selects and groups what was billed. The zero value is one line over everything.
type Query struct {
	By    []string  // Dimensions, in the order of the lines
	Since time.Time // by the time an attempt ended
	Until time.Time // exclusive
}

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
