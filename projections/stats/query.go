package stats

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
var ErrQuery = errors.New("bad stats query")

// Figures are the sums of some hours. Averages are over requests that ended with 2xx, null when there was none.
type Figures struct {
	Requests       int64        `json:"requests"` // ended ones, rejected ones too
	Errors         int64        `json:"errors"`   // failed, rejected and abandoned ones
	Completed      int64        `json:"completed"`
	Failed         int64        `json:"failed"`
	Rejected       int64        `json:"rejected"`
	Cancelled      int64        `json:"cancelled"`
	Abandoned      int64        `json:"abandoned"`
	Attempts       int64        `json:"attempts"`
	FailedAttempts int64        `json:"failed_attempts"`
	InputTokens    int64        `json:"input_tokens"` // fresh, cached and cache writes
	OutputTokens   int64        `json:"output_tokens"`
	Cost           money.Amount `json:"cost"`
	TTFTMS         *float64     `json:"ttft_ms"`
	DurationMS     *float64     `json:"duration_ms"`
}

// Bucket is one hour.
type Bucket struct {
	At time.Time `json:"at"` // its start, UTC
	Figures
}

// Rank is one line of a leaderboard.
type Rank struct {
	Name string `json:"name"` // "" gathers what has none: for upstreams, requests that were never sent
	Figures
}

// Overview is everything in the range.
type Overview struct {
	Since *time.Time `json:"since"` // null = from the beginning
	Until *time.Time `json:"until"`
	Figures
}

// NewOverview is an empty one over the range of a query.
func NewOverview(q *Query) Overview {
	var o Overview
	if !q.Since.IsZero() {
		o.Since = &q.Since
	}
	if !q.Until.IsZero() {
		o.Until = &q.Until
	}
	return o
}

// By is what a leaderboard in this order sorts by.
func (f *Figures) By(order string) int64 {
	switch order {
	case "errors":
		return f.Errors
	case "cost":
		return int64(f.Cost)
	case "tokens":
		return f.InputTokens + f.OutputTokens
	}
	return f.Requests
}

// Dimensions are what a leaderboard can be about; Orders what it can be sorted by.
var (
	Dimensions = []string{"model", "upstream", "key"}
	Orders     = []string{"requests", "errors", "cost", "tokens"}
)

// Limits of a leaderboard.
const (
	LimitDefault = 20
	LimitMax     = 1000
)

// Query selects hours: a border inside an hour is moved outwards to its edges. Zero fields do not filter.
type Query struct {
	Since    time.Time
	Until    time.Time // exclusive
	Key      string
	Model    string
	Upstream string

	By    string // leaderboard: one of Dimensions, "" = model
	Order string // leaderboard: one of Orders, largest first; "" = requests
	Limit int    // leaderboard: 0 = LimitDefault, at most LimitMax
}

// Check refuses a query that can not be meant, sets the defaults and moves the borders. The error wraps ErrQuery.
func (q *Query) Check() error {
	q.By, q.Order = orElse(q.By, "model"), orElse(q.Order, "requests")
	if !slices.Contains(Dimensions, q.By) {
		return fmt.Errorf("%w: by: %q is not one of %s", ErrQuery, q.By, strings.Join(Dimensions, ", "))
	}
	if !slices.Contains(Orders, q.Order) {
		return fmt.Errorf("%w: order: %q is not one of %s", ErrQuery, q.Order, strings.Join(Orders, ", "))
	}
	if q.Limit == 0 {
		q.Limit = LimitDefault
	}
	if q.Limit < 0 || q.Limit > LimitMax {
		return fmt.Errorf("%w: limit: %d is not between 1 and %d", ErrQuery, q.Limit, LimitMax)
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return fmt.Errorf("%w: until: is not after since", ErrQuery)
	}
	if !q.Since.IsZero() {
		q.Since = q.Since.UTC().Truncate(time.Hour)
	}
	if !q.Until.IsZero() {
		q.Until = q.Until.UTC().Add(time.Hour - time.Microsecond).Truncate(time.Hour)
	}
	return nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Reader answers queries over the statistics. Every read model of this projection is one.
type Reader interface {
	Overview(ctx context.Context, q Query) (Overview, error)
	// Timeseries has one bucket per hour in which something happened, oldest first.
	Timeseries(ctx context.Context, q Query) ([]Bucket, error)
	Leaderboard(ctx context.Context, q Query) ([]Rank, error)
}
