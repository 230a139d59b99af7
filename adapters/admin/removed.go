package admin

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// Absent says that retention may have taken away some of what was asked for: facts of requests of closed days. What they came to
// is in the bill, they themselves are in the archive of their day, if there is one.
type Absent struct {
	FirstDay string          `json:"first_day" doc:"2006-01-02, of those days that were asked for"`
	LastDay  string          `json:"last_day"`
	Through  events.Position `json:"through" doc:"no fact behind this position was removed"`
}

// AbsentFrom is what retention has taken away of what a query asks for; nil: nothing. A request's id says of which day it is.
func AbsentFrom(ctx context.Context, store Events, q events.Query) (*Absent, error) {
	if f := (events.FeedFilter{Stream: q.Stream, Types: typesOf(q.Type)}); !f.Removable() {
		return nil, nil
	}
	since, until := q.Since, q.Until
	id := q.Request
	if of, is := strings.CutPrefix(q.Stream, events.RequestStreams); is {
		id = of
	}
	if at, known := request.TimeOf(id); known {
		since, until = at.Add(-time.Minute), at.Add(time.Minute) // of the first fact, at about
	}
	var r Absent
	var broken error
	err := events.EachRemoved(ctx, store, func(f *books.Removed, _ events.Position) {
		day, err := books.ParseDay(f.Day)
		if err != nil {
			broken = err
			return
		}
		past := q.After > 0 && (q.Newest && f.First >= int64(q.After) || !q.Newest && f.Through <= int64(q.After))
		if past || !until.IsZero() && !day.Before(until) || !since.IsZero() && !since.Before(day.AddDate(0, 0, 1)) {
			return
		}
		if r.FirstDay == "" || f.Day < r.FirstDay {
			r.FirstDay = f.Day
		}
		r.LastDay, r.Through = max(r.LastDay, f.Day), max(r.Through, events.Position(f.Through))
	})
	if err = errors.CombineErrors(err, broken); err != nil || r.FirstDay == "" {
		return nil, err
	}
	return &r, nil
}

func typesOf(one string) []string {
	if one == "" {
		return nil
	}
	return []string{one}
}
