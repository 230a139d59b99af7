package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// Webhooks tells how deliveries fare. Unknown ids wrap ErrNotFound.
type Webhooks interface {
	WebhookStatus(ctx context.Context, id string) (WebhookStatus, error)
}

// WebhookStatus is how one webhook fares, counted since the gateway runs.
type WebhookStatus struct {
	ID           string          `json:"id"`
	Active       bool            `json:"active"`
	Position     events.Position `json:"position" doc:"everything up to it was delivered, given up or not asked for"`
	Lag          int64           `json:"lag" doc:"positions behind the store, whether they are asked for or not"`
	Delivered    int64           `json:"delivered" doc:"lines"`
	GivenUp      int64           `json:"given_up" doc:"lines"`
	Missed       events.Position `json:"missed_through" doc:"up to it events were removed by retention before they were delivered; 0: none were"`
	FailingSince *time.Time      `json:"failing_since" doc:"null: it does not fail"`
	LastError    string          `json:"last_error"`
}

type webhookStatusOutput struct{ Body WebhookStatus }

func (s *Server) webhookRoutes(w Webhooks) {
	if w == nil {
		return
	}
	huma.Register(s.api, huma.Operation{OperationID: "webhookStatus", Method: http.MethodGet, Path: "/api/v1/webhooks/{id}/status",
		Summary: "How deliveries to one webhook fare", Tags: []string{"webhooks"}, Errors: []int{401, 404}},
		func(ctx context.Context, in *oneInput) (*webhookStatusOutput, error) {
			if _, err := s.ports.Catalog.Get(ctx, catalog.KindWebhook, in.ID); err != nil {
				return nil, s.problem(ctx, at("path.id"), err)
			}
			status, err := w.WebhookStatus(ctx, in.ID)
			if err != nil {
				return nil, s.problem(ctx, at("path.id"), err)
			}
			return &webhookStatusOutput{status}, nil
		})
}
