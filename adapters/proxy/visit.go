package proxy

import (
	"net/netip"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
)

// visit is what a request needs in our memory, allocated in one piece. It is never used again: a watch that fires late
// must not reach another request.
type visit struct {
	call    actors.Call
	gone    actors.Gone
	headers [16]actors.Header // room for what most clients send, and for ours behind it
	ctx     *fasthttp.RequestCtx
	early   *early // nil: the head was not sent early
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
