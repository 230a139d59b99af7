package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/catalog"
)

// Limits of a page of a list.
const (
	listDefault = 100
	listMax     = 1000
)

// Page is part of a list. Next is the "after" of the following page, "" on the last one.
type Page struct {
	Items []any  `json:"items"`
	Next  string `json:"next"`
}

type listInput struct {
	After string `query:"after" doc:"the id that the page before ended with"`
	Limit int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

type oneInput struct {
	ID string `path:"id"`
}

type writeInput struct {
	ID          string `path:"id"`
	IfMatch     string `header:"If-Match" doc:"ETag that the resource must have, or *"`
	IfNoneMatch string `header:"If-None-Match" doc:"* creates and never replaces"`
	Body        json.RawMessage
}

type removeInput struct {
	ID      string `path:"id"`
	IfMatch string `header:"If-Match" doc:"ETag that the resource must have, or *"`
}

type pageOutput struct{ Body Page }

type oneOutput struct {
	ETag string `header:"ETag"`
	Body any
}

type writeOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   any
}

type removeOutput struct{}

// resourceRoutes are the same five for every kind.
func (s *Server) resourceRoutes() {
	for _, k := range kinds {
		schema := k.schema(s.api.OpenAPI().Components.Schemas)
		path := "/api/v1/" + k.path
		name, title := string(k.kind), strings.ToUpper(string(k.kind[:1]))+string(k.kind[1:])
		op := func(id, method, path, summary string) huma.Operation {
			return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{k.path},
				Errors: []int{401, 404, 409, 412, 422}, MaxBodyBytes: bodyMax, SkipValidateBody: true}
		}
		huma.Register(s.api, answering(op("list"+title+"s", http.MethodGet, path, "List "+k.path), listOf(schema)),
			func(ctx context.Context, in *listInput) (*pageOutput, error) { return s.list(ctx, k, in) })
		huma.Register(s.api, answering(op("get"+title, http.MethodGet, path+"/{id}", "Show one "+name), schema),
			func(ctx context.Context, in *oneInput) (*oneOutput, error) { return s.get(ctx, k, in.ID) })
		huma.Register(s.api, answering(taking(op("put"+title, http.MethodPut, path+"/{id}", "Create or replace one "+name), schema), schema),
			func(ctx context.Context, in *writeInput) (*writeOutput, error) { return s.put(ctx, k, in) })
		huma.Register(s.api, answering(taking(op("patch"+title, http.MethodPatch, path+"/{id}", "Change fields of one "+name+" (merge patch)"), &huma.Schema{Type: "object"}), schema),
			func(ctx context.Context, in *writeInput) (*writeOutput, error) { return s.patch(ctx, k, in) })
		huma.Register(s.api, op("delete"+title, http.MethodDelete, path+"/{id}", "Remove one "+name),
			func(ctx context.Context, in *removeInput) (*removeOutput, error) { return s.remove(ctx, k, in) })
	}
}

func taking(op huma.Operation, schema *huma.Schema) huma.Operation {
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	return op
}

func answering(op huma.Operation, schema *huma.Schema) huma.Operation {
	op.Responses = map[string]*huma.Response{"200": {Description: "OK",
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
	return op
}

func listOf(item *huma.Schema) *huma.Schema {
	return &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{
		"items": {Type: "array", Items: item}, "next": {Type: "string"}}}
}

func (s *Server) list(ctx context.Context, k kind, in *listInput) (*pageOutput, error) {
	limit := min(max(in.Limit, 1), listMax)
	found, err := s.ports.Catalog.List(ctx, k.kind, in.After, limit+1) // one more tells whether there is a next page
	if err != nil {
		return nil, s.problem(ctx, at("query"), err)
	}
	page := Page{Items: []any{}}
	for i, one := range found {
		if i == limit {
			page.Next = found[limit-1].Resource.Ident()
			break
		}
		page.Items = append(page.Items, catalog.Public(one.Resource))
	}
	return &pageOutput{page}, nil
}

func (s *Server) get(ctx context.Context, k kind, id string) (*oneOutput, error) {
	found, err := s.ports.Catalog.Get(ctx, k.kind, id)
	if err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	return &oneOutput{ETag: etag(found.Version), Body: catalog.Public(found.Resource)}, nil
}

func (s *Server) put(ctx context.Context, k kind, in *writeInput) (*writeOutput, error) {
	match, err := matchOf(in.IfMatch, in.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	document, err := withIdent(k, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	change, err := s.read(ctx, k.kind, document, "body")
	if err != nil {
		return nil, err
	}
	change.Match = match
	return s.write(ctx, change)
}

func (s *Server) patch(ctx context.Context, k kind, in *writeInput) (*writeOutput, error) {
	match, err := matchOf(in.IfMatch, in.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	found, err := s.ports.Catalog.Get(ctx, k.kind, in.ID)
	if err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	if match == MatchAny || match == MatchExists {
		match = Match(found.Version) // what is merged must be what is replaced
	}
	document, err := patched(k, in.ID, found.Resource, in.Body)
	if err != nil {
		return nil, s.problem(ctx, at("body"), err)
	}
	change, err := s.read(ctx, k.kind, document, "body")
	if err != nil {
		return nil, err
	}
	change.Match = match
	return s.write(ctx, change)
}

// read makes a change of one document, of whatever kind for "".
func (s *Server) read(ctx context.Context, kind catalog.Kind, document []byte, location string) (Change, error) {
	resource, extras, err := catalog.DecodeResource(kind, document)
	if err != nil {
		return Change{}, s.problem(ctx, at(location), err)
	}
	return Change{Kind: resource.Kind(), ID: resource.Ident(), Resource: resource, Extras: extras}, nil
}

// patched is the document of a resource with a merge patch laid over it. It starts from what a file would say: without
// what the catalogue adds by itself.
func patched(k kind, id string, resource catalog.Resource, patch []byte) ([]byte, error) {
	over, err := parseFields(patch)
	if err != nil {
		return nil, err
	}
	if err := over.dropKind(k.kind); err != nil {
		return nil, err
	}
	named, err := over.document()
	if err != nil {
		return nil, err
	}
	// By itself: of a name that is set to null, the merged document shows nothing that could be unknown.
	if _, _, err := catalog.DecodeResource(k.kind, named); err != nil {
		return nil, err
	}
	now, err := json.Marshal(catalog.Public(resource))
	if err != nil {
		return nil, err
	}
	f, err := parseFields(now)
	if err != nil {
		return nil, err
	}
	if err := f.merge(over); err != nil {
		return nil, invalid("body", err.Error())
	}
	merged, err := f.document()
	if err != nil {
		return nil, err
	}
	return withIdent(k, id, merged)
}

// write stores one change and answers with what is there now.
func (s *Server) write(ctx context.Context, change Change) (*writeOutput, error) {
	outcome, err := s.ports.Catalog.Apply(ctx, []Change{change}, Options{})
	if err != nil {
		return nil, s.problem(ctx, at("body"), err)
	}
	done := outcome.Done[0]
	now, err := s.ports.Catalog.Get(ctx, change.Kind, done.ID)
	if err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	status := http.StatusOK
	if done.Result == Created {
		status = http.StatusCreated
	}
	return &writeOutput{Status: status, ETag: etag(now.Version), Body: catalog.Public(now.Resource)}, nil
}

func (s *Server) remove(ctx context.Context, k kind, in *removeInput) (*removeOutput, error) {
	match, err := matchOf(in.IfMatch, "")
	if err != nil {
		return nil, err
	}
	if _, err := s.ports.Catalog.Get(ctx, k.kind, in.ID); err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	if _, err := s.ports.Catalog.Apply(ctx, []Change{{Kind: k.kind, ID: in.ID, Match: match}}, Options{}); err != nil {
		return nil, s.problem(ctx, at("path.id"), err)
	}
	return nil, nil
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// matchOf reads the conditions of a write. A list of ETags is refused: it would be stored as none of them.
func matchOf(ifMatch, ifNoneMatch string) (Match, error) {
	switch {
	case ifMatch != "" && ifNoneMatch != "":
		return 0, invalid("header.If-None-Match", "cannot stand beside If-Match")
	case ifNoneMatch == "*":
		return MatchAbsent, nil
	case ifNoneMatch != "":
		return 0, invalid("header.If-None-Match", "takes only *")
	case ifMatch == "":
		return MatchAny, nil
	case ifMatch == "*":
		return MatchExists, nil
	}
	version, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(ifMatch, "W/"), `"`), 10, 64)
	if err != nil || version < 1 {
		return 0, invalid("header.If-Match", "takes the ETag of a GET, or *")
	}
	return Match(version), nil
}
