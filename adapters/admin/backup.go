package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Backups copies the store while it works.
type Backups interface {
	// Backup writes what events.Backup does. An error before anything is written is answered with its status.
	Backup(ctx context.Context, w io.Writer) error
}

// backupRoute is there when the port is.
func (s *Server) backupRoute(backups Backups) {
	if backups == nil {
		return
	}
	op := huma.Operation{OperationID: "backup", Method: http.MethodGet, Path: "/api/v1/backup",
		Summary: "The whole store as JSON lines, credentials sealed; whole when the last one has a sum",
		Tags:    []string{"backup"}, Errors: []int{401, 503}}
	huma.Register(s.api, op, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			_, w := humago.Unwrap(c)
			out := &begun{reader: reader{Writer: w}, w: w, stall: s.stallMax}
			err := backups.Backup(c.Context(), out)
			switch {
			case err == nil:
			case !out.begun:
				var p *huma.ErrorModel
				errors.As(s.problem(c.Context(), at(""), err), &p) // there is no other kind
				writeProblem(w, p.Status, p.Detail)
			default:
				s.endedEarly(c.Context(), "a backup", &out.reader, err)
				panic(http.ErrAbortHandler) // a client must not take what it has for all
			}
		}}, nil
	})
}

// begun is an answer that has its header when the first bytes come. Whoever takes nothing of it for long is cut off: nothing can be taken
// away from the store meanwhile.
type begun struct {
	reader
	w     http.ResponseWriter
	stall time.Duration
	begun bool
}

func (b *begun) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Type", "application/jsonl")
	}
	_ = http.NewResponseController(b.w).SetWriteDeadline(time.Now().Add(b.stall)) // a recorder of a test has none
	return b.reader.Write(p)
}
