package load

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

type object = map[string]any

// form is how one API is asked and how its streams end.
type form struct {
	path, streamPath string // MODEL stands for the model
	auth             func(key string) string
	body             func(o *Options, prompt string) object
	terminals        []string // any of these in a stream is its terminal event
}

func bearer(key string) string { return "Authorization: Bearer " + key + "\r\n" }

// streamed adds the flag of those dialects that ask for a stream in the body.
func streamed(o *Options, m object) object {
	if o.Stream {
		m["stream"] = true
	}
	return m
}

func user(prompt string) object { return object{"role": "user", "content": prompt} }

const system = "You are a helpful assistant."

var dialects = map[string]form{
	"openai": {
		path: "/v1/chat/completions", streamPath: "/v1/chat/completions", auth: bearer,
		body: func(o *Options, prompt string) object {
			m := object{"model": o.Model, "messages": []any{object{"role": "system", "content": system}, user(prompt)}, "temperature": 0.7, "max_tokens": 256}
			if o.Stream {
				m["stream_options"] = object{"include_usage": true}
			}
			return streamed(o, m)
		},
		terminals: []string{"data: [DONE]", "data:[DONE]"},
	},
	"responses": {
		path: "/v1/responses", streamPath: "/v1/responses", auth: bearer,
		body: func(o *Options, prompt string) object {
			return streamed(o, object{"model": o.Model, "input": []any{user(prompt)}, "max_output_tokens": 256})
		},
		terminals: []string{"event: response.completed", "event:response.completed"},
	},
	"anthropic": {
		path: "/v1/messages", streamPath: "/v1/messages",
		auth: func(key string) string { return "x-api-key: " + key + "\r\nanthropic-version: 2023-06-01\r\n" },
		body: func(o *Options, prompt string) object {
			return streamed(o, object{"model": o.Model, "max_tokens": 256, "system": system, "messages": []any{user(prompt)}})
		},
		terminals: []string{"event: message_stop", "event:message_stop"},
	},
	"gemini": {
		path: "/v1beta/models/MODEL:generateContent", streamPath: "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
		auth: func(key string) string { return "x-goog-api-key: " + key + "\r\n" },
		body: func(o *Options, prompt string) object {
			return object{"contents": []any{object{"role": "user", "parts": []any{object{"text": prompt}}}}, "generationConfig": object{"maxOutputTokens": 256}}
		},
		terminals: []string{`"finishReason":"`, `"finishReason": "`},
	},
}

// ridDigits is the number within a rid; each request writes its own over it.
const ridDigits = "000000000000"

// buildBody makes the request body, padded to o.ReqBytes as far as that is possible.
func buildBody(o *Options) ([]byte, error) {
	if o.Body != nil {
		return o.Body, nil
	}
	rid := ""
	if o.RID {
		rid = "[rid:" + o.RIDPrefix + "-" + ridDigits + "] "
	}
	build := func(pad int) ([]byte, error) {
		const words = "The quick brown fox jumps over the lazy dog. "
		return json.Marshal(dialects[o.API].body(o, rid+strings.Repeat(words, pad/len(words)+1)[:pad]))
	}
	least, err := build(0)
	if err != nil || len(least) >= o.ReqBytes {
		return least, err
	}
	return build(o.ReqBytes - len(least))
}

// requestPath is o.Path, or that of the API below the path of the base URL.
func requestPath(o *Options, u *url.URL) string {
	if o.Path != "" {
		return o.Path
	}
	f := dialects[o.API]
	p := f.path
	if o.Stream {
		p = f.streamPath
	}
	return strings.TrimSuffix(u.EscapedPath(), "/") + strings.Replace(p, "MODEL", url.PathEscape(o.Model), 1)
}

// buildRequest makes head and body of a request under one key, ready to send.
func buildRequest(o *Options, host, path, key string, body []byte) []byte {
	h := "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: loadgen\r\nContent-Type: application/json\r\nAccept: */*\r\n"
	h += dialects[o.API].auth(key)
	for _, x := range o.Headers {
		h += x + "\r\n"
	}
	h += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(h), body...)
}

// number writes n into the twelve digits of a rid.
func number(digits []byte, n int64) {
	for i := len(ridDigits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
}
