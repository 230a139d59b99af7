package penstock_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// token is in everything that a client says in one request and in everything that an upstream answers to it.
var token = regexp.MustCompile(`tok-\d+-\d+-z`)

// only says whether text speaks of one request and of no other.
func only(text, of string) bool {
	for _, t := range token.FindAllString(text, -1) {
		if t != of {
			return false
		}
	}
	return true
}

// echo is an upstream that answers a request with the request's own token, in one of many ways, and that notices when what it is
// sent is made of two requests.
type echo struct {
	t     *testing.T
	calls atomic.Int64
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.calls.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	of := r.Header.Get("X-Token")
	var all strings.Builder
	_ = r.Header.Write(&all)
	if !only(all.String()+r.URL.String()+string(body), of) || !strings.Contains(string(body), of) || !json.Valid(body) {
		e.t.Errorf("the upstream was sent a mixture: %s %s %s", r.URL, all.String(), body)
	}
	var a, b int
	_, _ = fmt.Sscanf(of, "tok-%d-%d-z", &a, &b)
	w.Header().Set("X-Answer-To", of)
	w.Header().Set("Request-Id", "up-"+of)
	mood := r.Header.Get("X-Mood")
	long := strings.Repeat(of+" ", rand.IntN(rand.IntN(400)+1))
	flush := func() { w.(http.Flusher).Flush() }
	switch mood {
	case "limited":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(429)
		fmt.Fprintf(w, `{"error":{"message":"later %s"}}`, of)
		return
	case "refused":
		w.WriteHeader(400 + rand.IntN(2)*22)
		fmt.Fprintf(w, `{"error":{"type":"t","message":"no %s %s"}}`, of, long)
		return
	case "broken":
		w.WriteHeader(500)
		fmt.Fprintf(w, `{"error":{"message":"down %s"}}`, of)
		return
	case "dead":
		panic(http.ErrAbortHandler)
	case "mute":
		select {
		case <-r.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
		panic(http.ErrAbortHandler)
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, 1000*a+b, b, 1000*a+2*b)
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		text := fmt.Sprintf(`{"id":"r-%s","choices":[{"message":{"content":"%s %s"},"finish_reason":"stop"}],"usage":%s}`, of, of, long, usage)
		if mood == "length" {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		}
		if mood == "cut" {
			_, _ = io.WriteString(w, text[:len(text)/2])
			flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	pieces := rand.IntN(6) + 1
	for i := range pieces {
		fmt.Fprintf(w, "data: {\"id\":\"r-%s\",\"choices\":[{\"delta\":{\"content\":\"%s %s\"}}]}\n\n", of, of, long)
		flush()
		if mood == "slow" {
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
		}
		if mood == "cut" && i == pieces/2 {
			panic(http.ErrAbortHandler)
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":%s}\n\n", usage)
	if mood == "late" { // the rest comes when the answer is over for the client
		flush()
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
