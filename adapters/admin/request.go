package admin

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/requestlog"
)

// LogPage is part of the request log, newest first. Next is the "before" of the following page, "" on the last one.
type LogPage struct {
	Items []requestlog.Entry `json:"items"`
	Next  string             `json:"next"`
}

// EventPage is part of the event store. Next is the "after" of the following page, 0 on the last one.
type EventPage struct {
	Items []Event         `json:"items"`
	Next  events.Position `json:"next"`
}

type logInput struct {
	Limit    int       `query:"limit" doc:"1 to 1000, default 100"`
	Before   string    `query:"before" doc:"the next of the page before"`
	Since    time.Time `query:"since"`
	Until    time.Time `query:"until" doc:"exclusive"`
	Key      string    `query:"key"`
	Outcome  string    `query:"outcome"`
	Model    string    `query:"model"`
	Upstream string    `query:"upstream"`
}

type eventInput struct {
	Limit    int       `query:"limit" doc:"1 to 1000 rows, default 100; the facts of one row stay together"`
	After    int64     `query:"after" minimum:"0" doc:"position; with newest: before it"`
	Newest   bool      `query:"newest" doc:"newest first"`
	Since    time.Time `query:"since"`
	Until    time.Time `query:"until" doc:"exclusive"`
	Type     string    `query:"type"`
	Text     string    `query:"text" doc:"part of the JSON of a fact; a page may be short, or empty, and have a next one"`
	Stream   string    `query:"stream"`
	Request  string    `query:"request"`
	Key      string    `query:"key"`
	Upstream string    `query:"upstream"`
}

type logOutput struct{ Body LogPage }
type storyOutput struct{ Body Story }
type eventOutput struct{ Body EventPage }

func (s *Server) requestRoutes() {
	get := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary,
			Tags: []string{"requests"}, Errors: []int{401, 404, 422}}
	}
	huma.Register(s.api, get("listRequests", "/api/v1/requests", "The request log, newest first"), s.logs)
	huma.Register(s.api, get("explainRequest", "/api/v1/requests/{id}", "The whole story of one request"), s.explain)
	huma.Register(s.api, get("listEvents", "/api/v1/events", "Facts of the event store"), s.events)
}

func (s *Server) logs(ctx context.Context, in *logInput) (*logOutput, error) {
	before, err := requestlog.ParseCursor(in.Before)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	q := requestlog.Query{Limit: in.Limit, Since: in.Since, Until: in.Until, Key: in.Key, Outcome: in.Outcome,
		Model: in.Model, Upstream: in.Upstream, Before: before}
	if err := q.Check(); err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	found, err := s.ports.Log.Requests(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	page := LogPage{Items: found}
	if found == nil {
		page.Items = []requestlog.Entry{}
	}
	if len(found) == q.Limit {
		page.Next = found[len(found)-1].Cursor().String()
	}
	return &logOutput{page}, nil
}

func (s *Server) explain(ctx context.Context, in *oneInput) (*storyOutput, error) {
	story, err := Explain(ctx, s.ports.Log, s.ports.Events, in.ID)
	if err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	return &storyOutput{*story}, nil
}

// Explain gathers the story of one request. It wraps ErrNotFound when there is neither a line nor a fact of it.
func Explain(ctx context.Context, log requestlog.Reader, store Events, id string) (*Story, error) {
	entry, err := log.Request(ctx, id)
	if err != nil {
		return nil, errors.Wrapf(err, "read request %s", id)
	}
	facts, _, err := FindEvents(ctx, store, events.Query{Stream: "request/" + id})
	if err != nil {
		return nil, err
	}
	if entry == nil && len(facts) == 0 {
		return nil, errors.Wrapf(ErrNotFound, "request %s", id)
	}
	return &Story{Request: entry, Events: facts}, nil
}

func (s *Server) events(ctx context.Context, in *eventInput) (*eventOutput, error) {
	limit := in.Limit
	switch {
	case limit == 0:
		limit = listDefault
	case limit < 0 || limit > listMax:
		return nil, invalid("query.limit", "must be 1 to 1000")
	}
	if in.Type != "" && !slices.Contains(events.Names(), in.Type) {
		return nil, invalid("query.type", "there is no event of this type")
	}
	if err := CheckText(in.Text); err != nil {
		return nil, invalid("query.text", err.Error())
	}
	if err := ordered(in.Since, in.Until); err != nil {
		return nil, err
	}
	found, next, err := FindEvents(ctx, s.ports.Events, events.Query{
		Text: in.Text, Stream: in.Stream, Request: in.Request, Key: in.Key, Upstream: in.Upstream, Type: in.Type,
		Since: in.Since, Until: in.Until, After: events.Position(in.After), Newest: in.Newest, Limit: limit,
	})
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &eventOutput{EventPage{Items: found, Next: next}}, nil
}

// ordered refuses a span that ends before it begins, as the queries of read models do.
func ordered(since, until time.Time) error {
	if !since.IsZero() && !until.IsZero() && !until.After(since) {
		return invalid("query.until", "is not after since")
	}
	return nil
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
