package proxy

import (
	"io"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
)

// signMax bounds how long a sign of life may take: a client that takes none is gone.
const signMax = 10 * time.Second

// early is an answer whose head was sent while its request waited. The server's own answer comes only after the handler, so
// this one is written past it, and the connection ends with it.
type early struct {
	conn    net.Conn
	chunked bool // not for HTTP/1.0, where the end of the connection is the end of the answer
	waiting bool
	buf     []byte
}

var _ actors.Opener = (*visit)(nil)

// Open implements actors.Opener.
func (v *visit) Open(headers []actors.Header) (io.Writer, error) {
	h := &v.ctx.Request.Header
	e := &early{conn: v.ctx.Conn(), chunked: h.IsHTTP11(), waiting: true}
	v.early = e
	b := append(e.buf, "HTTP/1.1 200 OK\r\n"...)
	for _, x := range headers {
		b = append(append(append(append(b, x.Name...), ": "...), x.Value...), "\r\n"...)
	}
	b = append(append(append(b, "X-Request-Id: "...), v.call.ID...), "\r\n"...)
	b = corsHead(b, &v.ctx.Response.Header)
	if e.chunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	b = append(b, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n"...)
	return e, e.send(b)
}

// Write sends one chunk.
func (e *early) Write(p []byte) (int, error) {
	b := e.buf[:0]
	if len(p) == 0 {
		return 0, nil
	}
	if e.chunked {
		b = append(strconv.AppendInt(b, int64(len(p)), 16), "\r\n"...)
	}
	b = append(b, p...)
	if e.chunked {
		b = append(b, "\r\n"...)
	}
	if err := e.send(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *early) send(b []byte) error {
	e.buf = b[:0]
	if e.waiting {
		_ = e.conn.SetWriteDeadline(time.Now().Add(signMax))
	}
	_, err := e.conn.Write(b)
	return err
}

// goOn writes the answer behind a head that was sent early. Without a clean end the client sees that it is cut (pain 56).
func (s *Server) goOn(ctx *fasthttp.RequestCtx, v *visit, a actors.Answer) {
	e := v.early
	e.waiting = false
	_ = e.conn.SetWriteDeadline(time.Time{})
	var err error
	if a.Stream != nil {
		err = a.Stream(e)
	} else {
		_, err = e.Write(a.Body)
	}
	if err == nil && e.chunked {
		_ = e.send([]byte("0\r\n\r\n"))
	}
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {}) // ends the connection
}
