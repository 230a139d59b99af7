package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
)

// Audit proves what the events were.
type Audit interface {
	// AuditHead is the end of the chain, signed.
	AuditHead(ctx context.Context) (events.Head, error)
	// AuditVerify checks the chain against itself, the given heads and those that the gateway has signed. Heads that
	// are none wrap events.ErrHead.
	AuditVerify(ctx context.Context, heads []events.Head) (events.Report, error)
	// AuditExport writes what events.Export does. Zero times are no borders.
	AuditExport(ctx context.Context, since, until time.Time, w io.Writer) error
}

// Books closes the books.
type Books interface {
	// CloseBooks closes all days up to the given one ("2006-01-02", UTC) that can be closed, and takes away what
	// retention allows. Closings of this call come back also beside an error. A wrong day wraps books.ErrDay; a day that
	// can not be closed yet wraps books.ErrOpen.
	CloseBooks(ctx context.Context, until string) ([]books.Closed, error)
}

// AuditRequest names ends of the chain that are known from elsewhere.
type AuditRequest struct {
	Heads []events.Head `json:"heads,omitempty" doc:"as audit head gives them, or with position and hash alone"`
}

// CloseRequest says up to where books are closed.
type CloseRequest struct {
	Until string `json:"until" doc:"the last day, such as 2006-01-02, in UTC"`
}

// CloseAnswer has the days that were closed.
type CloseAnswer struct {
	Items []books.Closed `json:"items"`
}

type auditInput struct{ Body AuditRequest }

type exportInput struct {
	Since time.Time `query:"since"`
	Until time.Time `query:"until" doc:"exclusive"`
}

type closeInput struct{ Body CloseRequest }

type headOutput struct{ Body events.Head }
type auditOutput struct{ Body events.Report }
type closeOutput struct{ Body CloseAnswer }

// auditRoutes are there when the ports are.
func (s *Server) auditRoutes(audit Audit, closer Books) {
	op := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary,
			Tags: []string{"audit"}, Errors: []int{401, 422, 503}}
	}
	if audit != nil {
		huma.Register(s.api, op("auditHead", http.MethodGet, "/api/v1/audit/head", "The end of the chain of events, signed"),
			func(ctx context.Context, _ *struct{}) (*headOutput, error) {
				head, err := audit.AuditHead(ctx)
				return &headOutput{head}, s.problem(ctx, at(""), err)
			})
		huma.Register(s.api, op("auditCheck", http.MethodGet, "/api/v1/audit/verify", "Check the chain of events against itself and the gateway's own heads"),
			func(ctx context.Context, _ *struct{}) (*auditOutput, error) {
				report, err := audit.AuditVerify(ctx, nil)
				return &auditOutput{report}, s.problem(ctx, at(""), err)
			})
		huma.Register(s.api, op("auditVerify", http.MethodPost, "/api/v1/audit/verify", "Check the chain of events, also against heads from elsewhere"),
			func(ctx context.Context, in *auditInput) (*auditOutput, error) {
				report, err := audit.AuditVerify(ctx, in.Body.Heads)
				return &auditOutput{report}, s.problem(ctx, at("body.heads"), err)
			})
		export := op("auditExport", http.MethodGet, "/api/v1/audit/export", "The chain of events as JSON lines; whole when the last one has a head")
		huma.Register(s.api, export, func(_ context.Context, in *exportInput) (*huma.StreamResponse, error) {
			if err := ordered(in.Since, in.Until); err != nil {
				return nil, err
			}
			return &huma.StreamResponse{Body: func(c huma.Context) {
				c.SetHeader("Content-Type", "application/jsonl")
				to := reader{Writer: c.BodyWriter()}
				if err := audit.AuditExport(c.Context(), in.Since, in.Until, &to); err != nil {
					s.endedEarly(c.Context(), "an export of events", &to, err)
				}
			}}, nil
		})
	}
	if closer != nil {
		huma.Register(s.api, op("closeBooks", http.MethodPost, "/api/v1/books/close", "Close the books up to a day"),
			func(ctx context.Context, in *closeInput) (*closeOutput, error) {
				closed, err := closer.CloseBooks(ctx, in.Body.Until)
				return &closeOutput{CloseAnswer{listed(closed)}}, s.problem(ctx, at("body.until"), err)
			})
	}
}

// endedEarly logs that a long answer has, which is no fault when its reader wanted no more.
func (s *Server) endedEarly(ctx context.Context, what string, to *reader, err error) {
	if to.gone || ctx.Err() != nil {
		s.log.Info("who read "+what+" has gone before its end", "error", err)
		return
	}
	s.log.Error(what+" ended early", "error", err)
}

// reader is who reads an answer, and has gone when nothing more can be written.
type reader struct {
	io.Writer
	gone bool
}

func (r *reader) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	r.gone = r.gone || err != nil
	return n, err
}
