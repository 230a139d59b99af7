package proxy

import (
	"io"
	"unsafe"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/failure"
)

var jsonType = []actors.Header{{Name: "Content-Type", Value: "application/json"}}

func notFound(call *actors.Call) actors.Answer {
	r := failure.New(failure.EndpointNotFound, "")
	r.Message = call.Ask.Method + " " + call.Ask.Path + " is not served here."
	return actors.Refused(call, r, false)
}

// write puts a whole answer into the response.
func (s *Server) write(ctx *fasthttp.RequestCtx, call *actors.Call, a actors.Answer) {
	s.head(ctx, call, a)
	ctx.Response.SetBodyRaw(a.Body)
}

func (s *Server) head(ctx *fasthttp.RequestCtx, call *actors.Call, a actors.Answer) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(a.Status)
	for _, x := range a.Headers {
		if x.Name == fasthttp.HeaderContentType { // every answer has it
			h.SetContentType(x.Value)
			continue
		}
		h.Add(x.Name, x.Value)
	}
	h.SetCanonical(requestID, bytesOf(call.ID))
	if a.Stream != nil {
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
}

// body runs a stream in the goroutine of the connection: each write is one chunk and one flush.
type body struct {
	run func(io.Writer) error
	ran bool
}

func (*body) Read([]byte) (int, error) { return 0, io.EOF }

func (*body) SupportsBodyWriteTo() bool { return true }

func (b *body) WriteTo(w io.Writer) (int64, error) {
	b.ran = true
	return 0, b.run(w)
}

// Close runs a stream whose head could not be written, so that the request ends all the same.
func (b *body) Close() error {
	if b.ran {
		return nil
	}
	_, err := b.WriteTo(broken{})
	return err
}

// broken is a connection that nothing can be written to.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// text is b as a string, valid as long as the request is.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf is s as bytes that nobody may change.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
