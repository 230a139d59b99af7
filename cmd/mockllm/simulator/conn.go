package simulator

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	bufSize  = 4 << 10
	headMax  = 1 << 20
	bodyMax  = 128 << 20
	spareMax = 1 << 20 // larger buffers are given back after the request
)

// conn is one client connection: a read buffer, a write buffer and the request being answered. Only its own
// goroutine touches it, except that Close closes the socket.
type conn struct {
	s    *Server
	c    *net.TCPConn
	wg   *sync.WaitGroup
	buf  []byte // unread bytes are buf[r:w]
	r, w int
	out  []byte // not yet written
	tmp  js     // one event, or a whole body
	more []byte // extra header lines of the answer
	t    turn

	counted atomic.Bool // the request is in flight

	method, path, key, model string // path with query
	body                     []byte // in buf or bodyBuf; valid until the next fill
	bodyBuf                  []byte
	headBuf                  []byte // raw header block, when records are kept
	hangUp                   bool   // the client sent connection: close

	// Caches, so that a steady connection does no map look-ups.
	lastKey, lastModel, lastPath string
	gKey, gModel, gPath          *gauge
}

// serve answers requests until the connection ends.
func (c *conn) serve() {
	defer func() {
		c.c.Close()
		c.s.dismiss(c)
	}()
	for {
		if err := c.readRequest(); err != nil {
			var bad badRequest
			if errors.As(err, &bad) {
				c.refuse(bad)
			}
			return
		}
		d, model := route(c.path)
		if d == nil {
			if !c.control() {
				return
			}
		} else if !c.answer(d, model) {
			return
		}
		if c.hangUp {
			return
		}
		c.shrink()
	}
}

// shrink gives back what one large request left behind.
func (c *conn) shrink() {
	if cap(c.bodyBuf) > spareMax {
		c.bodyBuf = nil
	}
	if cap(c.out) > spareMax {
		c.out = nil
	}
	if cap(c.tmp) > spareMax {
		c.tmp = nil
	}
	if c.r == c.w && cap(c.buf) > spareMax {
		c.buf, c.r, c.w = make([]byte, bufSize), 0, 0
	}
}

// fill reads more bytes into buf. It moves them when it must, so slices of buf do not survive it.
func (c *conn) fill() error {
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
	if c.w == len(c.buf) {
		if c.r > 0 {
			c.w = copy(c.buf, c.buf[c.r:c.w])
			c.r = 0
		} else {
			bigger := make([]byte, 2*len(c.buf))
			copy(bigger, c.buf[:c.w])
			c.buf = bigger
		}
	}
	n, err := c.c.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	return err
}

// pause waits d while watching the peer: it reports false when the peer has closed the connection, so that a
// cancelled request is seen at once and not only at the next write.
func (c *conn) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	c.c.SetReadDeadline(time.Now().Add(d))
	for {
		err := c.fill() // pipelined bytes, if any, just stay in the buffer
		if err == nil {
			if c.w-c.r > headMax {
				return false
			}
			continue
		}
		c.c.SetReadDeadline(time.Time{})
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
}

// millis turns the milliseconds of a Behavior into a duration.
func millis(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

var reasons = map[int]string{200: " OK", 400: " Bad Request", 401: " Unauthorized", 403: " Forbidden", 404: " Not Found",
	413: " Content Too Large", 429: " Too Many Requests", 500: " Internal Server Error", 502: " Bad Gateway",
	503: " Service Unavailable", 504: " Gateway Timeout", 529: " Overloaded"}

// head appends the head of a response to out; extra is more header lines, each begun with CRLF. A negative
// length means chunked.
func (c *conn) head(status int, ctype string, length int, extra []byte) {
	c.out = append(c.out, "HTTP/1.1 "...)
	c.out = strconv.AppendInt(c.out, int64(status), 10)
	reason := " OK"
	if status != 200 {
		if reason = reasons[status]; reason == "" {
			reason = " Status"
		}
	}
	c.out = append(c.out, reason...)
	c.out = append(c.out, "\r\nServer: mockllm\r\nContent-Type: "...)
	c.out = append(c.out, ctype...)
	if length >= 0 {
		c.out = append(c.out, "\r\nContent-Length: "...)
		c.out = strconv.AppendInt(c.out, int64(length), 10)
	} else {
		c.out = append(c.out, "\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked"...)
	}
	c.out = append(c.out, extra...)
	c.out = append(c.out, "\r\n\r\n"...)
}

// write sends out; false means that the client is gone.
func (c *conn) write() bool {
	_, err := c.c.Write(c.out)
	c.out = c.out[:0]
	return err == nil
}

// chunk appends one HTTP chunk holding p. An empty one would end the body, so it is left out.
func (c *conn) chunk(p []byte) {
	if len(p) == 0 {
		return
	}
	c.out = strconv.AppendInt(c.out, int64(len(p)), 16)
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, p...)
	c.out = append(c.out, "\r\n"...)
}
