package proxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// endless is a client's connection in memory: it gives the same request as soon as it was answered, some times.
type endless struct {
	net.Conn
	request []byte
	left    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	e.left--
	return copy(p, e.request), nil
}

func (*endless) Write(p []byte) (int, error)     { return len(p), nil }
func (*endless) SetReadDeadline(time.Time) error { return nil }
func (*endless) Close() error                    { return nil }

// below is a connection with a watched one below it, as one of TLS has.
type below struct {
	net.Conn
	w *watched
}

func (b below) NetConn() net.Conn           { return b.w }
func (b below) Read(p []byte) (int, error)  { return b.w.Read(p) }
func (b below) Write(p []byte) (int, error) { return b.w.Write(p) }
func (below) RemoteAddr() net.Addr          { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// atOnce is a dispatcher that has its answer ready.
type atOnce struct {
	scripted
	answer actors.Answer
}

func (d *atOnce) Begin(*actors.Call) actors.Answer { return d.answer }

// BenchmarkServe takes a call of 1 KB from a client's bytes to the dispatcher and the answer back: all that the data plane does
// itself, without the kernel.
func BenchmarkServe(b *testing.B) {
	snap := snapshot(catalog.Key{ID: "team-a", Hash: sha(secretA)})
	d := &atOnce{answer: actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{"ok":true}`)}}
	s, err := Open(Options{Dispatcher: d, Catalog: func() *catalog.Snapshot { return snap }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	defer s.refusals.close()
	client := &endless{left: b.N, request: []byte(message("POST", "/v1/chat/completions",
		`{"model":"gpt-x","messages":[{"role":"user","content":"`+strings.Repeat("word ", 180)+`"}]}`,
		"User-Agent", "OpenAI/Python 1.99.0", "Accept", "application/json", "Connection", "keep-alive", "Content-Type", "application/json",
		"Authorization", "Bearer "+secretA))}
	b.ReportAllocs()
	b.ResetTimer()
	_ = s.http.ServeConn(below{client, &watched{io: client, w: s.watch}})
	if client.left > 0 {
		b.Fatalf("%d requests were not taken", client.left)
	}
}
