package penstock_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/outbound"
	"github.com/penstock/penstock/adapters/proxy"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

const usageOf20 = `"usage":{"prompt_tokens":200,"completion_tokens":20,"total_tokens":220}`

// BenchmarkRequestPath takes one small call after the other through the data plane, from socket to socket: all that a
// request costs but for the event store, which here takes everything and keeps nothing, and the read models. Client and
// upstream allocate nothing, so that what is counted is the gateway's.
func BenchmarkRequestPath(b *testing.B) {
	whole := `{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"mock-model","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Good day."},"finish_reason":"stop"}],` + usageOf20 + `}`
	event := `data: {"id":"c","object":"chat.completion.chunk","created":1790000000,"model":"mock-model","choices":[`
	stream := strings.Repeat(event+`{"index":0,"delta":{"content":"tok "},"finish_reason":null}]}`+"\n\n", 20) +
		event + `],` + usageOf20 + "}\n\ndata: [DONE]\n\n"
	for _, c := range []struct{ name, ask, kind, answer, end string }{
		{"whole", "", "application/json", whole, "}}"},
		{"stream", `"stream":true,"stream_options":{"include_usage":true},`, "text/event-stream", stream, "[DONE]\n\n\r\n0\r\n\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			upstream := answering(b, []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Request-Id: req_1\r\n"+
				"Date: Sun, 29 Nov 2026 22:00:00 GMT\r\n\r\n%s", c.kind, len(c.answer), c.answer)))
			client, err := net.Dial("tcp", dataPlane(b, upstream))
			require.NoError(b, err)
			defer client.Close()
			body := `{"model":"mock-model",` + c.ask + `"messages":[{"role":"user","content":"` + strings.Repeat("word ", 180) + `"}]}`
			request := []byte(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nUser-Agent: OpenAI/Python 1.99.0\r\n"+
				"Accept: application/json\r\nContent-Type: application/json\r\nAuthorization: Bearer sk-bench\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			answer, end := make([]byte, 64<<10), []byte(c.end)
			b.ReportAllocs()
			for b.Loop() {
				_, err := client.Write(request)
				for n, k := 0, 0; err == nil && !bytes.HasSuffix(answer[:n], end); n += k {
					k, err = client.Read(answer[n:])
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			require.True(b, bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n")), "%.200s", answer)
		})
	}
}

// answering is the address of an upstream that answers each request with the same bytes.
func answering(b *testing.B, answer []byte) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for skipRequest(in) == nil {
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func skipRequest(in *bufio.Reader) error {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(n)))
		}
		if len(line) == len("\r\n") {
			_, err := in.Discard(length)
			return err
		}
	}
}

// dataPlane is the address of a data plane with one upstream and one key, sk-bench.
func dataPlane(b *testing.B, upstream string) string {
	hash := sha256.Sum256([]byte("sk-bench"))
	state := catalog.NewState()
	for _, r := range []catalog.Resource{
		catalog.NewUpstream("a", "http://"+upstream, dialect.CapChat),
		&catalog.Account{ID: "a-1", Upstream: "a", SecretVersion: 1, Masked: "sk-***", Active: true},
		&catalog.Price{Model: "mock-*", Input: "2", Output: "8"},
		&catalog.Key{ID: "k", Hash: "sha256:" + hex.EncodeToString(hash[:]), Access: "unrestricted"},
	} {
		facts, err := catalog.Decide(state, catalog.Apply{Resource: r})
		require.NoError(b, err)
		for _, f := range facts {
			state.Evolve(f, state.Revision+1)
		}
	}
	snap := catalog.Build(state, nil)
	up := snap.Upstream("a")
	journal := events.NewJournal(events.JournalOptions{Store: storetest.Swallowing{}})
	system := actors.NewSystem(actors.Options{Recorder: journal})
	system.Reconfigure(actors.Layout{
		Upstreams: []catalog.Upstream{*up.Upstream}, Accounts: []catalog.Account{*up.Accounts[0].Account}, Keys: snap.Keys(),
	})
	transport := outbound.New(outbound.Egress{})
	catalogue := func() *catalog.Snapshot { return snap }
	plane, err := proxy.Open(proxy.Options{Catalog: catalogue, Dispatcher: &actors.Dispatcher{
		System: system, Catalog: catalogue, Journal: journal, Transport: transport, Node: "n", Durability: actors.AtDispatch,
		Credential: func(string) (string, bool) { return "sk-x", true }, Now: time.Now, Random: func() uint64 { return 7 },
	}})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	go func() { _ = plane.Serve(ln) }()
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(b, plane.Shutdown(ctx))
		plane.Close()
		require.NoError(b, system.Stop(ctx))
		transport.Close()
		require.NoError(b, journal.Close(ctx))
	})
	return ln.Addr().String()
}
