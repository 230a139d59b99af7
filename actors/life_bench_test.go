package actors_test

import (
	"io"
	"testing"

	"github.com/penstock/penstock/actors"
)

// canned is an upstream that answers every call at once, from memory.
type canned struct{ body string }

func (c canned) Send(*actors.Outgoing) (actors.Incoming, error) {
	return &cannedAnswer{body: c.body}, nil
}

type cannedAnswer struct {
	body string
	at   int
}

func (a *cannedAnswer) Status() int { return 200 }

func (a *cannedAnswer) Header(name string) string {
	if name == "Content-Type" {
		return "application/json"
	}
	return ""
}

func (a *cannedAnswer) Headers(yield func(name, value []byte)) {
	yield([]byte("Content-Type"), []byte("application/json"))
}

func (a *cannedAnswer) Length() int                           { return len(a.body) }
func (a *cannedAnswer) Decode(r io.Reader) (io.Reader, error) { return r, nil }
func (a *cannedAnswer) Buffered() int                         { return len(a.body) - a.at }
func (a *cannedAnswer) Close() error                          { return nil }

func (a *cannedAnswer) Read(p []byte) (int, error) {
	if a.at == len(a.body) {
		return 0, io.EOF
	}
	n := copy(p, a.body[a.at:])
	a.at += n
	return n, nil
}

// BenchmarkLife is one request from its admission to its settlement, behind its journal. Nothing waits for the store, so
// that what is measured is the request and not the group commit.
func BenchmarkLife(b *testing.B) {
	r := newRig(b, upstream("a", slots(1000)), account("a1", "a"), key("k"))
	r.Durability = actors.Relaxed
	r.Transport = canned{`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},` +
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`}
	b.ReportAllocs()
	for b.Loop() {
		if r.calls%16 == 0 { // the journal has room for so many that are open
			if err := r.journal.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if a := r.Begin(r.chat()); a.Status != 200 {
			b.Fatal(a.Status, string(a.Body))
		}
	}
}
