package outbound

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
)

const head = "HTTP/1.1 200 OK\r\n"

var framings = []struct {
	what   string
	raw    string
	closes bool // the upstream closes behind it
	status int
	body   string
	length int
	reused bool // the connection carries the next call
}{
	{"content-length", head + "Content-Length: 5\r\n\r\nhello", false, 200, "hello", 5, true},
	{"an empty body", head + "Content-Length: 0\r\n\r\n", false, 200, "", 0, true},
	{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n", false, 200, "hello 0123456789", -1, true},
	{"chunk extensions", head + "Transfer-Encoding: chunked\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n0;last\r\n\r\n", false, 200, "hello", -1, true},
	{"trailers", head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n", false, 200, "hi", -1, true},
	{"no chunk at all", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, 200, "", -1, true},
	{"bare line ends", head + "Transfer-Encoding: chunked\r\n\r\n2\nhi\n0\n\n", false, 200, "hi", -1, true},
	{"a body that ends with the connection", head + "\r\nhello", true, 200, "hello", -1, false},
	{"connection: close", head + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, false},
	{"100 first", "HTTP/1.1 100 Continue\r\n\r\n" + plainOK, false, 200, "ok", 2, true},
	{"103 and 102 first", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + plainOK, false, 200, "ok", 2, true},
	{"204", "HTTP/1.1 204 No Content\r\n\r\n", false, 204, "", 0, true},
	{"304", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", false, 304, "", 0, true},
	{"HTTP/1.0 with a length", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", 5, false},
	{"HTTP/1.0 without one", "HTTP/1.0 200 OK\r\n\r\nhello", true, 200, "hello", -1, false},
	{"an error of the upstream", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}", false, 429, "{}", 2, true},
	{"more than was announced", head + "Content-Length: 2\r\n\r\nok!", false, 200, "ok", 2, false},
}

func TestABodyOfAnyFramingReadsWholeHoweverItIsCut(t *testing.T) {
	for _, c := range framings {
		t.Run(c.what, func(t *testing.T) {
			for cut := 0; cut <= len(c.raw); cut += max(1, len(c.raw)/40) {
				u := serve(t, func(p *peer) {
					for p.request() != nil {
						if p.say(c.raw[:cut], c.raw[cut:]); c.closes {
							return
						}
					}
				})
				tr := transport(t)
				surplus := c.what == "more than was announced" // it may come too late to be noticed by the call before
				for i := range 2 {
					in, err := tr.Send(call(u))
					if surplus && i > 0 && err != nil {
						require.Equal(t, actors.PhaseMalformed, phase(t, err), "never taken for an answer")
						break
					}
					require.NoError(t, err)
					require.Equal(t, c.status, in.Status())
					require.Equal(t, c.length, in.Length())
					b, err := io.ReadAll(in)
					require.NoError(t, err)
					require.Equal(t, c.body, string(b))
					_, err = in.Read(make([]byte, 1))
					require.Equal(t, io.EOF, err, "the end stays the end")
					require.NoError(t, in.Close())
				}
				if !surplus {
					require.Equal(t, map[bool]int32{true: 1, false: 2}[c.reused], u.accepted.Load(), "connections, cut at %d", cut)
				}
			}
		})
	}
}

func TestABodyThatComesByteByByteReadsWhole(t *testing.T) {
	for _, c := range framings {
		u := serve(t, func(p *peer) {
			for p.request() != nil {
				if p.say(strings.Split(c.raw, "")...); c.closes {
					return
				}
			}
		})
		require.Equal(t, c.body, whole(t, transport(t), call(u)), c.what)
	}
}

func TestAnAnswerThatIsNoneEndsInItsPhaseAndItsConnectionIsNotUsedAgain(t *testing.T) {
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		what, raw string
		phase     actors.Phase
	}{
		{"no HTTP", "SSH-2.0-OpenSSH_9.6\r\n\r\n", actors.PhaseMalformed},
		{"no status", "HTTP/1.1 abc OK\r\n\r\n", actors.PhaseMalformed},
		{"a length that is no number", head + "Content-Length: many\r\n\r\n", actors.PhaseMalformed},
		{"two lengths", head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", actors.PhaseMalformed},
		{"a header line that is none", head + "no colon\r\n\r\n", actors.PhaseMalformed},
		{"a head of 20 KB", head + "X-Long: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", actors.PhaseMalformed},
		{"closed without a byte", "", actors.PhaseFirstByte},
		{"closed within the head", head + "Content-Le", actors.PhaseFirstByte},
		{"closed after 100", "HTTP/1.1 100 Continue\r\n\r\n", actors.PhaseFirstByte},
		{"closed within the body", head + "Content-Length: 5\r\n\r\nhel", actors.PhaseBody},
		{"closed within a chunk", chunked + "5\r\nhel", actors.PhaseBody},
		{"closed between chunks", chunked + "5\r\nhello\r\n", actors.PhaseBody},
		{"closed before the last line", chunked + "5\r\nhello\r\n0\r\n", actors.PhaseBody}, // pain 56: no clean end
		{"a chunk size that is none", chunked + "xyz\r\nhello", actors.PhaseMalformed},
		{"a negative chunk size", chunked + "-5\r\nhello", actors.PhaseMalformed},
		{"no chunk size", chunked + "\r\nhello", actors.PhaseMalformed},
		{"a huge chunk size", chunked + "fffffffffffffffff\r\nhello", actors.PhaseMalformed},
		{"a chunk longer than announced", chunked + "2\r\nhello\r\n0\r\n\r\n", actors.PhaseMalformed},
		{"a chunk line of 20 KB", chunked + "5;" + strings.Repeat("x", 20<<10) + "\r\nhello\r\n", actors.PhaseMalformed},
		{"trailers without end", chunked + "0\r\n" + strings.Repeat("X-T: "+strings.Repeat("x", 1000)+"\r\n", 100), actors.PhaseMalformed},
	} {
		t.Run(c.what, func(t *testing.T) {
			u := serve(t, func(p *peer) {
				if p.request() != nil {
					p.say(c.raw)
				}
			})
			tr := transport(t)
			require.Equal(t, c.phase, outcome(t, tr, call(u)))
			require.Equal(t, int32(1), u.requests.Load(), "nothing is sent twice by itself")
			require.Nil(t, tr.pool("http", u.host).get(time.Now()), "the connection is not kept")
		})
	}
}

// What the client sees is what the upstream said, and nothing invented.
func TestHeadersOfTheAnswerComeAsTheUpstreamSentThem(t *testing.T) {
	u := serve(t, func(p *peer) {
		for p.request() != nil {
			p.say(head + "X-Request-Id: abc\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nX-Two: 1\r\nX-Two: 2\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	in := send(t, transport(t), call(u))
	defer in.Close()
	var lines []string
	in.Headers(func(name, value []byte) { lines = append(lines, string(name)+": "+string(value)) })
	require.ElementsMatch(t, []string{"Content-Length: 2", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2", "X-Request-Id: abc", "X-Two: 1", "X-Two: 2"}, lines)
	require.Equal(t, "abc", in.Header("x-request-id"))
	require.Empty(t, in.Header("Content-Type"), "the upstream named none")
}

// Pains 59, 60: what has come is handed on at once, and what has come together can leave together.
func TestBufferedNamesWhatAReadGivesWithoutWaiting(t *testing.T) {
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		what, raw string
		read      int // bytes that are read first
		buffered  int
	}{
		{"the rest of a length", head + "Content-Length: 10\r\n\r\nhello", 2, 3},
		{"a length and surplus", head + "Content-Length: 5\r\n\r\nhello and more", 2, 3},
		{"the rest of a chunk", chunked + "5\r\nhello\r\n", 2, 3},
		{"only the end of a chunk", chunked + "5\r\nhello\r\n", 5, 0},
		{"half an end of a chunk", chunked + "5\r\nhello\r", 5, 0},
		{"no end of a chunk", chunked + "5\r\nhello", 5, 0},
		{"a header without data", chunked + "5\r\nhello\r\n7\r\n", 5, 0},
		{"half a header", chunked + "5\r\nhello\r\n1", 5, 0},
		{"a header and some data", chunked + "5\r\nhello\r\n7;x=y\r\nwor", 5, 3},
		{"a header, its data and more", chunked + "5\r\nhello\r\n3\r\nwor\r\n2\r\nld", 5, 3},
		{"the end without its last line", chunked + "5\r\nhello\r\n0\r\n", 5, 0},
		{"the end and half its last line", chunked + "5\r\nhello\r\n0\r\n\r", 5, 0},
		{"the end with a trailer that has no end yet", chunked + "5\r\nhello\r\n0\r\nX-Sum: 1\r\n", 5, 0},
		{"the whole end", chunked + "5\r\nhello\r\n0\r\n\r\n", 5, 1},
		{"the whole end with a trailer", chunked + "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", 5, 1},
		{"a malformed header", chunked + "5\r\nhello\r\nzz\r\n", 5, 1},
		{"a body that ends with the connection", head + "\r\nhello", 2, 3},
	} {
		t.Run(c.what, func(t *testing.T) {
			u := serve(t, func(p *peer) {
				if p.request() != nil {
					p.say(c.raw) // in one packet
					p.gone()     // and then it stands still
				}
			})
			o := call(u)
			in := send(t, transport(t), o)
			defer in.Close()
			got := make([]byte, c.read)
			_, err := io.ReadFull(in, got)
			require.NoError(t, err)
			require.Equal(t, c.buffered, in.Buffered())
			if c.buffered == 0 {
				return
			}
			within(t, 30*time.Second, "a Read of what is buffered does not wait", func() {
				n, _ := in.Read(make([]byte, 1024))
				if n > 0 {
					require.Equal(t, c.buffered, n)
				}
			})
		})
	}
}

func TestAStreamIsHandedOnEventByEvent(t *testing.T) {
	next := make(chan struct{})
	u := serve(t, func(p *peer) {
		if p.request() == nil {
			return
		}
		p.say(head + "Transfer-Encoding: chunked\r\n\r\n")
		for range 3 {
			p.say("9\r\ndata: x\n\n\r\n9\r\ndata: y\n\n\r\n")
			<-next
		}
		p.say("0\r\n\r\n")
	})
	in := send(t, transport(t), call(u))
	defer in.Close()
	for range 3 { // the loop of a stream pump: read, then what is there already
		var got []byte
		b := make([]byte, 1024)
		for len(got) < 18 {
			n, err := in.Read(b)
			require.NoError(t, err)
			got = append(got, b[:n]...)
			for in.Buffered() > 0 {
				n, err = in.Read(b)
				require.NoError(t, err)
				got = append(got, b[:n]...)
			}
		}
		require.Equal(t, "data: x\n\ndata: y\n\n", string(got))
		next <- struct{}{}
	}
	_, err := in.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

func TestDecodeReadsWhatAnUpstreamCompressedUnasked(t *testing.T) {
	plain := strings.Repeat(`{"usage":{"prompt_tokens":12,"completion_tokens":34}}`+"\n", 200)
	pack := func(f func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		w := f(&b)
		_, err := io.WriteString(w, plain)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	packed := map[string][]byte{
		"identity": []byte(plain),
		"gzip":     pack(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"br":       pack(func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }),
		"deflate":  pack(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"zstd":     pack(func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }),
	}
	packed["x-gzip"], packed["GZip "], packed[""] = packed["gzip"], packed["gzip"], packed["identity"]
	packed["deflate without zlib's head"] = pack(func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 6); return z })
	decode := func(name string, data []byte) ([]byte, error) {
		encoding, _, _ := strings.Cut(name, " without")
		in := &incoming{}
		in.head.Set("Content-Encoding", encoding)
		r, err := in.Decode(bytes.NewReader(data))
		require.NoError(t, err, name)
		return io.ReadAll(r)
	}
	for name, data := range packed {
		got, err := decode(name, data)
		require.NoError(t, err, name)
		require.Equal(t, plain, string(got), name)
		if name == "" || name == "identity" {
			continue
		}
		got, err = decode(name, data[:len(data)/2]) // cut
		require.Error(t, err, "%s, truncated", name)
		require.True(t, strings.HasPrefix(plain, string(got)), "%s: what came before the cut is right", name)
		_, err = decode(name, []byte{0xff})
		require.Error(t, err, "%s, garbage", name)
	}
	in := &incoming{}
	in.head.Set("Content-Encoding", "compress")
	_, err := in.Decode(strings.NewReader(""))
	require.ErrorContains(t, err, `"compress"`)
}

// Some send a body behind a status that has none: it is not the start of the next answer.
func TestABodyThatMayNotBeIsNotTheNextAnswer(t *testing.T) {
	for head, connections := range map[string]int32{
		"HTTP/1.1 204 No Content\r\n\r\n":                                 1,
		"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n":            1,
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n":            2,
		"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n":   2,
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n":          2,
		"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n": 2,
	} {
		u := serve(t, func(p *peer) {
			for p.request() != nil {
				p.say(head)
			}
		})
		tr := transport(t)
		for range 2 {
			require.Empty(t, whole(t, tr, call(u)), head)
		}
		require.Equal(t, connections, u.accepted.Load(), head)
	}
}
