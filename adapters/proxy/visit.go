package proxy

import (
	"net/netip"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
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
	v := &visit{call: actors.Call{ID: newID(now), At: now.UTC()}}
	v.call.Gone = &v.gone
	return v
}

// texts are what the last request on a connection said. The next one mostly says the same, and is spared the copies.
type texts struct {
	address, path, agent string
	client               netip.Addr // that address says

	room []actors.Header
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

// again is b as a string: the last one when that says the same. What is long is not kept for the next.
func again(last *string, b []byte) string {
	if string(b) == *last {
		return *last
	}
	s := string(b)
	if len(s) <= 256 {
		*last = s
	}
	return s
}
