package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

// BreakerRequest forces a breaker: that of the upstream, of which closing closes all, or with both Account and Model the
// one of these, where the upstream has such.
type BreakerRequest struct {
	Action  string     `json:"action" enum:"open,close"`
	Until   *time.Time `json:"until,omitempty" doc:"of opening: when the first probe may go; without it as long as the upstream's open_for says"`
	Account string     `json:"account,omitempty"`
	Model   string     `json:"model,omitempty"`
}

// wish is what the request asks of the machine.
func (r *BreakerRequest) wish(now time.Time) (w actors.Switch, _ error) {
	w = actors.Switch{Open: r.Action == "open", Of: breaker.Key{Account: r.Account, Model: r.Model}}
	switch {
	case r.Account != "" && r.Model == "":
		return w, invalid("body.model", "is missing: breakers are those of one account and one model of it")
	case r.Account == "" && r.Model != "":
		return w, invalid("body.account", "is missing: breakers are those of one account and one model of it")
	case r.Until == nil:
		return w, nil
	case !w.Open:
		return w, invalid("body.until", "is for opening")
	}
	if err := ahead("body.until", *r.Until, now); err != nil {
		return w, err
	}
	w.Until = *r.Until
	return w, nil
}

type breakerInput struct {
	ID   string `path:"id"`
	Body BreakerRequest
}

type blockInput struct {
	ID   string `path:"id"`
	Body json.RawMessage
}

type statusOutput struct{ Body actors.UpstreamStatus }

type healthOutput struct {
	Status   int
	Instance string `header:"X-Penstock-Instance" doc:"names this gateway until it ends"`
	Body     HealthReport
}

func (s *Server) liveRoutes() {
	status := huma.Operation{OperationID: "upstreamStatus", Method: http.MethodGet, Path: "/api/v1/upstreams/{id}/status",
		Summary: "Slots, holders, waiters, breaker and accounts of one upstream", Tags: []string{"upstreams"}, Errors: []int{401, 404}}
	huma.Register(s.api, status, s.upstreamStatus)

	force := huma.Operation{OperationID: "forceBreaker", Method: http.MethodPost, Path: "/api/v1/upstreams/{id}/breaker",
		Summary: "Open or close the breaker of one upstream", Tags: []string{"upstreams"}, Errors: []int{401, 404, 422}}
	huma.Register(s.api, force, s.forceBreaker)

	until := &huma.Schema{Type: "object", Required: []string{"until"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{"until": {Type: "string", Format: "date-time", Nullable: true,
			Description: "null ends the block"}}}
	block := taking(huma.Operation{OperationID: "blockAccount", Method: http.MethodPost, Path: "/api/v1/accounts/{id}/block",
		Summary: "Take an account out of service until a time", Tags: []string{"accounts"}, Errors: []int{401, 404, 422},
		SkipValidateBody: true}, until)
	huma.Register(s.api, block, s.blockAccount)

	for i, path := range []string{"/health", "/healthz", "/api/health"} {
		health := huma.Operation{OperationID: "health", Method: http.MethodGet, Path: path, Summary: "Whether the gateway works",
			Tags: []string{"health"}, Errors: []int{503}, Security: []map[string][]string{}, Hidden: i > 0}
		huma.Register(s.api, health, s.health)
	}
}

func (s *Server) upstreamStatus(ctx context.Context, in *oneInput) (*statusOutput, error) {
	status, err := s.ports.Live.UpstreamStatus(ctx, in.ID)
	if err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	return &statusOutput{status}, nil
}

func (s *Server) forceBreaker(ctx context.Context, in *breakerInput) (*statusOutput, error) {
	w, err := in.Body.wish(time.Now())
	if err != nil {
		return nil, err
	}
	switch err := s.ports.Live.ForceBreaker(ctx, in.ID, w); {
	case errors.Is(err, actors.ErrNoOwnBreaker):
		return nil, invalid("body.account", "the upstream "+actors.ErrNoOwnBreaker.Error())
	case err != nil:
		return nil, s.problem(ctx, at("path.id"), err)
	}
	return s.upstreamStatus(ctx, &oneInput{in.ID})
}

func (s *Server) blockAccount(ctx context.Context, in *blockInput) (*struct{}, error) {
	until, err := blockUntil(in.Body, time.Now())
	if err != nil {
		return nil, err
	}
	if _, err := s.ports.Catalog.Get(ctx, catalog.KindAccount, in.ID); err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	return nil, s.problem(ctx, at("path.id"), s.ports.Live.BlockAccount(ctx, in.ID, until))
}

// blockUntil reads {"until": time}, {"until": null} or null; nil ends the block.
func blockUntil(body []byte, now time.Time) (*time.Time, error) {
	if string(body) == "null" {
		return nil, nil
	}
	f, err := parseFields(body)
	if err != nil {
		return nil, err
	}
	value, ok := f["until"]
	if !ok {
		return nil, invalid("body.until", "is missing; null ends the block")
	}
	for name := range f {
		if name != "until" {
			return nil, invalid("body."+name, "is unknown")
		}
	}
	var until *time.Time
	if err := json.Unmarshal(value, &until); err != nil {
		return nil, invalid("body.until", "must be a time such as 2026-01-02T15:04:05Z, or null")
	}
	if until == nil {
		return nil, nil
	}
	return until, ahead("body.until", *until, now)
}

// ahead refuses a deadline that has passed, and one that could be stored and never read again: in UTC its year may have a
// digit more than was written.
func ahead(location string, until, now time.Time) error {
	switch {
	case !until.After(now):
		return invalid(location, "is over")
	case until.UTC().Year() > catalog.YearMax:
		return invalid(location, fmt.Sprintf("is after the year %d", catalog.YearMax))
	}
	return nil
}

func (s *Server) health(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	report := s.ports.Health.Health(ctx)
	report.Projections = listed(report.Projections)
	status := http.StatusOK
	if report.Status == "unavailable" {
		status = http.StatusServiceUnavailable
	}
	return &healthOutput{status, s.instance, report}, nil
}
