package actors_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"

	"github.com/penstock/penstock/actors"
)

// chunk is what one Read of an upstream's answer gives.
type chunk struct {
	data  string
	err   actors.Phase  // ends the body with this error
	hold  chan struct{} // waits for it first, or for the cut
	do    func()        // runs first
	panic bool
}

// reply is one answer of an upstream, as data.
type reply struct {
	fail   actors.Phase  // Send fails with it
	hold   chan struct{} // Send waits for it first, or for the cut
	do     func()        // runs in Send
	panics string        // send, headers: that method panics
	status int           // default 200
	header map[string]string
	body   []chunk
}

// call is what an upstream was sent.
type call struct {
	host, target, auth string
	fresh              bool
	body               string
}

// upstreams is a Transport that plays replies, in order, by host; then healthy ones.
type upstreams struct {
	mu      sync.Mutex
	replies map[string][]reply
	calls   []call
	script  func(*actors.Outgoing) reply // stands in for replies when set
	open    atomic.Int64                 // answers that were not closed
	reused  atomic.Int64                 // answers that were closed after their end
	active  map[string]int
	most    map[string]int
}

func (u *upstreams) next(o *actors.Outgoing) reply {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := call{host: o.Host, target: o.Target, fresh: o.Fresh, body: string(o.Body)}
	for _, h := range o.Headers {
		if h.Name == "Authorization" {
			c.auth = h.Value
		}
	}
	u.calls = append(u.calls, c)
	if u.script != nil {
		return u.script(o)
	}
	if rs := u.replies[o.Host]; len(rs) > 0 {
		u.replies[o.Host] = rs[1:]
		return rs[0]
	}
	return whole(okBody)
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

func sendError(p actors.Phase) error { return &actors.SendError{Phase: p, Err: errors.New("scripted")} }

func (u *upstreams) enter(host string, by int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active[host] += by
	u.most[host] = max(u.most[host], u.active[host])
}

func (u *upstreams) Send(o *actors.Outgoing) (actors.Incoming, error) {
	r := u.next(o)
	in := &incoming{u: u, reply: r, gone: o.Gone, host: o.Host, cut: make(chan struct{})}
	u.enter(o.Host, 1)
	fail := func(p actors.Phase) (actors.Incoming, error) {
		o.Gone.Release()
		u.enter(o.Host, -1)
		return nil, sendError(p)
	}
	if !o.Gone.Hold(closeFunc(sync.OnceFunc(func() { close(in.cut) }))) {
		return fail(actors.PhaseCancelled)
	}
	if r.do != nil {
		r.do()
	}
	if r.panics == "send" {
		u.enter(o.Host, -1)
		panic("scripted: send")
	}
	if !in.pass(r.hold) {
		return fail(actors.PhaseCancelled)
	}
	if r.fail != "" {
		return fail(r.fail)
	}
	u.open.Add(1)
	return in, nil
}

type incoming struct {
	u      *upstreams
	reply  reply
	gone   *actors.Gone
	host   string
	cut    chan struct{}
	rest   string
	ended  bool
	closed bool
}

// pass waits; false: the call was cut.
func (in *incoming) pass(hold chan struct{}) bool {
	if hold != nil {
		select {
		case <-hold:
		case <-in.cut:
		}
	}
	select {
	case <-in.cut:
		return false
	default:
		return true
	}
}

func (in *incoming) Read(p []byte) (int, error) {
	if in.rest == "" {
		if in.ended || len(in.reply.body) == 0 {
			in.ended = true
			return 0, io.EOF
		}
		c := in.reply.body[0]
		in.reply.body = in.reply.body[1:]
		if c.do != nil {
			c.do()
		}
		if c.panic {
			panic("scripted: read")
		}
		if !in.pass(c.hold) {
			return 0, sendError(actors.PhaseCancelled)
		}
		if c.err != "" {
			return 0, sendError(c.err)
		}
		in.rest = c.data
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

func (in *incoming) Close() error {
	if in.closed {
		panic("an answer was closed twice")
	}
	in.closed = true
	if in.gone.Release() && in.ended {
		in.u.reused.Add(1)
	}
	in.u.open.Add(-1)
	in.u.enter(in.host, -1)
	return nil
}

func (in *incoming) Status() int {
	if in.reply.status == 0 {
		return 200
	}
	return in.reply.status
}
func (in *incoming) Header(name string) string { return in.reply.header[http.CanonicalHeaderKey(name)] }
func (in *incoming) Headers(yield func(name, value []byte)) {
	if in.reply.panics == "headers" {
		panic("scripted: headers")
	}
	for k, v := range in.reply.header {
		yield([]byte(k), []byte(v))
	}
}
func (in *incoming) Length() int { return -1 }
func (in *incoming) Decode(r io.Reader) (io.Reader, error) {
	if in.Header("Content-Encoding") == "gzip" {
		return &lazyGzip{r: r}, nil
	}
	return nil, errors.New("unknown encoding")
}
func (in *incoming) Buffered() int { return len(in.rest) }

type lazyGzip struct {
	r io.Reader
	z *gzip.Reader
}

func (l *lazyGzip) Read(p []byte) (n int, err error) {
	if l.z == nil {
		if l.z, err = gzip.NewReader(l.r); err != nil {
			return 0, err
		}
	}
	return l.z.Read(p)
}

const (
	okBody  = `{"id":"c1","model":"m","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
	role    = `data: {"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	hello   = `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"hello"}}]}` + "\n\n"
	finish  = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage   = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` + "\n\n"
	done    = "data: [DONE]\n\n"
	inError = `data: {"error":{"message":"boom","type":"server_error"}}` + "\n\n"
)

var (
	jsonHeader = map[string]string{"Content-Type": "application/json"}
	sseHeader  = map[string]string{"Content-Type": "text/event-stream"}
)

func whole(body string) reply { return reply{header: jsonHeader, body: texts(body)} }

func refusing(status int, body string) reply {
	return reply{status: status, header: jsonHeader, body: texts(body)}
}

func streaming(chunks ...string) reply { return reply{header: sseHeader, body: texts(chunks...)} }

func okStream() reply { return streaming(role, hello, finish, usage, done) }

func texts(parts ...string) (cs []chunk) {
	for _, p := range parts {
		cs = append(cs, chunk{data: p})
	}
	return cs
}

// gzipped compresses each part and flushes after it.
func gzipped(parts ...string) reply {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	var out []string
	for i, p := range parts {
		_, _ = z.Write([]byte(p))
		if i == len(parts)-1 {
			_ = z.Close()
		} else {
			_ = z.Flush()
		}
		out = append(out, b.String())
		b.Reset()
	}
	r := streaming(out...)
	r.header = map[string]string{"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
	return r
}
