package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// ApplyRequest is a list of resource documents: each has "kind" and the fields of that kind.
type ApplyRequest struct {
	Resources []json.RawMessage `json:"resources" doc:"resource documents, each with its kind"`
	DryRun    bool              `json:"dry_run,omitempty" doc:"decide and answer, store nothing"`
	Prune     bool              `json:"prune,omitempty" doc:"remove every resource that the list does not name"`
}

// ApplyAnswer says what became of each document, in order, and then what was pruned.
type ApplyAnswer struct {
	Revision  events.Position `json:"revision"`
	DryRun    bool            `json:"dry_run"`
	Resources []Done          `json:"resources"`
}

type applyInput struct{ Body ApplyRequest }
type applyOutput struct{ Body ApplyAnswer }

func (s *Server) applyRoute() {
	huma.Register(s.api, huma.Operation{
		OperationID: "apply", Method: http.MethodPost, Path: "/api/v1/apply", Tags: []string{"apply"},
		Summary: "Bring the catalogue to what a list of resources says, as a whole or not at all",
		Errors:  []int{401, 409, 422, 503}, MaxBodyBytes: applyBodyMax,
	}, s.apply)
}

func (s *Server) apply(ctx context.Context, in *applyInput) (*applyOutput, error) {
	if in.Body.Prune && len(in.Body.Resources) == 0 { // null, too: what a script sends whose list was not there
		return nil, invalid("body.resources", "names nothing, and prune would remove everything")
	}
	changes := make([]Change, 0, len(in.Body.Resources))
	places := map[catalog.Ref]string{}
	var wrong problems
	for i, document := range in.Body.Resources {
		location := "body.resources[" + strconv.Itoa(i) + "]"
		change, err := s.read(ctx, "", document, location)
		if err != nil {
			wrong.add(err)
			continue
		}
		places[catalog.Ref{Kind: change.Kind, ID: change.ID}] = location
		changes = append(changes, change)
	}
	if len(wrong.found) > 0 {
		return nil, problemOf(http.StatusUnprocessableEntity, summary(wrong.found), wrong.found...)
	}
	outcome, err := s.ports.Catalog.Apply(ctx, changes, Options{DryRun: in.Body.DryRun, Prune: in.Body.Prune})
	if err != nil {
		return nil, s.problem(ctx, func(ref catalog.Ref) string {
			if location, ok := places[ref]; ok {
				return location
			}
			return "body"
		}, err)
	}
	return &applyOutput{ApplyAnswer{Revision: outcome.Revision, DryRun: in.Body.DryRun, Resources: listed(outcome.Done)}}, nil
}

// problems gathers what is wrong with several documents.
type problems struct{ found []*huma.ErrorDetail }

func (p *problems) add(err error) {
	if model, ok := err.(*huma.ErrorModel); ok && len(model.Errors) > 0 {
		p.found = append(p.found, model.Errors...)
		return
	}
	p.found = append(p.found, &huma.ErrorDetail{Message: err.Error()})
}

// summary is the first thing that is wrong, and how many more there are.
func summary(found []*huma.ErrorDetail) string {
	first := join(found[0].Location, "") + ": " + found[0].Message
	if len(found) == 1 {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, len(found)-1)
}
