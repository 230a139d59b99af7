package admin

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/actors"
)

// KeyLimits tells what a key has used of its limits. An unknown id wraps ErrNotFound.
type KeyLimits interface {
	KeyStatus(ctx context.Context, id string) (actors.KeyStatus, error)
}

type keyStatusOutput struct{ Body actors.KeyStatus }

func (s *Server) keyStatusRoute(k KeyLimits) {
	if k == nil {
		return
	}
	huma.Register(s.api, huma.Operation{OperationID: "keyStatus", Method: http.MethodGet, Path: "/api/v1/keys/{id}/status",
		Summary: "What a key has used of its limits, and when they open again", Tags: []string{"keys"}, Errors: []int{401, 404}},
		func(ctx context.Context, in *oneInput) (*keyStatusOutput, error) {
			status, err := k.KeyStatus(ctx, in.ID)
			if err != nil {
				return nil, s.problem(ctx, at("path.id"), err)
			}
			return &keyStatusOutput{status}, nil
		})
}
