package proxy

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
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
