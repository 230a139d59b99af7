package main

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/cmd/loadgen/load"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// chain starts a simulator and the proxy before it, and returns the proxy's URL.
func chain(t *testing.T, change func(*simulator.Behavior)) (*simulator.Server, string) {
	t.Helper()
	b := simulator.Healthy()
	if change != nil {
		change(&b)
	}
	s := simulator.New(simulator.Options{TrackRequests: true, Config: simulator.Config{Default: b}})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- newProxy(s.Addr(), "sk-upstream").serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return s, "http://" + ln.Addr().String()
}

func TestEveryDialectPassesWholeStreamedAndNot(t *testing.T) {
	s, url := chain(t, nil)
	for _, api := range []string{"openai", "responses", "anthropic", "gemini"} {
		for _, stream := range []bool{false, true} {
			res, err := load.Run(t.Context(), load.Options{URL: url, API: api, Stream: stream, Total: 20, Connections: 4})
			if err != nil || res.OK != 20 || len(res.Errors) != 0 {
				t.Errorf("%s, stream %v: %v %+v", api, stream, err, res)
			}
		}
	}
	if st := s.Stats(); st.All.Completed != 160 {
		t.Errorf("the upstream saw %+v", st.All)
	}
}

func TestTheCredentialIsSwappedAndTheRestPasses(t *testing.T) {
	s, url := chain(t, nil)
	if _, err := load.Run(t.Context(), load.Options{URL: url, Body: []byte(`{"model":"m"}`), Headers: []string{"x-team: a"}, Total: 1}); err != nil {
		t.Fatal(err)
	}
	l, _ := s.Last()
	if l.Headers["authorization"] != "Bearer sk-upstream" || l.Headers["host"] != s.Addr() || l.Headers["x-team"] != "a" || l.Body != `{"model":"m"}` {
		t.Errorf("%+v", l)
	}
}

func TestAStreamPassesPieceByPiece(t *testing.T) {
	_, url := chain(t, func(b *simulator.Behavior) { b.StallRate, b.FaultAfter, b.StallMs = 1, 5, 3_600_000 })
	// Five events, then silence for an hour: only a proxy that flushes lets the client see the fifth and leave.
	res, err := load.Run(t.Context(), load.Options{URL: url, Stream: true, Total: 3, AbortRate: 1, AbortAfterEvents: 5})
	if err != nil || res.Aborted != 3 {
		t.Errorf("%v %+v", err, res)
	}
}

func TestAnErrorStatusPassesAndADeadUpstreamIs502(t *testing.T) {
	s, url := chain(t, func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus, b.ErrBody = 1, 429, "slow down" })
	status, body, err := fasthttp.Post(nil, url+"/v1/chat/completions", nil)
	if err != nil || status != 429 || string(body) != "slow down" {
		t.Errorf("%d %s %v", status, body, err)
	}
	s.Close()
	if status, _, err := fasthttp.Post(nil, url+"/v1/chat/completions", nil); err != nil || status != 502 {
		t.Errorf("%d %v", status, err)
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	// An upstream that reads each request and closes without a word: a client that repeats calls does it here.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if n, _ := c.Read(make([]byte, 8192)); n > 0 {
				requests.Add(1)
			}
			c.Close()
		}
	}()
	defer ln.Close()
	p := newProxy(ln.Addr().String(), "k")
	var ctx fasthttp.RequestCtx
	for _, method := range []string{"GET", "POST"} {
		ctx.Init(&fasthttp.Request{}, nil, nil)
		ctx.Request.Header.SetMethod(method)
		ctx.Request.SetRequestURI("/v1/models")
		p.handle(&ctx)
		if status := ctx.Response.StatusCode(); status != 502 {
			t.Errorf("%s: %d", method, status)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("2 requests reached the upstream %d times", n)
	}
}

func TestBadArgumentsAreRefusedByName(t *testing.T) {
	for args, word := range map[string]string{"stray": "stray", "-up nowhere": "upstream", "-addr 999.0.0.1:1": "address"} {
		if err := run(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", args, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-addr", "127.0.0.1:0"}); err != nil {
		t.Error(err)
	}
}
