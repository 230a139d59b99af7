package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/actors"
)

// freeWait is how long an answer waits for the end of the attempt that was cut.
const freeWait = 5 * time.Second

type leaseInput struct {
	ID      string `path:"id"`
	Request string `path:"request_id"`
	Attempt int    `query:"attempt" minimum:"1" doc:"the one that holds a slot, if it is not named"`
	Reason  string `query:"reason" maxLength:"200" doc:"shown beside the slot while its attempt ends"`
}

type leaseOutput struct{ Body actors.FreedLease }

func (s *Server) leaseRoutes() {
	huma.Register(s.api, huma.Operation{OperationID: "freeLease", Method: http.MethodDelete, Path: "/api/v1/upstreams/{id}/leases/{request_id}",
		Summary:     "Take the slot of one request back",
		Description: "Its attempt is cut, and the client told so, before the slot is free. The answer waits for that for up to five seconds.",
		Tags:        []string{"upstreams"}, Errors: []int{401, 404, 422}, DefaultStatus: http.StatusOK}, s.freeLease)
}

func (s *Server) freeLease(ctx context.Context, in *leaseInput) (*leaseOutput, error) {
	short, cancel := context.WithTimeout(ctx, freeWait)
	defer cancel()
	freed, err := s.ports.Live.FreeLease(short, in.ID, in.Request, in.Attempt, in.Reason)
	where := "path.id"
	if errors.Is(err, actors.ErrNoLease) {
		where, err = "path.request_id", errors.Mark(err, ErrNotFound)
	}
	if err != nil {
		return nil, s.problem(ctx, at(where), err)
	}
	return &leaseOutput{freed}, nil
}
