package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// ReplayRequest names what to rebuild.
type ReplayRequest struct {
	Projection string `json:"projection,omitempty" doc:"empty: all of them"`
	Verify     bool   `json:"verify,omitempty" doc:"compare with the live rows and leave them alone"`
}

// ReplayAnswer has a report per projection.
type ReplayAnswer struct {
	Items []projections.Report `json:"items"`
}

// ReplayState is how far a replay is that runs.
type ReplayState struct {
	Projection  string          `json:"projection"`
	Kind        string          `json:"kind" enum:"rebuild,verify,until,reprice,books"`
	Part        string          `json:"part,omitempty" doc:"of it, such as a day of the books"`
	Unit        string          `json:"unit,omitempty" doc:"of what is counted, when that is not events"`
	From        events.Position `json:"from" doc:"where it began, or went on after an interruption; 0 is the start"`
	Position    events.Position `json:"position" doc:"folded and written"`
	To          events.Position `json:"to" doc:"where it ends; 0 while that is not known"`
	Begun       time.Time       `json:"begun"`
	PerSecond   int64           `json:"events_per_second"`
	SecondsLeft int64           `json:"seconds_left" doc:"at this rate; 0 while that is not known"`
}

// ReplayStates are the replays that run.
type ReplayStates struct {
	Items []ReplayState `json:"items"`
}

// Standing is what a projection told at a moment.
type Standing struct {
	Projection      string           `json:"projection"`
	Until           events.Position  `json:"until"`  // of the last fact that counts
	Events          int64            `json:"events"` // facts that were folded
	Rows            int64            `json:"rows"`
	Tables          map[string]int64 `json:"tables"` // rows by table
	Seconds         float64          `json:"seconds"`
	EventsPerSecond int64            `json:"events_per_second"`
	Lines           []billing.Line   `json:"lines,omitempty" doc:"of billing: sums by key and model"`
}

// Standings has a standing per projection.
type Standings struct {
	Items []Standing `json:"items"`
}

type replayInput struct{ Body ReplayRequest }

type pastInput struct {
	Projection string `query:"projection" doc:"empty: all of them"`
	Until      string `query:"until" required:"true" doc:"position or time: the books as they stood then"`
}

type replayOutput struct{ Body ReplayAnswer }
type replaysOutput struct{ Body ReplayStates }
type pastOutput struct{ Body Standings }

func (s *Server) replayRoutes(past Past, replays Replays) {
	op := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary,
			Tags: []string{"replay"}, Errors: []int{401, 404, 422, 503}}
	}
	huma.Register(s.api, op("replay", http.MethodPost, "/api/v1/replay", "Rebuild read models from events, or compare them"), s.replay)
	huma.Register(s.api, op("replays", http.MethodGet, "/api/v1/replay", "How far the replays are that run"),
		func(context.Context, *struct{}) (*replaysOutput, error) {
			return &replaysOutput{states(replays, time.Now())}, nil
		})
	if past == nil {
		return
	}
	huma.Register(s.api, op("replayUntil", http.MethodGet, "/api/v1/replay/until", "The books as they stood at a moment"),
		func(ctx context.Context, in *pastInput) (*pastOutput, error) { return s.until(ctx, past, in) })
}

func (s *Server) replay(ctx context.Context, in *replayInput) (*replayOutput, error) {
	reports, err := s.ports.Replay.Replay(ctx, in.Body.Projection, in.Body.Verify)
	if err != nil {
		return nil, s.problem(ctx, at("body.projection"), err)
	}
	return &replayOutput{ReplayAnswer{listed(reports)}}, nil
}

func states(replays Replays, now time.Time) ReplayStates {
	items := []ReplayState{}
	if replays == nil {
		return ReplayStates{items}
	}
	for _, r := range replays.Running() {
		items = append(items, ReplayState{
			Projection: r.Projection, Kind: r.Kind, Part: r.Part, Unit: r.Unit, From: r.From, Position: r.Position, To: r.To, Begun: r.Begun,
			PerSecond: int64(r.PerSecond(now)), SecondsLeft: int64(r.Left(now).Round(time.Second).Seconds()),
		})
	}
	return ReplayStates{items}
}

func (s *Server) until(ctx context.Context, past Past, in *pastInput) (*pastOutput, error) {
	var q billing.Query
	if err := q.ParseMoment("until", in.Until); err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	standings, err := past.Until(ctx, in.Projection, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &pastOutput{Standings{listed(standings)}}, nil
}
