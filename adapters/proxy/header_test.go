package proxy

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/dialect"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A10, A11, A12: the first of the places that holds anything counts, even if what it holds is wrong.
func TestTheClientsKeyIsLookedForInOrder(t *testing.T) {
	for _, c := range []struct {
		what    string
		target  string
		headers []string
		key     string
	}{
		{"nowhere (A14)", "/", nil, ""},
		{"bearer (A11)", "/", []string{"Authorization", "Bearer one"}, "one"},
		{"bare (A11)", "/", []string{"Authorization", "one"}, "one"},
		{"bearer in any case", "/", []string{"authorization", "bEARER   one "}, "one"},
		{"a bare key that begins like it", "/", []string{"Authorization", "BearerOne"}, "BearerOne"},
		{"Anthropic's SDK (A12)", "/", []string{"x-api-key", "two"}, "two"},
		{"Gemini's SDK (A12)", "/", []string{"x-goog-api-key", "three"}, "three"},
		{"the query", "/?key=four", nil, "four"},
		{"the query, escaped", "/?a=b&k%65y=f%6Fur", nil, "four"},
		{"authorization first (A10)", "/?key=four", []string{"x-goog-api-key", "three", "x-api-key", "two", "authorization", "one"}, "one"},
		{"then x-api-key (A10)", "/?key=four", []string{"x-goog-api-key", "three", "x-api-key", "two"}, "two"},
		{"then x-goog-api-key (A10)", "/?key=four", []string{"x-goog-api-key", "three"}, "three"},
		{"an empty one is not there", "/", []string{"authorization", "", "x-api-key", " ", "x-goog-api-key", "three"}, "three"},
		{"a bearer of nothing is not there", "/", []string{"authorization", "Bearer ", "x-api-key", "two"}, "two"},
		{"only a bearer of nothing (A14)", "/", []string{"authorization", "Bearer"}, ""},
	} {
		require.Equal(t, c.key, string(presented(parsed(t, message("GET", c.target, "", c.headers...)))), c.what)
	}
}

func TestTheClientsKeyLeavesTheQueryAndNothingElseDoes(t *testing.T) {
	for q, want := range map[string]string{
		"": "", "alt=sse": "alt=sse", "key=s": "", "key=s&alt=sse": "alt=sse", "alt=sse&key=s": "alt=sse",
		"b=2&key=s&a=1": "b=2&a=1", "key=s&key=t": "", "key": "", "monkey=1&keys=2&a=key=3": "monkey=1&keys=2&a=key=3",
		"a=%20b%2Bc&d=+": "a=%20b%2Bc&d=+", // escapes stay as they came
		"k%65y=s&a=1":    "a=1",            // the same parameter, and it does authenticate
		"%6b%65%79=s":    "", "a=%6bey": "a=%6bey", "%zz=1&key=s": "%zz=1", "Key=s": "Key=s",
	} {
		ctx := parsed(t, message("GET", "/v1beta/models?"+q, ""))
		require.Equal(t, want, query(ctx), q)
		if want == q {
			require.Empty(t, presented(ctx), "%q: what passes is no credential", q)
		}
	}
}

// A67: hop-by-hop headers, credentials, cookies and traces of proxies stay here; everything else passes in its order.
func TestHeadersPassUnlessTheyBelongToThisHop(t *testing.T) {
	keep := []string{
		"Content-Type", "application/json", "User-Agent", "sdk/1", "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "a", "Anthropic-Beta", "b",
		"X-Stainless-Os", "Linux", "Accept", "text/event-stream", "Openai-Organization", "org", "X-Client-Request-Id", "id", "Session-Id", "s",
		"Idempotency-Key", "i", "X-Goog-User-Project", "p", "Traceparent", "00-1-2-01", "Origin", "https://x", "Accept-Language", "de",
	}
	drop := []string{
		"Authorization", "Bearer s", "X-Api-Key", "s", "X-Goog-Api-Key", "s", "Api-Key", "s", "Cookie", "a=b", "Cookie", "c=d",
		"Keep-Alive", "timeout=5", "Proxy-Authenticate", "x", "Proxy-Authorization", "x", "Proxy-Connection", "x", "TE", "trailers",
		"Trailers", "x", "Upgrade", "h2c", "Expect", "100-continue", "Accept-Encoding", "gzip",
		"Forwarded", "for=1", "X-Forwarded-For", "1", "X-Forwarded-Host", "h", "X-Forwarded-Proto", "https", "X-Forwarded-Port", "1",
		"X-Forwarded-Anything", "x", "X-Real-IP", "1", "True-Client-IP", "1", "X-Envoy-Attempt-Count", "1", "X-Vercel-Id", "1",
		"CF-Connecting-IP", "1", "CF-Ray", "1", "Fly-Client-IP", "1", "Proxy-Foo", "x",
		"Connection", "keep-alive, X-Hop", "X-Hop", "gone", "Connection", "x-other-hop", "X-Other-Hop", "gone",
	}
	var mixed []string
	for i := 0; i < len(drop) || i < len(keep); i += 2 {
		if i < len(drop) {
			mixed = append(mixed, drop[i], drop[i+1])
		}
		if i < len(keep) {
			mixed = append(mixed, keep[i], keep[i+1])
		}
	}
	var got []string
	for _, h := range forwarded(nil, parsed(t, message("POST", "/", "{}", mixed...)), &dialect.Clues{}) {
		got = append(got, h.Name, h.Value)
	}
	require.Equal(t, keep, got)
}

func TestConnectionCloseNamesNoHeader(t *testing.T) {
	got := forwarded(nil, parsed(t, message("GET", "/", "", "Connection", "close", "X-A", "1")), &dialect.Clues{})
	require.Len(t, got, 1)
	require.Equal(t, "X-A", got[0].Name)
	got = forwarded(nil, parsed(t, message("GET", "/", "", "Connection", "close, X-A", "X-A", "1")), &dialect.Clues{})
	require.Empty(t, got)
}

// What Connection names tells nothing of the client either, wherever Connection stands.
func TestWhatConnectionNamesIsNoClue(t *testing.T) {
	for _, c := range []struct {
		headers []string
		want    []string
		session string
	}{
		{[]string{"Session-Id", "s", "X-A", "1"}, []string{"Session-Id", "X-A"}, "s"},
		{[]string{"Connection", "Keep-Alive", "Session-Id", "s", "X-A", "1", "Keep-Alive", "timeout=5"}, []string{"Session-Id", "X-A"}, "s"},
		{[]string{"Session-Id", "s", "X-A", "1", "Connection", "session-id"}, []string{"X-A"}, ""},
		{[]string{"Connection", "", "Session-Id", "s", "Connection", "keep-alive", "X-A", "1", "Connection", "x-a,session-id"}, nil, ""},
	} {
		var clues dialect.Clues
		var got []string
		for _, h := range forwarded(nil, parsed(t, message("GET", "/", "", c.headers...)), &clues) {
			got = append(got, h.Name)
		}
		require.Equal(t, c.want, got, c.headers)
		require.Equal(t, c.session, clues.Session(), c.headers)
	}
}

// What the last request of a connection said is used again only for one that says the same.
func TestRequestsOfOneConnectionAreDescribedEachByItself(t *testing.T) {
	type said struct{ method, path, client, model, dialect string }
	seen := make(chan said, 16)
	f := start(t, &scripted{begin: func(c *actors.Call) actors.Answer {
		seen <- said{c.Ask.Method, c.Ask.Path, c.Ask.Client, c.Ask.Model, c.Ask.Dialect}
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{}`)}
	}}, nil)
	long := strings.Repeat("m", routeMax)
	const chatPath, gemini = "/v1/chat/completions", "/v1beta/models/"
	asked := []said{
		{"POST", chatPath, "sdk/1", "gpt-x", "openai-chat"},
		{"POST", chatPath, "sdk/1", "gpt-x", "openai-chat"},
		{"POST", gemini + "a:generateContent", "sdk/1", "a", "gemini"},
		{"POST", gemini + "b:generateContent", "", "b", "gemini"},
		{"POST", gemini + long + "a:generateContent", strings.Repeat("x", clientMax), long + "a", "gemini"},
		{"POST", gemini + long + "b:generateContent", "", long + "b", "gemini"},
		{"POST", gemini + "b:generateContent", "sdk/2", "b", "gemini"},
		{"POST", "/api/proxy/v1/messages", "sdk/2", "gpt-x", "anthropic-messages"},
		{"POST", chatPath, "sdk/1", "gpt-x", "openai-chat"},
	}
	c := f.dial()
	br := bufio.NewReader(c)
	for _, want := range asked {
		body := `{"model":"gpt-x"}`
		if want.dialect == "gemini" {
			body = `{}`
		}
		_, err := io.WriteString(c, message("POST", want.path, body, "Authorization", "Bearer "+secretA, "User-Agent", want.client))
		require.NoError(t, err)
		r, _ := f.hear(br)
		require.Equal(t, 200, r.StatusCode)
		require.Equal(t, want, <-seen)
		for _, method := range []string{"PUT", "DELETE"} { // the same path, which is nothing then
			_, err := io.WriteString(c, message(method, want.path, "", "Authorization", "Bearer "+secretA))
			require.NoError(t, err)
			r, body := f.hear(br)
			require.Equal(t, 404, r.StatusCode)
			require.Contains(t, body, method+" "+want.path+" is not served here.")
		}
	}
	require.Empty(t, seen)
}

// The room for headers is the connection's: what one request and its dispatcher left in it is not in the next one's.
func TestRequestsOfOneConnectionHaveTheirOwnHeaders(t *testing.T) {
	seen := make(chan []string, 8)
	named := func(list []actors.Header) (names []string) {
		for _, h := range list {
			names = append(names, h.Name+"="+h.Value)
		}
		return names
	}
	f := start(t, &scripted{begin: func(c *actors.Call) actors.Answer {
		_ = append(c.Headers, actors.Header{Name: "Authorization", Value: "ours"}) // as for an upstream
		return actors.Answer{Status: 200, Headers: jsonType, Stream: func(w io.Writer) error {
			seen <- named(c.Headers)
			_, err := io.WriteString(w, "x")
			return err
		}}
	}}, nil)
	many := make([]string, 0, 4*headersRoom)
	for i := range 2 * headersRoom {
		many = append(many, fmt.Sprintf("X-Many-%d", i), "m")
	}
	asked := [][]string{many, {"X-A", "1", "X-B", "2"}, {"X-C", "3"}, nil, many[:2*headersRoom], {"X-D", "4"}}
	var all string
	for _, headers := range asked {
		all += chat(headers...)
	}
	c := f.dial()
	_, err := io.WriteString(c, all)
	require.NoError(t, err)
	br := bufio.NewReader(c)
	for _, headers := range asked {
		_, body := f.hear(br)
		require.Equal(t, "x", body)
		var want []string
		for i := 0; i < len(headers); i += 2 {
			want = append(want, headers[i]+"="+headers[i+1])
		}
		require.Equal(t, want, <-seen)
	}
}
