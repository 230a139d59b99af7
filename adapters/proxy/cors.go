package proxy

import (
	"slices"

	"github.com/valyala/fasthttp"
)

// What pages of allowed origins may read of an answer and send with a request.
const (
	corsExposed = "X-Request-Id, Retry-After, X-Should-Retry"
	corsMethods = "GET, POST"
	corsMaxAge  = "600"
)

// cors lets pages of the origins that the operator has named call from a browser; nobody else's are told anything. It says that
// the request was only the browser's question, which it has answered: that one carries no key. The origin belongs to this hop:
// providers refuse calls of browsers.
func (s *Server) cors(ctx *fasthttp.RequestCtx) (answered bool) {
	req, resp := &ctx.Request.Header, &ctx.Response.Header
	page := req.PeekCanonical(origin)
	if len(page) == 0 {
		return false
	}
	if !slices.Contains(s.o.Catalog().Settings.Guards.Origins, text(page)) {
		return false
	}
	resp.SetBytesV("Access-Control-Allow-Origin", page)
	resp.Set("Vary", "Origin")
	if ctx.IsOptions() && len(req.Peek("Access-Control-Request-Method")) > 0 {
		resp.Set("Access-Control-Allow-Methods", corsMethods)
		if asked := req.Peek("Access-Control-Request-Headers"); len(asked) > 0 {
			resp.SetBytesV("Access-Control-Allow-Headers", asked)
		}
		resp.Set("Access-Control-Max-Age", corsMaxAge)
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return true
	}
	resp.Set("Access-Control-Expose-Headers", corsExposed)
	req.Del("Origin")
	return false
}

// corsHead appends the same to a head that is written by hand.
func corsHead(b []byte, resp *fasthttp.ResponseHeader) []byte {
	for _, name := range [...]string{"Access-Control-Allow-Origin", "Vary", "Access-Control-Expose-Headers"} {
		if v := resp.Peek(name); len(v) > 0 {
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	return b
}
