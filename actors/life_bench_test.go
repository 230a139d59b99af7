package actors_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"testing"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
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

// BenchmarkLife is one request from its admission to its settlement, behind its journal. Nothing waits for the store, which
// keeps nothing, so that what is measured is the request.
func BenchmarkLife(b *testing.B) {
	r := newRig(b, upstream("a", slots(1000)), account("a1", "a"), key("k"))
	r.Durability = actors.Relaxed
	r.Transport = canned{`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},` +
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`}
	const rooms = 1024 // of requests that are open
	journal := events.NewJournal(events.JournalOptions{Store: storetest.Swallowing{}, Node: "n", Rooms: rooms})
	defer journal.Close(context.Background())
	r.Journal = journal
	first, headers := *r.chat(), make([]actors.Header, 0, 8)
	id := []byte("019db5d5-0000-7000-8000-000000000000")
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		if n%(rooms/2) == 0 {
			if err := journal.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		hex.Encode(id[len(id)-8:], binary.BigEndian.AppendUint32(nil, uint32(n)))
		c := first
		c.ID, c.Gone, c.Headers = string(id), &actors.Gone{}, headers
		if a := r.Begin(&c); a.Status != 200 {
			b.Fatal(a.Status, string(a.Body))
		}
	}
}
