package load

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

var (
	errEOF      = errors.New("eof")
	errProtocol = errors.New("not an HTTP/1.1 response")
)

// kind names an error for the result.
func kind(err error) string {
	switch {
	case err == errEOF:
		return "eof"
	case err == errProtocol:
		return "protocol"
	case errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	}
	return "other"
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// answer is what has been read of one response.
type answer struct {
	status    int
	bytes     int64
	first     time.Time // of the first body byte; zero = none yet
	events    int
	aborted   bool
	keepAlive bool
	abort     bool // abandon it when the options say so
	sse       bool
	length    int // -1 = until the connection closes
	chunked   bool
}

// errAborted ends the reading of an answer that is abandoned on purpose.
var errAborted = errors.New("aborted")

func (w *worker) fill() error {
	if w.r == w.w {
		w.r, w.w = 0, 0
	}
	if w.w == len(w.buf) {
		if w.r > 0 {
			w.w = copy(w.buf, w.buf[w.r:w.w])
			w.r = 0
		} else if len(w.buf) >= lineMax {
			return errProtocol
		} else {
			bigger := make([]byte, 2*len(w.buf))
			copy(bigger, w.buf[:w.w])
			w.buf = bigger
		}
	}
	n, err := w.conn.Read(w.buf[w.w:])
	w.w += n
	switch {
	case n > 0:
		return nil
	case err == io.EOF:
		return errEOF
	case w.a.abort && w.run.o.AbortAfter > 0 && errors.Is(err, os.ErrDeadlineExceeded):
		return errAborted
	}
	return err
}

// lineMax bounds a header block or a chunk size line.
const lineMax = 1 << 20

// exchange sends one request and reads the answer into w.a. A nil error with a.aborted set means that it was
// abandoned on purpose.
func (w *worker) exchange(abort bool) error {
	w.a = answer{abort: abort, length: -1, keepAlive: true}
	w.lines = lineScanner{}
	w.terminal.reset()
	w.expect.reset()
	w.deadline(abort)
	_, err := w.conn.Write(w.request)
	if err == nil {
		err = w.readHead()
	}
	if err == nil && abort && w.run.o.AbortAfterEvents == 0 {
		err = errAborted
	}
	if err == nil {
		err = w.readBody()
	}
	if err == errAborted {
		w.a.aborted, err = true, nil
	}
	return err
}

// deadline renews the connection's deadline when a quarter of it is used up: a system call less per request.
func (w *worker) deadline(abort bool) {
	now, o := time.Now(), &w.run.o
	if w.renewed.IsZero() || now.Sub(w.renewed) > o.Timeout/4 {
		w.conn.SetDeadline(now.Add(o.Timeout))
		w.renewed = now
	}
	if abort && o.AbortAfter > 0 {
		w.conn.SetReadDeadline(now.Add(o.AbortAfter))
		w.renewed = time.Time{}
	}
}

// readHead reads status line and headers, past any 100 Continue.
func (w *worker) readHead() error {
	from := 0
	for {
		i := bytes.Index(w.buf[w.r+from:w.w], []byte("\r\n\r\n"))
		if i < 0 {
			from = max(0, w.w-w.r-3)
			if err := w.fill(); err != nil {
				return err
			}
			continue
		}
		head := w.buf[w.r : w.r+from+i]
		w.r, from = w.r+from+i+4, 0
		if bytes.HasPrefix(head, []byte("HTTP/1.1 100")) {
			continue
		}
		return w.a.readFields(head, w.run.o.Stream)
	}
}

func (a *answer) readFields(head []byte, stream bool) (err error) {
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.")) {
		return errProtocol
	}
	if a.status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return errProtocol
	}
	a.keepAlive = head[7] != '0'
	a.sse = stream && a.status == 200
	_, rest, _ := bytes.Cut(head, []byte("\r\n"))
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if v, ok := field(line, "content-length"); ok {
			if a.length, err = strconv.Atoi(string(v)); err != nil || a.length < 0 {
				return errProtocol
			}
		} else if v, ok := field(line, "connection"); ok && bytes.EqualFold(v, []byte("close")) {
			a.keepAlive = false
		} else if v, ok := field(line, "transfer-encoding"); ok {
			a.chunked = bytes.EqualFold(v, []byte("chunked"))
		}
	}
	return nil
}

// field returns the value of a header line, if its name is name.
func field(line []byte, name string) ([]byte, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name)+1:]), true
}

func (w *worker) readBody() error {
	switch {
	case w.a.chunked:
		return w.readChunks()
	case w.a.length >= 0:
		return w.readBytes(w.a.length)
	}
	w.a.keepAlive = false
	for {
		if err := w.readBytes(1); err == errEOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := w.eat(w.w - w.r); err != nil {
			return err
		}
	}
}

func (w *worker) readChunks() error {
	for {
		line, err := w.readLine()
		if err != nil {
			return err
		}
		hex, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 40)
		if err != nil {
			return errProtocol
		}
		if err := w.readBytes(int(n)); err != nil {
			return err
		}
		for {
			line, err := w.readLine() // the end of the chunk; after the last one, trailers and an empty line
			if err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
			if n > 0 {
				return errProtocol
			}
		}
		if n == 0 {
			return nil
		}
	}
}

// readLine returns the next line without its end; it is valid until the next fill.
func (w *worker) readLine() ([]byte, error) {
	for {
		if i := bytes.IndexByte(w.buf[w.r:w.w], '\n'); i >= 0 {
			line := bytes.TrimSpace(w.buf[w.r : w.r+i])
			w.r += i + 1
			return line, nil
		}
		if err := w.fill(); err != nil {
			return nil, err
		}
	}
}

// readBytes reads n bytes of the body.
func (w *worker) readBytes(n int) error {
	for n > 0 {
		if w.r == w.w {
			if err := w.fill(); err != nil {
				return err
			}
		}
		k := min(n, w.w-w.r)
		if err := w.eat(k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// eat looks at the next n bytes, which are in the buffer, and passes them.
func (w *worker) eat(n int) error {
	if n == 0 {
		return nil
	}
	p, a := w.buf[w.r:w.r+n], &w.a
	w.r += n
	if a.first.IsZero() {
		a.first = time.Now()
	}
	a.bytes += int64(n)
	if w.run.o.Expect != "" {
		w.expect.write(p)
	}
	if !a.sse {
		return nil
	}
	w.terminal.write(p)
	if fresh := w.lines.write(p); fresh > 0 {
		a.events += fresh
		if s := w.run.window.Load(); s != nil {
			s.events.Add(int64(fresh))
		}
	}
	if a.abort && w.run.o.AbortAfterEvents > 0 && a.events >= w.run.o.AbortAfterEvents {
		return errAborted
	}
	return nil
}
