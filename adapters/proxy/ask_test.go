package proxy

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/request"
)

// What is recorded of a request lives on in events and in the memory of sessions: it is still the same when the server has
// overwritten the request with the next ones of its connection. Codex names its session in the headers and in the body.
func TestWhatIsRecordedOfARequestOutlivesIt(t *testing.T) {
	var asks, copies []request.Ask
	f := start(t, &scripted{begin: func(c *actors.Call) actors.Answer {
		was := c.Ask
		for _, s := range []*string{&was.ClientID, &was.Model, &was.Session, &was.Continues, &was.Client, &was.Address, &was.Method, &was.Path, &was.Profile} {
			*s = strings.Clone(*s)
		}
		asks, copies = append(asks, c.Ask), append(copies, was)
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{}`)}
	}}, nil)
	c := f.dial()
	br := bufio.NewReader(c)
	for _, x := range []string{"a", "b", "c", "d"} {
		id, other := strings.Repeat(x, 36), strings.Repeat(x+"-", 18)
		for _, m := range []struct {
			path, body string
			headers    []string
		}{
			{"/v1/responses", `{"model":"gpt-` + x + `","prompt_cache_key":"` + id + `","previous_response_id":"resp_` + x + `"}`, []string{"Session_id", id}},
			{"/v1/responses", `{"model":"gpt-` + x + `","prompt_cache_key":"` + id + `"}`, []string{"Session_id", other}},
			{"/v1/responses", `{"model":"gpt-` + x + `"}`, []string{"Session-Id", " " + id + " "}},
			{"/v1/chat/completions", `{"model":"gpt-` + x + `","prompt_cache_key":"` + id + `"}`, []string{"X-Session-Id", id}},
			{"/v1/messages", `{"model":"gpt-` + x + `","metadata":{"user_id":"` + id + `"}}`, []string{"X-Claude-Code-Session-Id", id}},
			{"/v1beta/models/g-" + x + ":generateContent", `{}`, []string{"X-Session-Id", id}},
		} {
			headers := append([]string{"Authorization", "Bearer " + secretA, "User-Agent", "codex_cli_rs/" + x, "X-Client-Request-Id", other}, m.headers...)
			_, err := io.WriteString(c, message("POST", m.path, m.body, headers...))
			require.NoError(t, err)
			r, _ := f.hear(br)
			require.Equal(t, 200, r.StatusCode)
		}
	}
	require.Len(t, asks, 24)
	for i := range asks {
		require.Equal(t, copies[i], asks[i])
	}
}

// A name that an upstream could resolve to another model's path is not that of the model that the key may use.
func TestModelsInPathsDoNotClimb(t *testing.T) {
	const gemini = "/v1beta/models/"
	f := start(t, &scripted{}, nil)
	for _, c := range []struct {
		target, body string
		status       int
	}{
		{gemini + "a:generateContent", `{}`, 200},
		{gemini + "tuned/a..b/.c:generateContent", `{}`, 200},
		{gemini + "a/../b:generateContent", `{}`, 400},
		{gemini + "a%2f%2e%2E%2Fb:generateContent", `{}`, 400},
		{gemini + "..:generateContent", `{}`, 400},
		{gemini + "a/.:countTokens", `{}`, 400},
		{gemini + "a:generateContent", `{"model":"a/../b"}`, 400},
		{"/v1/chat/completions", `{"model":"a/../b"}`, 200},
	} {
		r, body := f.ask("POST", c.target, c.body, "Authorization", "Bearer "+secretA)
		require.Equal(t, c.status, r.StatusCode, c.target+" "+c.body+" "+body)
	}
}
