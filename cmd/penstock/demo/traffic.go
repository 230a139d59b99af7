package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
)

// ask is one kind of request.
type ask struct {
	path, body string
}

const prompt = `[{"role":"user","content":"Tell me about penstocks"}]`

// asks are the mixed traffic: four dialects, stream and not, now and then the slow model.
var asks = []ask{
	{"/v1/chat/completions", `{"model":"gpt-demo","messages":` + prompt + `}`},
	{"/v1/messages", `{"model":"claude-demo","max_tokens":500,"messages":` + prompt + `,"stream":true}`},
	{"/v1/responses", `{"model":"gpt-demo","input":"Tell me about penstocks","stream":true}`},
	{"/v1beta/models/gemini-demo:generateContent", `{"contents":[{"role":"user","parts":[{"text":"Tell me about penstocks"}]}]}`},
	{"/v1/chat/completions", `{"model":"gpt-demo","messages":` + prompt + `,"stream":true}`},
	{"/v1/chat/completions", `{"model":"slow-demo","messages":` + prompt + `}`},
	{"/v1/messages", `{"model":"claude-demo","max_tokens":500,"messages":` + prompt + `}`},
	{"/v1beta/models/gemini-demo:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"Tell me about penstocks"}]}]}`},
	{"/v1/responses", `{"model":"gpt-demo","input":"Tell me about penstocks"}`},
	{"/v1/messages", `{"model":"slow-demo","max_tokens":500,"messages":` + prompt + `,"stream":true}`},
}

const clients = 24

// traffic sends the requests from a crowd of clients. An answer that is no answer of HTTP is an error of the demo.
func (s *stage) traffic(ctx context.Context, requests int) (time.Duration, error) {
	fmt.Fprintf(s.out, "Sending %d requests from %d clients ...\n", requests, clients)
	begun := time.Now()
	var next atomic.Int64
	failed := make(chan error, clients)
	var crowd sync.WaitGroup
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for range clients {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			for n := next.Add(1); n <= int64(requests); n = next.Add(1) {
				if err := s.send(ctx, client, int(n)); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	crowd.Wait()
	close(failed)
	return time.Since(begun), <-failed
}

// send makes request n; a fixed pattern decides what it is and whose.
func (s *stage) send(ctx context.Context, client *http.Client, n int) error {
	a := asks[n%len(asks)]
	key := s.keys["alice-laptop"]
	switch {
	case n%3 == 0:
		key = s.keys["bob-ci"]
	case n%97 == 0:
		key = "sk-pen-somebody-else"
	}
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.gateway.Addr()+a.path, strings.NewReader(a.body))
	if err != nil {
		return errors.Wrap(err, a.path)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return errors.Wrap(err, a.path)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Wrap(err, a.path)
}
