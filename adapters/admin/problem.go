package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	statement "github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// statuses is the one table from an error to its HTTP status; the first match counts.
var statuses = []struct {
	err    error
	status int
}{
	{ErrPrecondition, http.StatusPreconditionFailed},
	{ErrConflict, http.StatusConflict},
	{ErrNotFound, http.StatusNotFound},
	{ErrRemoved, http.StatusGone},
	{ErrUnavailable, http.StatusServiceUnavailable},
	{catalog.ErrNotFound, http.StatusNotFound},
	{catalog.ErrReferenced, http.StatusConflict},
	{catalog.ErrInvalid, http.StatusUnprocessableEntity},
	{requestlog.ErrQuery, http.StatusUnprocessableEntity},
	{billing.ErrQuery, http.StatusUnprocessableEntity},
	{stats.ErrQuery, http.StatusUnprocessableEntity},
	{statement.ErrQuery, http.StatusUnprocessableEntity},
	{ledger.ErrUnknownUser, http.StatusNotFound},
	{ledger.ErrUnknownSubscription, http.StatusNotFound},
	{ledger.ErrConflict, http.StatusConflict},
	{events.ErrHead, http.StatusUnprocessableEntity},
	{books.ErrDay, http.StatusUnprocessableEntity},
	{books.ErrOpen, http.StatusConflict},
	{actors.ErrScope, http.StatusUnprocessableEntity},
	{actors.ErrRepricing, http.StatusConflict},
	{actors.ErrPricesChanged, http.StatusPreconditionFailed},
	{projections.ErrRebuilding, http.StatusServiceUnavailable},
	{events.ErrUnavailable, http.StatusServiceUnavailable},
	{context.Canceled, 499},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
	{ErrArchive, http.StatusInternalServerError}, // for another reason than those above: the folder
}

// place says where in what was sent a resource stands, such as "body" or "body.resources[2]".
type place func(catalog.Ref) string

// at is the one place for everything.
func at(location string) place { return func(catalog.Ref) string { return location } }

// problem makes an RFC 9457 document of an error, one detail per thing that is wrong with what was sent, each with its place and
// field; nothing is when the store is away. An error that is not in the table is ours: it is logged, and the answer only says so.
func (s *Server) problem(ctx context.Context, where place, err error) error {
	if err == nil {
		return nil
	}
	var already huma.StatusError
	if errors.As(err, &already) {
		return already
	}
	for _, line := range statuses {
		if errors.Is(err, line.err) {
			p := problemOf(line.status, err.Error())
			if line.status < http.StatusInternalServerError {
				p.Errors = details(where, err, line.err)
			}
			return p
		}
	}
	s.log.LogAttrs(ctx, slog.LevelError, "admin request failed", slog.Any("err", err))
	return problemOf(http.StatusInternalServerError, "the gateway could not do this; its log says why")
}

// problemOf is a problem document of a status.
func problemOf(status int, detail string, wrong ...*huma.ErrorDetail) *huma.ErrorModel {
	return &huma.ErrorModel{Status: status, Title: title(status), Detail: detail, Errors: wrong}
}

// invalid is a problem with one thing that was sent.
func invalid(location, message string) error {
	return problemOf(http.StatusUnprocessableEntity, location[strings.LastIndexByte(location, '.')+1:]+": "+message,
		&huma.ErrorDetail{Location: location, Message: message})
}

// details takes joined errors apart. An error that wraps the sentinel itself names its field before the first colon.
func details(where place, err, sentinel error) []*huma.ErrorDetail {
	switch e := err.(type) {
	case *catalog.InvalidError:
		return []*huma.ErrorDetail{{Location: join(where(e.Ref), e.Field), Message: e.Reason}}
	case *catalog.ReferencedError:
		return []*huma.ErrorDetail{{Location: where(e.Ref), Message: e.Error()}}
	case *catalog.NotFoundError:
		return []*huma.ErrorDetail{{Location: where(e.Ref), Message: e.Error()}}
	case interface{ Unwrap() []error }:
		var all []*huma.ErrorDetail
		for _, one := range e.Unwrap() {
			if one != sentinel { // fmt.Errorf with several %w lists the sentinel, too
				all = append(all, details(where, one, sentinel)...)
			}
		}
		return all
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil && inner != sentinel {
			return details(where, inner, sentinel)
		}
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), sentinel.Error()), ": ")
	if field, message, ok := strings.Cut(text, ": "); ok && !strings.ContainsAny(field, " /") {
		return []*huma.ErrorDetail{{Location: join(where(catalog.Ref{}), field), Message: message}}
	}
	return []*huma.ErrorDetail{{Location: where(catalog.Ref{}), Message: text}}
}

func title(status int) string {
	if status == 499 {
		return "Client Closed Request"
	}
	return http.StatusText(status)
}

// join appends the path of a field to a location.
func join(location, field string) string {
	if field == "" || location == "" {
		return location + field
	}
	return location + "." + field
}

// rfc9457 is the media type of a problem document.
const rfc9457 = "application/problem+json"

// writeProblem answers outside of an operation: wrong token, no such path.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", rfc9457)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problemOf(status, detail))
}

// withoutValues keeps what was sent out of problem documents: it may hold a credential.
func withoutValues(_ huma.Context, _ string, answer any) (any, error) {
	if model, ok := answer.(*huma.ErrorModel); ok {
		for _, detail := range model.Errors {
			if detail != nil {
				detail.Value = nil
			}
		}
	}
	return answer, nil
}
