package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/money"
)

// Reprice prices ended requests anew; actors.Repricer does, and its errors keep their meaning.
type Reprice interface {
	Preview(ctx context.Context, s actors.RepriceScope) (*actors.Repricing, error)
	Apply(ctx context.Context, run string, s actors.RepriceScope, expect actors.RepriceExpect) (*actors.Repricing, error)
}

// RepriceRequest says what is priced anew, and whether the difference is booked.
type RepriceRequest struct {
	Since    time.Time      `json:"since,omitzero" doc:"requests admitted since; absent: of all days that are not closed"`
	Until    time.Time      `json:"until,omitzero" doc:"exclusive"`
	Model    string         `json:"model,omitempty" doc:"name or glob, as it was resolved or asked for"`
	Upstream string         `json:"upstream,omitempty"`
	Key      string         `json:"key,omitempty"`
	Unpriced bool           `json:"unpriced_only,omitempty" doc:"attempts without a price only"`
	Apply    bool           `json:"apply,omitempty" doc:"book the difference; else it is only told"`
	Run      string         `json:"run,omitempty" maxLength:"100" doc:"id of the run; made when it is absent. To go on with one that was cut short, any id will do"`
	Expect   *RepriceExpect `json:"expect,omitempty" doc:"what the preview has shown: where it would be something else, nothing is booked (412)"`
}

// RepriceExpect is what a preview has shown.
type RepriceExpect struct {
	Prices             string `json:"prices,omitempty" doc:"of the preview"`
	Difference         string `json:"difference,omitempty" doc:"USD; to compare it, all is read once more"`
	UpstreamDifference string `json:"upstream_difference,omitempty" doc:"USD"`
}

type repriceInput struct{ Body RepriceRequest }
type repriceOutput struct{ Body *actors.Repricing }

func (s *Server) repriceRoutes(r Reprice) {
	if r == nil {
		return
	}
	op := huma.Operation{OperationID: "reprice", Method: http.MethodPost, Path: "/api/v1/reprice",
		Summary: "Compare what requests cost with the prices in force, and book the difference", Tags: []string{"billing"},
		Errors: []int{401, 409, 412, 422, 503}}
	huma.Register(s.api, op, func(ctx context.Context, in *repriceInput) (*repriceOutput, error) {
		out, err := reprice(ctx, r, &in.Body)
		if err != nil {
			return nil, s.problem(ctx, at("body"), err)
		}
		return &repriceOutput{out}, nil
	})
}

func reprice(ctx context.Context, r Reprice, in *RepriceRequest) (*actors.Repricing, error) {
	scope := actors.RepriceScope{Since: in.Since, Until: in.Until, Model: in.Model, Upstream: in.Upstream, Key: in.Key, Unpriced: in.Unpriced}
	if !in.Apply {
		if in.Expect != nil || in.Run != "" {
			return nil, fmt.Errorf("%w: apply: is false, so that there is nothing to expect and no run", actors.ErrScope)
		}
		return r.Preview(ctx, scope)
	}
	var expect actors.RepriceExpect
	if e := in.Expect; e != nil {
		expect.Prices = e.Prices
		for _, f := range []struct {
			name, text string
			into       **money.Amount
		}{{"difference", e.Difference, &expect.Cost}, {"upstream_difference", e.UpstreamDifference, &expect.UpstreamCost}} {
			if f.text == "" {
				continue
			}
			a, err := money.Parse(f.text)
			if err != nil {
				return nil, fmt.Errorf("%w: expect.%s: %q is not an amount of USD", actors.ErrScope, f.name, f.text)
			}
			*f.into = &a
		}
	}
	run := in.Run
	if run == "" {
		run = uuid.Must(uuid.NewV7()).String()
	}
	return r.Apply(ctx, run, scope, expect)
}
