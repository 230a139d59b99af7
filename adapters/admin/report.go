package admin

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/stats"
)

// Bill is the answer to a question about money.
type Bill struct {
	Items []billing.Line `json:"items"`
}

// Series is the statistics by hour.
type Series struct {
	Items []stats.Bucket `json:"items"`
}

// Board is a leaderboard.
type Board struct {
	Items []stats.Rank `json:"items"`
}

type billInput struct {
	By    []string  `query:"by" doc:"day, key, user, group, model, upstream, account, price_version, price_origin, paid_by; separated by commas"`
	Since time.Time `query:"since"`
	Until time.Time `query:"until" doc:"exclusive"`
	AsOf  string    `query:"as_of" doc:"position or time: the books as they stood then"`
}

// StatsInput is what statistics are filtered by. It is exported because fields of others are not found in an input.
type StatsInput struct {
	Since    time.Time `query:"since"`
	Until    time.Time `query:"until" doc:"exclusive"`
	Key      string    `query:"key"`
	Model    string    `query:"model"`
	Upstream string    `query:"upstream"`
}

type boardInput struct {
	StatsInput
	By    string `query:"by" doc:"model, upstream or key"`
	Order string `query:"order" doc:"requests, errors, cost or tokens"`
	Limit int    `query:"limit"`
}

type billOutput struct{ Body Bill }
type overviewOutput struct{ Body stats.Overview }
type seriesOutput struct{ Body Series }
type boardOutput struct{ Body Board }

func (in *StatsInput) query() stats.Query {
	return stats.Query{Since: in.Since, Until: in.Until, Key: in.Key, Model: in.Model, Upstream: in.Upstream}
}

func (s *Server) reportRoutes() {
	op := func(id, method, path, tag, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary,
			Tags: []string{tag}, Errors: []int{401, 404, 422}}
	}
	huma.Register(s.api, op("bill", http.MethodGet, "/api/v1/billing", "billing", "Sums of what was billed"), s.bill)
	huma.Register(s.api, op("statsOverview", http.MethodGet, "/api/v1/stats/overview", "stats", "Everything in one line"), s.overview)
	huma.Register(s.api, op("statsTimeseries", http.MethodGet, "/api/v1/stats/timeseries", "stats", "By hour"), s.timeseries)
	huma.Register(s.api, op("statsLeaderboard", http.MethodGet, "/api/v1/stats/leaderboard", "stats", "By model, upstream or key"), s.leaderboard)
}

func (s *Server) bill(ctx context.Context, in *billInput) (*billOutput, error) {
	q := billing.Query{By: in.By, Since: in.Since, Until: in.Until}
	if err := cmp.Or(q.Check(), q.ParseAsOf(in.AsOf)); err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	lines, err := s.ports.Billing.Bill(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &billOutput{Bill{listed(lines)}}, nil
}

func (s *Server) overview(ctx context.Context, in *StatsInput) (*overviewOutput, error) {
	q := in.query()
	if err := q.Check(); err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	sums, err := s.ports.Stats.Overview(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &overviewOutput{sums}, nil
}

func (s *Server) timeseries(ctx context.Context, in *StatsInput) (*seriesOutput, error) {
	q := in.query()
	if err := q.Check(); err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	buckets, err := s.ports.Stats.Timeseries(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &seriesOutput{Series{listed(buckets)}}, nil
}

func (s *Server) leaderboard(ctx context.Context, in *boardInput) (*boardOutput, error) {
	q := in.query()
	q.By, q.Order, q.Limit = in.By, in.Order, in.Limit
	if err := q.Check(); err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	ranks, err := s.ports.Stats.Leaderboard(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	return &boardOutput{Board{listed(ranks)}}, nil
}

// listed makes an empty list of none, for JSON.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
