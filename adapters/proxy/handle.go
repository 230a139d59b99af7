package proxy

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
)

// handle answers one request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	s.requests.Add(1)
	defer s.requests.Add(-1)
	defer s.recovered(ctx)
	w := watchedBy(ctx.Conn())
	alone := w.alone(ctx.Method(), ctx.Request.Header.RequestURI())
	if w != nil {
		w.next()
	}
	if s.cors(ctx) {
		return
	}
	switch string(ctx.Path()) {
	case "/health", "/healthz":
		s.health(ctx)
		return
	}
	v := s.visit()
	call := &v.call
	said := w.texts()
	to := said.route(ctx)
	call.Endpoint = to.end
	s.describe(ctx, call, said, to)
	if !to.known && len(ctx.Request.Header.PeekCanonical(upgrade)) > 0 {
		// Codex asks for a WebSocket first; this status makes it fall back to HTTP at once.
		ctx.Response.Header.Set("Upgrade", "HTTP/1.1")
		s.write(ctx, call, actors.Answer{Status: fasthttp.StatusUpgradeRequired, Headers: jsonType, Body: []byte(`{"error":"WebSocket is not supported, use HTTP"}`)})
		return
	}
	if !to.known || !serves(call.Endpoint.Kind) {
		s.write(ctx, call, notFound(call))
		return
	}
	if r, verified := s.authenticate(ctx, call); r != nil {
		if verified || s.refusals.single(call.Ask.Address) {
			s.write(ctx, call, s.o.Dispatcher.Refuse(call, *r))
		} else {
			s.write(ctx, call, actors.Refused(call, *r, false))
		}
		return
	}
	if k := call.Endpoint.Kind; k == dialect.Models || k == dialect.Model {
		s.models(ctx, call)
		return
	}
	if r := s.scan(ctx, call); r != nil {
		s.write(ctx, call, s.o.Dispatcher.Refuse(call, *r))
		return
	}
	var clues dialect.Clues
	call.Headers = forwarded(said.headers(), ctx, &clues)
	call.Query, call.Room = query(ctx), &said.answer
	s.recognise(call, &clues)
	if v.ctx = ctx; alone {
		call.Opener = v
	}
	w.onGone(call.Gone)
	s.run(ctx, v, w)
}

// run dispatches and writes the answer, and ends the watch for the client.
func (s *Server) run(ctx *fasthttp.RequestCtx, v *visit, w *watched) {
	call := &v.call
	a := s.o.Dispatcher.Begin(call)
	if v.early != nil {
		defer w.disarm(call.Gone)
		s.goOn(ctx, v, a)
		return
	}
	if a.Stream == nil {
		w.disarm(call.Gone)
		s.write(ctx, call, a)
		return
	}
	s.head(ctx, call, a)
	s.requests.Add(1)
	ctx.Response.SetBodyStream(&body{run: func(to io.Writer) error {
		defer s.requests.Add(-1)
		defer w.disarm(call.Gone)
		return a.Stream(to)
	}}, -1)
}

// serves says which endpoints this gateway forwards natively.
func serves(k dialect.Kind) bool {
	return k == dialect.Generate || k == dialect.Models || k == dialect.Model || k == dialect.CountTokens
}

// describe notes what is known of a request before its body is read. Strings are copied: they live on in events.
func (s *Server) describe(ctx *fasthttp.RequestCtx, call *actors.Call, said *texts, to *route) {
	call.Address = client(ctx, said.peer(ctx), s.o.Catalog().Settings.Guards.Proxies)
	ask := &call.Ask
	ask.Method, ask.Path = to.method, to.path
	ask.Dialect, ask.Capability = call.Endpoint.Dialect.String(), string(call.Endpoint.Capability)
	ask.Model, ask.Stream = call.Endpoint.Model, call.Endpoint.Stream
	ask.Client, ask.Address = said.program(ctx.Request.Header.UserAgent()), said.address(ctx, call.Address)
	if id := ctx.Request.Header.PeekCanonical(clientRequestID); len(id) > 0 {
		ask.ClientID = strings.ToValidUTF8(string(id[:min(len(id), 128)]), "")
	}
}

// authenticate finds the key. verified: the secret opens a key, even if the key may not be used.
func (s *Server) authenticate(ctx *fasthttp.RequestCtx, call *actors.Call) (refusal *failure.Refusal, verified bool) {
	refuse := func(code string) *failure.Refusal {
		r := failure.New(code, "")
		return &r
	}
	secret := presented(ctx)
	if len(secret) == 0 {
		return refuse(failure.MissingAPIKey), false
	}
	snap := s.o.Catalog()
	key, no := s.identify(snap, call, secret)
	if no != nil {
		return no, false
	}
	call.Key = key
	call.Ask.Key, call.Ask.User, call.Ask.Group = key.ID, key.User, key.Group
	if denied := snap.Authorize(key, call.At); denied != catalog.Accepted {
		return refuse(string(denied)), true
	}
	return admits(snap, call), true
}

// modelMax is how long the name of a model may be, in bytes: as long as one in the catalogue. It is part of events, of the
// request log and of bills.
const modelMax = 2000

// invalid refuses a body; the reason is what is to be corrected.
func invalid(reason, message string) *failure.Refusal {
	r := failure.New(failure.BodyInvalid, reason)
	r.Message = message
	return &r
}

// scan reads the body once.
func (s *Server) scan(ctx *fasthttp.RequestCtx, call *actors.Call) *failure.Refusal {
	call.Body = ctx.Request.Body()
	if enc := ctx.Request.Header.ContentEncoding(); len(enc) > 0 && !bytes.EqualFold(enc, []byte("identity")) {
		return invalid("content-encoding", "content-encoding: a compressed request body is not supported")
	}
	scan, err := dialect.ScanRequest(call.Body, call.Endpoint.Dialect)
	if err != nil {
		var wrong *dialect.BodyError
		_ = errors.As(err, &wrong)
		return invalid(cmp.Or(wrong.Field, "body"), err.Error())
	}
	if len(scan.Model) > modelMax {
		return invalid("model", fmt.Sprintf("request body: model: is longer than %d bytes", modelMax))
	}
	if len(call.Ask.Model) > modelMax { // that of the path
		call.Ask.Model = ""
		return invalid("model", fmt.Sprintf("model: is longer than %d bytes", modelMax))
	}
	if scan.Background && !scan.Stream && call.Endpoint.Kind == dialect.Generate { // what it costs is said later, when nobody asks here
		return invalid("background", "request body: background: answers can not be fetched later here; ask for a stream, or for the answer itself")
	}
	call.Scan = scan
	if scan.Model != "" { // the body's model wins over the path's
		call.Ask.Model = scan.Model
	}
	if call.Endpoint.Model != "" && climbs(call.Ask.Model) {
		return invalid("model", "model: a name in a path can not have . or .. between slashes")
	}
	call.Ask.Stream = call.Ask.Stream || scan.Stream
	call.Ask.Session, call.Ask.Continues = scan.Session, scan.Continuation
	return nil
}

// recognise notes what the headers and the body tell of the client program and of the session (C7, B12).
func (s *Server) recognise(call *actors.Call, clues *dialect.Clues) {
	if call.Client = clues.Client(); call.Client != dialect.AnyClient {
		call.Ask.Profile = call.Client.String()
	}
	need, _ := dialect.Pools(call.Endpoint.Capability, call.Client)
	call.Ask.Capability = string(need)
	session := dialect.SessionOf(call.Endpoint.Dialect, clues, &call.Scan)
	switch {
	case session == "" && s.o.Catalog().Settings.Scheduling.DeriveSession:
		session = call.Scan.ContentSession(call.Body)
	case session == call.Scan.Session: // as it was copied from the body: the headers may have said the same
		session = call.Scan.Session
	default: // of the headers, whose memory is used again
		session = strings.Clone(session)
	}
	call.Ask.Session = session
}

// models lists what the key may ask for, by the catalogue.
func (s *Server) models(ctx *fasthttp.RequestCtx, call *actors.Call) {
	snap := s.o.Catalog()
	names := snap.Models(call.Key)
	d := call.Endpoint.Dialect
	if d == dialect.None { // shared by three dialects: the headers tell
		switch h := &ctx.Request.Header; {
		case len(h.Peek("Anthropic-Version")) > 0:
			d = dialect.AnthropicMessages
		case len(h.Peek("X-Goog-Api-Key")) > 0 || ctx.QueryArgs().Has("key"):
			d = dialect.Gemini
		default:
			d = dialect.OpenAIChat
		}
		call.Endpoint.Dialect = d
	}
	if call.Endpoint.Kind == dialect.Model {
		if n := call.Endpoint.Model; slices.Contains(names, n) || snap.Selects(call.Key, n) {
			s.write(ctx, call, actors.Answer{Status: 200, Headers: jsonType, Body: dialect.AppendModel(nil, d, n, 0)})
			return
		}
		s.write(ctx, call, actors.Refused(call, failure.New(failure.UnknownModel, ""), false))
		return
	}
	s.write(ctx, call, actors.Answer{Status: 200, Headers: jsonType, Body: dialect.AppendModels(nil, d, names, 0)})
}

func (s *Server) health(ctx *fasthttp.RequestCtx) {
	b, ok := s.o.Health()
	ctx.SetContentType("application/json")
	if !ok {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	}
	ctx.SetBody(b)
}

// unreadable answers a request that could not be read: too large, or no HTTP.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	call := &s.visit().call
	w := watchedBy(ctx.Conn())
	if w != nil { // the server has forgotten what it had read
		method, rest, _ := strings.Cut(w.asked(), " ")
		path, _, _ := strings.Cut(rest, " ")
		path, _, _ = strings.Cut(path, "?")
		call.Endpoint, _ = dialect.Route(method, path)
	}
	r := failure.New(failure.BodyInvalid, "http")
	var head *fasthttp.ErrSmallBuffer
	switch {
	case err == fasthttp.ErrBodyTooLarge:
		r = failure.New(failure.RequestTooLarge, "")
		if w != nil {
			w.hearOut()
		}
	case errors.As(err, &head):
		r = failure.New(failure.RequestTooLarge, "")
		r.Status, r.Message = fasthttp.StatusRequestHeaderFieldsTooLarge, "The headers of the request are too large."
	case isTimeout(err):
		ctx.Error("request timeout", fasthttp.StatusRequestTimeout)
		return
	default: // the cause would quote what was sent, credentials and all
		r.Message = "The request can not be read: it is no valid HTTP."
	}
	ctx.Response.Reset()
	ctx.SetConnectionClose()
	s.write(ctx, call, actors.Refused(call, r, false))
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
