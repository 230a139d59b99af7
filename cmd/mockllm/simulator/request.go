package simulator

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// badRequest is a request that cannot be read; it is answered and the connection closed.
type badRequest struct {
	status int
	why    string
}

func (b badRequest) Error() string { return b.why }

// refuse answers and closes, reading on for a moment first: closing over unread bytes would send RST, which can
// overtake the answer.
func (c *conn) refuse(b badRequest) {
	c.out = c.out[:0]
	body := fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error"}}`, "mockllm: "+b.why)
	c.head(b.status, "application/json", len(body), []byte("\r\nConnection: close"))
	c.out = append(c.out, body...)
	if c.write() {
		c.c.CloseWrite()
		c.c.SetReadDeadline(time.Now().Add(time.Second))
		io.CopyN(io.Discard, c.c, 4*headMax)
	}
}

// framing is what the header block says about the body.
type framing struct {
	length          int
	chunked, expect bool
}

// readRequest parses one request into c. It returns an error at the end of the connection, and a badRequest
// for what is not HTTP/1.1.
func (c *conn) readRequest() error {
	head, err := c.readHead()
	if err != nil {
		return err
	}
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	method, target, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return badRequest{400, "bad request line"}
	}
	target, _, _ = bytes.Cut(target, []byte(" "))
	c.method = intern(method, c.method)
	c.path = intern(target, c.path)
	if c.s.track {
		c.headBuf = append(c.headBuf[:0], rest...)
	}
	f, err := c.readFields(rest)
	if err != nil {
		return err
	}
	// From here head may be overwritten.
	if f.expect {
		if _, err := c.c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return err
		}
	}
	c.bodyBuf = c.bodyBuf[:0]
	if f.chunked {
		return c.readChunks()
	}
	if f.length <= c.w-c.r { // the usual case: the whole body is already in the buffer
		c.body = c.buf[c.r : c.r+f.length]
		c.r += f.length
		return nil
	}
	err = c.take(f.length)
	c.body = c.bodyBuf
	return err
}

// readHead returns the request line and the header block without the empty line at the end.
func (c *conn) readHead() ([]byte, error) {
	from := 0
	for {
		if i := bytes.Index(c.buf[c.r+from:c.w], []byte("\r\n\r\n")); i >= 0 {
			head := c.buf[c.r : c.r+from+i]
			c.r += from + i + 4
			return head, nil
		}
		from = max(0, c.w-c.r-3)
		if c.w-c.r > headMax {
			return nil, badRequest{431, "header block too large"}
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// readFields takes the credential and the framing out of the header block.
func (c *conn) readFields(rest []byte) (f framing, err error) {
	c.hangUp = false
	var line, key []byte
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if len(line) == 0 {
			continue
		}
		switch line[0] | 0x20 {
		case 'c':
			if v, ok := field(line, "content-length"); ok {
				if f.length, err = strconv.Atoi(string(v)); err != nil || f.length < 0 {
					return f, badRequest{400, "bad content-length"}
				}
			} else if v, ok := field(line, "connection"); ok && bytes.EqualFold(v, []byte("close")) {
				c.hangUp = true
			}
		case 'a':
			if v, ok := field(line, "authorization"); ok {
				key = bytes.TrimPrefix(v, []byte("Bearer "))
			} else if v, ok := field(line, "api-key"); ok {
				key = v
			}
		case 'x':
			if v, ok := field(line, "x-api-key"); ok {
				key = v
			} else if v, ok := field(line, "x-goog-api-key"); ok {
				key = v
			}
		case 't':
			if v, ok := field(line, "transfer-encoding"); ok {
				f.chunked = bytes.EqualFold(v, []byte("chunked"))
			}
		case 'e':
			if _, ok := field(line, "expect"); ok {
				f.expect = true
			}
		}
	}
	if f.length > bodyMax {
		return f, badRequest{413, "body too large"}
	}
	if key == nil {
		if _, query, ok := strings.Cut(c.path, "key="); ok {
			k, _, _ := strings.Cut(query, "&")
			key = []byte(k)
		}
	}
	c.key = intern(key, c.key)
	return f, nil
}

// readChunks reads a chunked body into bodyBuf.
func (c *conn) readChunks() error {
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		hex, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 31)
		if err != nil {
			return badRequest{400, "bad chunk size"}
		}
		if n == 0 {
			break
		}
		if len(c.bodyBuf)+int(n) > bodyMax {
			return badRequest{413, "body too large"}
		}
		if err := c.take(int(n)); err != nil {
			return err
		}
		if line, err := c.readLine(); err != nil || len(line) > 0 {
			return badRequest{400, "chunk not ended by CRLF"}
		}
	}
	c.body = c.bodyBuf
	for { // trailers, up to the empty line
		if line, err := c.readLine(); err != nil || len(line) == 0 {
			return err
		}
	}
}

// readLine returns the next line without its end; it is valid until the next fill.
func (c *conn) readLine() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.buf[c.r:c.w], '\n'); i >= 0 {
			line := bytes.TrimSpace(c.buf[c.r : c.r+i])
			c.r += i + 1
			return line, nil
		}
		if c.w-c.r > headMax {
			return nil, badRequest{400, "line too long"}
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// take appends n body bytes to bodyBuf.
func (c *conn) take(n int) error {
	for n > 0 {
		if c.r == c.w {
			if n >= len(c.buf) { // a large body: read straight into place
				at := len(c.bodyBuf)
				c.bodyBuf = slices.Grow(c.bodyBuf, n)[:at+n]
				_, err := io.ReadFull(c.c, c.bodyBuf[at:])
				return err
			}
			if err := c.fill(); err != nil {
				return err
			}
		}
		k := min(n, c.w-c.r)
		c.bodyBuf = append(c.bodyBuf, c.buf[c.r:c.r+k]...)
		c.r += k
		n -= k
	}
	return nil
}

// intern returns old when it equals b: no allocation on a steady connection.
func intern(b []byte, old string) string {
	if string(b) == old {
		return old
	}
	return string(b)
}

// field returns the value of a header line, if its name is name (lower case).
func field(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}
