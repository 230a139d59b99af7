package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/request"
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
	Items   []Event         `json:"items"`
	Next    events.Position `json:"next"`
	Removed *Absent         `json:"removed,omitempty" doc:"what retention may have taken away of this page and of those that follow"`
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
	explain := get("explainRequest", "/api/v1/requests/{id}", "The whole story of one request")
	explain.Errors = append(explain.Errors, http.StatusGone)
	huma.Register(s.api, explain, s.explain)
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
	page := LogPage{Items: listed(found)}
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

// Explain gathers the story of one request. It wraps ErrNotFound when there is neither a line nor a fact of it, ErrRemoved when
// there may have been some.
func Explain(ctx context.Context, log requestlog.Reader, store Events, id string) (*Story, error) {
	entry, err := log.Request(ctx, id)
	if err != nil {
		return nil, errors.Wrapf(err, "read request %s", id)
	}
	facts, _, err := FindEvents(ctx, store, events.Query{Stream: events.RequestStreams + id})
	if err != nil {
		return nil, err
	}
	story := &Story{Request: entry, Events: facts}
	if len(facts) > 0 {
		return story, nil
	}
	if story.Removed, err = AbsentFrom(ctx, store, events.Query{Stream: events.RequestStreams + id}); err != nil || entry != nil {
		return story, err
	}
	if _, dated := request.TimeOf(id); dated && story.Removed != nil {
		return nil, errors.Wrapf(ErrRemoved, "request %s of %s", id, story.Removed.FirstDay)
	}
	return nil, errors.Wrapf(ErrNotFound, "request %s", id)
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
	q := events.Query{
		Text: in.Text, Stream: in.Stream, Request: in.Request, Key: in.Key, Upstream: in.Upstream, Type: in.Type,
		Since: in.Since, Until: in.Until, After: events.Position(in.After), Newest: in.Newest, Limit: limit,
	}
	found, next, err := FindEvents(ctx, s.ports.Events, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	removed, err := AbsentFrom(ctx, s.ports.Events, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &eventOutput{EventPage{Items: found, Next: next, Removed: removed}}, nil
}

// ordered refuses a span that ends before it begins, as the queries of read models do.
func ordered(since, until time.Time) error {
	if !since.IsZero() && !until.IsZero() && !until.After(since) {
		return invalid("query.until", "is not after since")
	}
	return nil
}
