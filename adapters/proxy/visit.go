package proxy

import (
	"net"
	"net/netip"
	"runtime/debug"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/failure"
)

// visit is what a request needs in our memory, allocated in one piece. It is never used again: a watch that fires late
// must not reach another request.
type visit struct {
	call  actors.Call
	gone  actors.Gone
	ctx   *fasthttp.RequestCtx
	early *early // nil: the head was not sent early
}

func (s *Server) visit() *visit {
	now := s.o.Now()
	v := &visit{}
	v.call.ID, v.call.At, v.call.Gone = newID(now), now.UTC(), &v.gone
	return v
}

// recovered answers a request in which a fault of ours came up before it had a life of its own. The server does not: all that runs
// would end with it.
func (s *Server) recovered(ctx *fasthttp.RequestCtx) {
	r := recover()
	if r == nil {
		return
	}
	call := &s.visit().call
	call.Endpoint, _ = dialect.Route(methodName(ctx.Method()), string(ctx.URI().PathOriginal()))
	s.o.Logger.Error("request panicked", "request_id", call.ID, "panic", r, "stack", string(debug.Stack()))
	ctx.Response.Reset()
	ctx.SetConnectionClose()
	s.write(ctx, call, actors.Refused(call, failure.New(failure.LocalFault, "panic"), false))
}

const (
	clientMax = 100 // bytes of a user agent that are kept
	routeMax  = 256 // bytes of a method and a path that the next request is compared with
)

// texts are what the last request on a connection said, with what came of it. The next one mostly says the same, and is spared
// the copies and the work. The connection's goroutine owns them. The strings are ours, and never change.
type texts struct {
	last route

	agent, shown string // the last user agent as it came, and as it is recorded

	met       netip.Addr // the other end of the connection; not valid: not looked at yet, or not known
	client    netip.Addr // of the last request; behind a proxy it need not be the other end
	clientWas string     // as it is recorded

	room   []actors.Header
	answer actors.Room // lent like the room for headers: the last answer was written before the next request is read
}

// route is where a method and a path lead.
type route struct {
	method, path string
	end          dialect.Endpoint
	known        bool // they are of the data plane
}

// route is where the present request leads. It is valid until the next one.
func (t *texts) route(ctx *fasthttp.RequestCtx) *route {
	method, path := ctx.Method(), ctx.URI().PathOriginal()
	r := &t.last
	if string(path) == r.path && string(method) == r.method {
		return r
	}
	if len(method)+len(path) > routeMax {
		r = &route{}
	}
	r.method, r.path = methodName(method), string(path)
	r.end, r.known = dialect.Route(r.method, r.path)
	return r
}

// methodName copies a method.
func methodName(b []byte) string {
	switch string(b) {
	case "POST":
		return "POST"
	case "GET":
		return "GET"
	}
	return string(b)
}

// climbs says that a model in a path leads elsewhere at an upstream that resolves its dots: to one that the key may not use, or
// that costs more.
func climbs(model string) bool {
	for part := range strings.SplitSeq(model, "/") {
		if part == "." || part == ".." {
			return true
		}
	}
	return false
}

// peer is the address at the other end of the connection.
func (t *texts) peer(ctx *fasthttp.RequestCtx) netip.Addr {
	if !t.met.IsValid() {
		t.met = peer(ctx.RemoteAddr())
	}
	return t.met
}

// address is what is recorded of the client's address.
func (t *texts) address(ctx *fasthttp.RequestCtx, client netip.Addr) string {
	if t.clientWas == "" || client != t.client {
		t.client, t.clientWas = client, client.String()
		if !client.IsValid() {
			t.clientWas = address(ctx.RemoteAddr())
		}
	}
	return t.clientWas
}

// address is the text of an address, without its port.
func address(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.IP.String()
	}
	return a.String()
}

// program is what is recorded of a user agent.
func (t *texts) program(agent []byte) string {
	if agent = agent[:min(len(agent), clientMax)]; string(agent) != t.agent {
		t.agent = string(agent)
		t.shown = strings.ToValidUTF8(t.agent, "")
	}
	return t.shown
}

// headersRoom is enough for what most clients send, and for ours behind it.
const headersRoom = 16

// headers is empty room for the headers of the present request. The connection owns it and lends it until the request has been
// answered, like the bytes that the headers point to, which the server overwrites with the next request.
func (t *texts) headers() []actors.Header {
	if t.room == nil {
		t.room = make([]actors.Header, 0, headersRoom)
	}
	return t.room
}
