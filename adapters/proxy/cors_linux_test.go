package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// crossed is a server for pages of one origin.
func crossed(t *testing.T, d *scripted) *fixture {
	snap := snapshot(catalog.Key{ID: "team-a", Hash: sha(secretA)})
	settings := snap.Settings
	settings.Guards.Origins = []string{"https://app.example.com"}
	snap.Settings = settings
	return start(t, d, func(o *Options) { o.Catalog = func() *catalog.Snapshot { return snap } })
}

// D27, D41: only the very origins that the operator has named may call from a browser; the browser's own question needs no key,
// and no other answer differs.
func TestOnlyPagesOfTheNamedOriginsMayCall(t *testing.T) {
	var seen []actors.Header
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		seen = append(seen[:0], c.Headers...)
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte("{}")}
	}}
	f := crossed(t, d)
	const ours, path = "https://app.example.com", "/v1/chat/completions"
	r, b := f.ask("OPTIONS", path, "", "Origin", ours, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	require.Equal(t, 204, r.StatusCode)
	require.Empty(t, b)
	require.Equal(t, []string{ours, "GET, POST", "authorization,content-type", "600", "Origin"}, []string{
		r.Header.Get("Access-Control-Allow-Origin"), r.Header.Get("Access-Control-Allow-Methods"), r.Header.Get("Access-Control-Allow-Headers"),
		r.Header.Get("Access-Control-Max-Age"), r.Header.Get("Vary"),
	})
	require.Zero(t, d.begun)

	r, _ = f.ask("POST", path, `{"model":"gpt-x"}`, "Authorization", "Bearer "+secretA, "Origin", ours)
	require.Equal(t, 200, r.StatusCode)
	require.Equal(t, ours, r.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, r.Header.Get("Access-Control-Expose-Headers"), "X-Request-Id")
	for _, h := range seen {
		require.NotEqual(t, "Origin", h.Name, "it belongs to this hop")
	}
	r, _ = f.ask("POST", path, `{"model":"gpt-x"}`, "Origin", ours)
	require.Equal(t, 401, r.StatusCode)
	require.Equal(t, ours, r.Header.Get("Access-Control-Allow-Origin"), "the page may read why")

	for _, other := range []string{"https://app.example.com.evil.com", "http://app.example.com", "https://app.example.com:8443", "null", "*"} {
		r, _ = f.ask("OPTIONS", path, "", "Origin", other, "Access-Control-Request-Method", "POST")
		require.NotEqual(t, 204, r.StatusCode, other)
		require.Empty(t, r.Header.Get("Access-Control-Allow-Origin"), other)
		r, _ = f.ask("POST", path, `{"model":"gpt-x"}`, "Authorization", "Bearer "+secretA, "Origin", other)
		require.Equal(t, 200, r.StatusCode, "a program may say what it likes")
		require.Empty(t, r.Header.Get("Access-Control-Allow-Origin"), other)
	}
}

func TestAPageMayReadAHeadThatIsSentWhileItsRequestWaits(t *testing.T) {
	goOn := make(chan struct{})
	f := crossed(t, &scripted{begin: earlyAnswer(goOn, actors.Answer{Status: 499})})
	conn := f.dial()
	_, err := io.WriteString(conn, strings.Replace(chat(), "\r\n", "\r\nOrigin: https://app.example.com\r\n", 1))
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, "https://app.example.com", r.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "Origin", r.Header.Get("Vary"))
	close(goOn)
	_, err = io.ReadAll(r.Body)
	require.NoError(t, err)
}
