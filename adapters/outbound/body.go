package outbound

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
)

// errChunk is a chunk header that is none.
var errChunk = errors.New("malformed chunk in the answer")

const trailersMax = 64 << 10 // bytes

// chunkSize reads a chunk header without its line end; what follows a semicolon means nothing to us.
func chunkSize(line []byte) (int64, error) {
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 62)
	if err != nil {
		return 0, errChunk
	}
	return int64(n), nil
}

var incomings = sync.Pool{New: func() any { return &incoming{} }}

// incoming is one answer.
type incoming struct {
	head    fasthttp.ResponseHeader
	c       *conn
	p       *pool
	br      *bufio.Reader
	gone    *actors.Gone
	left    int64 // bytes of the body, or of the present chunk, that are still to come
	chunked bool
	toClose bool // the body ends with the connection
	once    bool // the connection carries no further call
	first   bool // no chunk header has been read yet
	ended   bool // the body was read to its proper end
	closed  bool
}

func (in *incoming) begin(c *conn, p *pool, gone *actors.Gone) {
	in.c, in.p, in.br, in.gone = c, p, c.br, gone
	in.chunked, in.toClose, in.once, in.ended, in.closed, in.left, in.first = false, false, false, false, false, 0, true
	n := in.head.ContentLength()
	switch s := in.head.StatusCode(); {
	case s == 204 || s == 304:
		in.ended, in.once = true, n > 0 || n == -1 // some send the body all the same, which would be the next answer
	case n == -1:
		in.chunked = true
	case n < 0:
		in.toClose = true
	default:
		in.left, in.ended = int64(n), n == 0
	}
}

// here says that the whole body stands in the buffer.
func (in *incoming) here() bool {
	return in.ended || !in.chunked && !in.toClose && in.left <= int64(in.br.Buffered())
}

func (in *incoming) Status() int { return in.head.StatusCode() }

func (in *incoming) Header(name string) string {
	switch name { // every answer is asked for these
	case fasthttp.HeaderContentEncoding:
		return string(in.head.ContentEncoding())
	case "request-id":
		return string(in.head.PeekCanonical(requestID))
	case "x-request-id":
		return string(in.head.PeekCanonical(xRequestID))
	}
	return string(in.head.Peek(name))
}

// Names as fasthttp makes them canonical.
var requestID, xRequestID = []byte("Request-Id"), []byte("X-Request-Id")

func (in *incoming) Headers(yield func(name, value []byte)) {
	for k, v := range in.head.All() {
		yield(k, v)
	}
}

func (in *incoming) Length() int {
	if in.chunked || in.toClose {
		return -1
	}
	return int(in.left)
}

// Buffered says how much body a Read would give without waiting. Bytes of the chunked framing do not count; for the
// end of the body, when all of it has come, it is 1, so that the end goes with what is before it.
func (in *incoming) Buffered() int {
	n := in.br.Buffered()
	switch {
	case in.ended || n == 0:
		return 0
	case in.toClose:
		return n
	case !in.chunked || in.left > 0:
		return int(min(in.left, int64(n)))
	}
	b, err := in.br.Peek(n)
	if err != nil {
		return 0
	}
	return nextChunk(b, in.first)
}

// nextChunk is how much of the next chunk stands in b, 1 for the whole end of the body, 0 when a Read would have to
// wait. first: no chunk has come before.
func nextChunk(b []byte, first bool) int {
	if !first { // the end of the last chunk
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return 0
		}
		b = b[i+1:]
	}
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return 0
	}
	size, err := chunkSize(b[:i])
	b = b[i+1:]
	switch {
	case err != nil: // Read will say so, without waiting
		return 1
	case size > 0:
		return int(min(size, int64(len(b))))
	}
	for { // trailers, up to an empty line
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return 0
		}
		if len(bytes.TrimRight(b[:i], "\r")) == 0 {
			return 1
		}
		b = b[i+1:]
	}
}

// Read gives body bytes. It ends with io.EOF only at the proper end of the body.
func (in *incoming) Read(p []byte) (int, error) {
	if in.ended {
		return 0, io.EOF
	}
	n, err := in.read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, in.failure(err)
}

func (in *incoming) failure(err error) error {
	phase := actors.PhaseBody
	var ne net.Error
	switch {
	case in.gone.Fired():
		phase, err = actors.PhaseCancelled, context.Canceled
	case errors.As(err, &ne) && ne.Timeout():
		phase = actors.PhaseIdle
	case errors.Is(err, errChunk):
		phase = actors.PhaseMalformed
	}
	return &actors.SendError{Phase: phase, Err: err}
}

func (in *incoming) read(p []byte) (int, error) {
	if in.chunked && in.left == 0 {
		if err := in.nextChunk(); err != nil {
			return 0, err
		}
		if in.ended {
			return 0, io.EOF
		}
	}
	if !in.toClose && int64(len(p)) > in.left {
		p = p[:in.left]
	}
	n, err := in.br.Read(p)
	in.left -= int64(n)
	switch {
	case err == io.EOF && in.toClose:
		in.ended = true
		return n, io.EOF
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	case err != nil:
		return n, err
	}
	if !in.chunked && !in.toClose && in.left == 0 {
		in.ended = true
	}
	return n, nil
}

// nextChunk reads a chunk header, and the trailers after the last one.
func (in *incoming) nextChunk() error {
	if !in.first {
		if line, err := in.line(); err != nil {
			return err
		} else if len(line) != 0 {
			return errChunk
		}
	}
	in.first = false
	line, err := in.line()
	if err != nil {
		return err
	}
	in.left, err = chunkSize(line)
	if err != nil || in.left > 0 {
		return err
	}
	for length := 0; ; { // trailers
		line, err := in.line()
		if err != nil {
			return err
		}
		if length += len(line); length > trailersMax {
			return errChunk
		}
		if len(line) == 0 {
			in.ended = true
			return nil
		}
	}
}

// line reads up to the next line end, without it.
func (in *incoming) line() ([]byte, error) {
	line, err := in.br.ReadSlice('\n')
	switch err {
	case nil:
	case io.EOF:
		return nil, io.ErrUnexpectedEOF
	case bufio.ErrBufferFull:
		return nil, errChunk
	default:
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// Close gives the connection back to the pool when the body was read to its end and nobody has cut it, else closes it.
func (in *incoming) Close() error {
	if in.closed {
		return nil
	}
	in.closed = true
	whole := in.gone.Release()
	if whole && in.ended && !in.toClose && !in.once && !in.head.ConnectionClose() && in.br.Buffered() == 0 {
		in.p.put(in.c)
	} else {
		in.c.Close()
	}
	in.c, in.p, in.br, in.gone = nil, nil, nil, nil
	incomings.Put(in)
	return nil
}
