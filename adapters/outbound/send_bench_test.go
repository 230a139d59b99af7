package outbound

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
)

// answering is a connection in memory to an upstream that answers each request with the same bytes, all at once.
type answering struct {
	net.Conn
	answer, left []byte
}

func (a *answering) Write(p []byte) (int, error) {
	a.left = a.answer
	return len(p), nil
}

func (a *answering) Read(p []byte) (int, error) {
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

func (*answering) SetReadDeadline(time.Time) error  { return nil }
func (*answering) SetWriteDeadline(time.Time) error { return nil }
func (*answering) Close() error                     { return nil }

// BenchmarkSend sends a call of 1 KB and takes its answer, all that an attempt does here but for the kernel.
func BenchmarkSend(b *testing.B) {
	t := New(Egress{})
	defer t.Close()
	const host = "upstream:8080"
	answer := `{"id":"chatcmpl-1","choices":[{"message":{"content":"` + strings.Repeat("word ", 180) + `"}}]}`
	c := newConn(&answering{answer: []byte("HTTP/1.1 200 OK\r\nServer: some\r\nContent-Type: application/json\r\nX-Request-Id: req_1234567890\r\n" +
		"Date: Sun, 29 Nov 2026 22:00:00 GMT\r\nContent-Length: " + strconv.Itoa(len(answer)) + "\r\n\r\n" + answer)}, nil)
	t.pool("http", host).put(c)
	o := &actors.Outgoing{
		Method: "POST", Scheme: "http", Host: host, Target: "/v1/chat/completions", Body: []byte(strings.Repeat("x", 1000)),
		Headers: []actors.Header{
			{Name: "Content-Type", Value: "application/json"}, {Name: "User-Agent", Value: "OpenAI/Python 1.99.0"}, {Name: "Accept", Value: "application/json"},
			{Name: "Authorization", Value: "Bearer sk-0123456789012345678901234567890123456789"}, {Name: "Accept-Encoding", Value: "identity"},
		},
		Connect: 10 * time.Second, First: 30 * time.Second, Idle: 60 * time.Second, Gone: &actors.Gone{},
	}
	body := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		in, err := t.Send(o)
		if err != nil {
			b.Fatal(err)
		}
		if in.Header("Content-Encoding") != "" {
			b.Fatal("encoded")
		}
		in.Headers(func(name, value []byte) {})
		n := 0
		for err == nil {
			var k int
			k, err = in.Read(body[n:])
			n += k
		}
		if err != io.EOF || n != len(answer) {
			b.Fatal(n, err)
		}
		_ = in.Close()
	}
}
