package proxy

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
)

// D29.
func TestACallReachesTheDispatcherAsItWasSent(t *testing.T) {
	var got *actors.Call
	var headers []actors.Header
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		copied := *c
		copied.Body, copied.Query = append([]byte(nil), c.Body...), strings.Clone(c.Query)
		for _, h := range c.Headers {
			headers = append(headers, actors.Header{Name: strings.Clone(h.Name), Value: strings.Clone(h.Value)})
		}
		got = &copied
		return actors.Answer{Status: 201, Headers: []actors.Header{{Name: "X-Upstream", Value: "u"}, {Name: "Content-Type", Value: "a/b"}}, Body: []byte("body")}
	}}
	f := start(t, d, nil)
	body := `{"model":"claude-x","stream":true,"messages":[]}`
	r, b := f.ask("POST", "/api/proxy/v1/messages?beta=true&key=x", body, // A3
		"x-api-key", secretA, "user-agent", strings.Repeat("a", 150), "anthropic-version", "1", "x-client-request-id", "mine", "cookie", "a=b")
	require.Equal(t, 201, r.StatusCode)
	require.Equal(t, "body", b)
	require.Equal(t, "u", r.Header.Get("X-Upstream"))
	require.Equal(t, "a/b", r.Header.Get("Content-Type"))
	require.Equal(t, got.ID, r.Header.Get("X-Request-Id"))
	require.Len(t, got.ID, 36)
	require.Empty(t, r.Header.Get("Server"))
	require.Equal(t, body, string(got.Body))
	require.Equal(t, "beta=true", got.Query)
	require.Equal(t, "team-a", got.Key.ID)
	require.Equal(t, "/v1/messages", got.Endpoint.Path)
	ask := got.Ask
	require.Equal(t, []string{"POST", "/api/proxy/v1/messages", "claude-x", "127.0.0.1", "mine", "team-a", strings.Repeat("a", clientMax)},
		[]string{ask.Method, ask.Path, ask.Model, ask.Address, ask.ClientID, ask.Key, ask.Client})
	require.True(t, ask.Stream)
	require.Equal(t, []actors.Header{{Name: "User-Agent", Value: strings.Repeat("a", 150)}, {Name: "Anthropic-Version", Value: "1"}, {Name: "X-Client-Request-Id", Value: "mine"}}, headers)
}

// A14-A19, A23, A24, D51.
func TestAuthenticationRefusesByTheTable(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	keys := []catalog.Key{
		{ID: "good", Hash: sha("good")}, {ID: "late", Hash: sha("late"), ExpiresAt: &past},
		{ID: "gone", Hash: sha("gone"), Revoked: true}, {ID: "orphan", Hash: sha("orphan"), User: "nobody"},
		{ID: "bcrypt", Hash: hashed(t, "bcrypt")},
	}
	var snap atomic.Pointer[catalog.Snapshot]
	snap.Store(snapshot(keys...))
	d := &scripted{}
	f := start(t, d, func(o *Options) { o.Catalog = snap.Load })
	ask := func(key string) int {
		h := []string{"Authorization", "Bearer " + key}
		if key == "" {
			h = nil
		}
		r, _ := f.ask("POST", "/v1/chat/completions", `{"model":"m"}`, h...)
		return r.StatusCode
	}
	for _, c := range []struct{ key, code string }{
		{"", failure.MissingAPIKey}, {"wrong", failure.InvalidAPIKey}, {"late", failure.APIKeyExpired},
		{"gone", failure.InvalidAPIKey}, {"orphan", failure.APIKeyDisabled},
	} {
		require.Equal(t, 401, ask(c.key), c.key)
		seen := d.refusals()
		require.Equal(t, c.code, seen[len(seen)-1], c.key)
	}
	require.Zero(t, d.begun, "nothing was dispatched")
	require.Equal(t, 200, ask("good"))
	require.Equal(t, 200, ask("bcrypt"))
	keys[0].Revoked, keys[4].Revoked = true, true
	snap.Store(snapshot(keys...))
	require.Equal(t, 401, ask("good"), "a revocation holds from the next request (A24)")
	require.Equal(t, 401, ask("bcrypt"), "whatever is remembered of the secret (A23)")
}

func TestAnonymousRefusalsBeyondTenAreAnsweredAlikeButNotRecorded(t *testing.T) {
	c := &clock{at: noon}
	var mu sync.Mutex
	var reports []told
	d := &scripted{}
	f := start(t, d, func(o *Options) {
		o.Now = c.now
		o.Refused = func(a string, n int, m time.Time) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, told{a, n, m})
		}
	})
	for i := range 14 {
		r, b := f.ask("POST", "/v1/messages", `{}`, "x-api-key", "wrong")
		require.Equal(t, 401, r.StatusCode)
		require.NotEmpty(t, r.Header.Get("X-Request-Id"))
		if i >= 10 {
			require.JSONEq(t, `{"error":"Invalid API key"}`, b) // A15, A18
		}
	}
	require.Len(t, d.refusals(), 10)
	r, b := f.ask("POST", "/v1/messages", `{}`)
	require.Equal(t, 401, r.StatusCode)
	require.JSONEq(t, `{"error":"Missing API key"}`, b) // A14, A18
	c.set(noon.Add(time.Minute))
	f.ask("POST", "/v1/messages", `{}`, "x-api-key", "wrong")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []told{{"127.0.0.1", 5, noon}}, reports)
}

func errorOf(t *testing.T, body string) map[string]any {
	t.Helper()
	var v struct {
		Error map[string]any `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &v), body)
	return v.Error
}

func TestWhatIsNotServedIs404InTheDialectsShape(t *testing.T) {
	f := start(t, &scripted{}, nil)
	for _, c := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/v1/chat/completions"}, {"POST", "/v1/nothing"}, {"POST", "/v1/embeddings"}, {"DELETE", "/v1/models"}, {"POST", "/health/x"},
	} {
		r, b := f.ask(c.method, c.path, "", "Authorization", secretA)
		require.Equal(t, 404, r.StatusCode, c.path)
		e := errorOf(t, b)
		require.Equal(t, failure.EndpointNotFound, e["code"])
		require.Equal(t, r.Header.Get("X-Request-Id"), e["request_id"])
		require.Contains(t, e["message"], c.method+" "+c.path)
		require.Equal(t, false, e["did_send_upstream"])
	}
	_, b := f.ask("POST", "/v1beta/models/m:embedContent", "{}", "x-goog-api-key", secretA)
	require.Equal(t, "NOT_FOUND", errorOf(t, b)["status"], "Gemini's shape")
}

// D40, pain 61: large prompts pass by default; what is too large is told in the client's dialect, and the client hears it.
func TestATooLargeBodyIs413InTheDialectsShape(t *testing.T) {
	const limit = 64 << 10
	f := start(t, &scripted{}, func(o *Options) { o.BodyMax = limit })
	r, _ := f.ask("POST", "/v1/messages", `{"metadata":"`+strings.Repeat("m", limit-15)+`"}`, "x-api-key", secretA)
	require.Equal(t, 200, r.StatusCode, "exactly the bound")
	for path, shape := range map[string]func(map[string]any, map[string]any){
		"/v1/messages": func(b, e map[string]any) {
			require.Equal(t, "request_too_large", e["type"])
			require.Equal(t, "error", b["type"])
		},
		"/v1/chat/completions": func(_, e map[string]any) { require.Equal(t, failure.TypeTooLarge, e["type"]) },
		"/v1beta/models/m:generateContent": func(_, e map[string]any) {
			require.Equal(t, float64(413), e["code"])
			require.Equal(t, "INVALID_ARGUMENT", e["status"])
		},
	} {
		for what, send := range map[string]func(io.Writer){
			"announced": func(w io.Writer) {
				_, _ = io.WriteString(w, message("POST", path, strings.Repeat("x", 8<<20), "x-api-key", secretA))
			},
			"in chunks": func(w io.Writer) {
				_, _ = io.WriteString(w, message("POST", path, "", "x-api-key", secretA, "Transfer-Encoding", "chunked"))
				chunk := "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n"
				for range 64 {
					if _, err := io.WriteString(w, chunk); err != nil {
						return
					}
				}
			},
		} {
			c := f.dial()
			br := bufio.NewReader(c)
			_, err := io.WriteString(c, chat()) // a connection that has carried another dialect
			require.NoError(t, err)
			f.hear(br)
			done := make(chan struct{})
			go func() { defer close(done); send(c) }()
			r, b := f.hear(br)
			require.Equal(t, 413, r.StatusCode, "%s %s", path, what)
			require.Equal(t, "application/json", r.Header.Get("Content-Type"))
			require.NotEmpty(t, r.Header.Get("X-Request-Id"))
			require.True(t, r.Close)
			var all map[string]any
			require.NoError(t, json.Unmarshal([]byte(b), &all))
			require.Contains(t, b, failure.RequestTooLarge)
			shape(all, errorOf(t, b))
			c.Close()
			<-done
		}
	}
}

func TestARequestThatIsNoHTTPIsAnsweredWithoutQuotingIt(t *testing.T) {
	f := start(t, &scripted{}, nil)
	for what, c := range map[string]struct {
		raw    string
		status int
	}{
		"a header without colon": {"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key " + secretA + "\r\n\r\n", 400},
		"headers of 20 KB":       {"POST /v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: " + secretA + "\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431},
	} {
		conn := f.dial()
		_, _ = io.WriteString(conn, c.raw)
		r, b := f.hear(bufio.NewReader(conn))
		require.Equal(t, c.status, r.StatusCode, what)
		require.NotContains(t, b, secretA)
		require.NotEmpty(t, errorOf(t, b)["message"])
	}
}

func TestABodyThatIsNoneIsRefusedByName(t *testing.T) {
	d := &scripted{}
	f := start(t, d, nil)
	for body, want := range map[string]struct {
		reason, says string
		headers      []string
	}{
		`{"model":`:                 {reason: "model", says: "model: "},
		`{"model":"a","model":"b"}`: {reason: "model", says: "twice"},
		`{"stream":"yes"}`:          {reason: "stream", says: "true or false"},
		`{"model":"m"}`:             {reason: "content-encoding", says: "content-encoding", headers: []string{"Content-Encoding", "gzip"}},
		``:                          {reason: "body", says: "JSON object"},
		`{"model":"m"} x`:           {reason: "body", says: "request body: "},
		modelOf(modelMax + 1):       {reason: "model", says: "longer than 2000 bytes"},
		modelOf(8 << 20):            {reason: "model", says: "longer than 2000 bytes"},
	} {
		r, b := f.ask("POST", "/v1/chat/completions", body, append([]string{"Authorization", secretA}, want.headers...)...)
		require.Equal(t, 400, r.StatusCode, body[:min(40, len(body))])
		require.Contains(t, b, want.says)
		require.Less(t, len(b), 1000)
		require.Equal(t, want.reason, d.reasons[len(d.reasons)-1], "the hint says that the reason names what to correct")
	}
	for _, code := range d.refusals() {
		require.Equal(t, failure.BodyInvalid, code)
	}
	require.Zero(t, d.begun)
	r, _ := f.ask("POST", "/v1/chat/completions", modelOf(modelMax), "Authorization", secretA)
	require.Equal(t, 200, r.StatusCode)
	for n, status := range map[int]int{modelMax: 200, modelMax + 1: 400} { // in a path, too
		r, _ := f.ask("POST", "/v1beta/models/"+strings.Repeat("m", n)+":generateContent", "{}", "Authorization", secretA)
		require.Equal(t, status, r.StatusCode, "%d bytes", n)
	}
}

// The answer of a response in the background says nothing of what it will cost, and reads of it are not served (pains 1, 21).
func TestAResponseThatIsToBeFetchedLaterIsRefused(t *testing.T) {
	d := &scripted{}
	f := start(t, d, nil)
	r, b := f.ask("POST", "/v1/responses", `{"model":"m","input":"hi","background":true}`, "Authorization", secretA)
	require.Equal(t, 400, r.StatusCode)
	require.Contains(t, b, "background")
	require.Equal(t, []string{"background"}, d.reasons)
	require.Zero(t, d.begun)
	for _, body := range []string{`{"model":"m","input":"hi","background":true,"stream":true}`, `{"model":"m","input":"hi","background":false}`} {
		r, _ = f.ask("POST", "/v1/responses", body, "Authorization", secretA)
		require.Equal(t, 200, r.StatusCode, body)
	}
}

// modelOf is a body whose model has n bytes.
func modelOf(n int) string { return `{"model":"` + strings.Repeat("m", n) + `"}` }

// D30, D34.
func TestHealthNeedsNoKeyAndTellsTheTruth(t *testing.T) {
	ok := atomic.Bool{}
	ok.Store(true)
	f := start(t, &scripted{}, func(o *Options) { o.Health = func() ([]byte, bool) { return []byte(`{"status":"x"}`), ok.Load() } })
	for _, path := range []string{"/health", "/healthz"} {
		r, b := f.ask("GET", path, "")
		require.Equal(t, 200, r.StatusCode)
		require.Equal(t, `{"status":"x"}`, b)
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	}
	ok.Store(false)
	r, _ := f.ask("GET", "/health", "")
	require.Equal(t, 503, r.StatusCode)
}

// Codex tries a WebSocket first; 426 makes it fall back at once, anything else costs it seven tries.
func TestAWebSocketUpgradeIsAnswered426(t *testing.T) {
	f := start(t, &scripted{}, nil)
	r, b := f.ask("GET", "/v1/responses", "", "Authorization", secretA, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "x")
	require.Equal(t, 426, r.StatusCode)
	require.True(t, json.Valid([]byte(b)))
	r, _ = f.ask("GET", "/v1/responses", "", "Authorization", secretA)
	require.Equal(t, 404, r.StatusCode, "without an upgrade it is no endpoint")
	r, _ = f.ask("POST", "/v1/responses", `{"model":"m"}`, "Authorization", secretA, "Connection", "Upgrade", "Upgrade", "h2c")
	require.Equal(t, 200, r.StatusCode, "an endpoint that is there is served")
}

func TestTheListOfModelsHasTheShapeOfWhoeverAsks(t *testing.T) {
	f := start(t, &scripted{}, func(o *Options) {
		snap := snapshot(catalog.Key{ID: "team-a", Hash: sha(secretA)}, catalog.Key{ID: "one", Hash: sha("one"), Models: []string{"claude-*"}})
		o.Catalog = func() *catalog.Snapshot { return snap }
	})
	openai, anthropic, gemini := `"object":"list"`, `"has_more":false`, `"models":[`
	for _, c := range []struct {
		target, shape string
		headers       []string
	}{
		{"/v1/models", openai, []string{"Authorization", secretA}},
		{"/api/proxy/v1/models", openai, []string{"Authorization", secretA}},
		{"/v1/models", anthropic, []string{"x-api-key", secretA, "anthropic-version", "2023-06-01"}},
		{"/v1/models", gemini, []string{"x-goog-api-key", secretA}},
		{"/v1/models?key=" + secretA, gemini, nil},
		{"/v1beta/models", gemini, []string{"Authorization", secretA}},
		{"/v1beta/models?key=" + secretA, gemini, nil},
		{"/openai/v1/models", openai, []string{"x-api-key", secretA, "anthropic-version", "1"}}, // the prefix says it
		{"/anthropic/v1/models", anthropic, []string{"x-api-key", secretA}},
		{"/gemini/v1/models", gemini, []string{"Authorization", secretA}},
	} {
		r, b := f.ask("GET", c.target, "", c.headers...)
		require.Equal(t, 200, r.StatusCode, c.target)
		require.Contains(t, b, c.shape, c.target)
		require.Contains(t, b, "claude-x")
		require.Contains(t, b, "gpt-x")
		require.True(t, json.Valid([]byte(b)))
	}
	_, b := f.ask("GET", "/v1/models", "", "Authorization", "one")
	require.Contains(t, b, "claude-x")
	require.NotContains(t, b, "gpt-x", "only what the key may ask for")
	r, b := f.ask("GET", "/v1/models/claude-x", "", "Authorization", "one")
	require.Equal(t, 200, r.StatusCode)
	require.Contains(t, b, `"id":"claude-x"`)
	r, b = f.ask("GET", "/v1/models/gpt-x", "", "x-api-key", "one", "anthropic-version", "1")
	require.Equal(t, 404, r.StatusCode)
	require.Equal(t, failure.UnknownModel, errorOf(t, b)["code"])
	require.Equal(t, "not_found_error", errorOf(t, b)["type"])
	r, _ = f.ask("GET", "/v1/models", "")
	require.Equal(t, 401, r.StatusCode)
}

// A fault of ours at any place costs the request in which it comes up, and no other.
func TestAPanicEndsOneRequestOnly(t *testing.T) {
	snap, faulty := snapshot(catalog.Key{ID: "team-a", Hash: sha(secretA)}), atomic.Bool{}
	f := start(t, &scripted{begin: func(c *actors.Call) actors.Answer {
		if c.Ask.Model == "panic" {
			panic("scripted")
		}
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{}`)}
	}}, func(o *Options) {
		o.Catalog = func() *catalog.Snapshot {
			if faulty.Load() {
				panic("scripted")
			}
			return snap
		}
	})
	const path = "/v1/messages"
	key := []string{"Authorization", "Bearer " + secretA}
	refused := func(model string) {
		r, body := f.ask("POST", path, `{"model":"`+model+`"}`, key...)
		require.Equal(t, 503, r.StatusCode, body)
		require.True(t, r.Close)
		require.Contains(t, body, "LOCAL_FAULT")
		require.Contains(t, body, `"type":"error"`, "in the dialect of the path")
	}
	refused("panic")
	faulty.Store(true)
	refused("m")
	faulty.Store(false)
	r, _ := f.ask("POST", path, `{"model":"m"}`, key...)
	require.Equal(t, 200, r.StatusCode)
}
