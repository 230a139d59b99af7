package simulator

import (
	"encoding/json"
	"strings"
)

const (
	modelList = `{"object":"list","data":[{"id":"mock-model","object":"model","created":1700000000,"owned_by":"mock"},` +
		`{"id":"gpt-4o-mini","object":"model","created":1700000000,"owned_by":"mock"}]}`
	geminiModelList = `{"models":[{"name":"models/mock-model","displayName":"Mock","inputTokenLimit":1048576,"outputTokenLimit":65536,` +
		`"supportedGenerationMethods":["generateContent","countTokens"]}]}`
)

// controls are the paths that are not LLM calls. A method of "" means any, as tools differ in what they send.
var controls = [...]struct {
	method, path string
	suffix       bool // path matches the end of the request's
	serve        func(c *conn) (status int, body []byte)
}{
	{"GET", "/v1beta/models", true, func(*conn) (int, []byte) { return 200, []byte(geminiModelList) }},
	{"GET", "/models", true, func(*conn) (int, []byte) { return 200, []byte(modelList) }},
	{"", "/stats", false, func(c *conn) (int, []byte) { return indented(c.s.Stats()) }},
	{"", "/stats/reset", false, func(c *conn) (int, []byte) { c.s.ResetStats(); return 200, []byte("{}") }},
	{"GET", "/config", false, func(c *conn) (int, []byte) { return indented(c.s.Config()) }},
	{"", "/config", false, (*conn).reconfigure},
	{"", "/rids", false, func(c *conn) (int, []byte) { return indented(c.s.Requests()) }},
	{"", "/requests", false, func(c *conn) (int, []byte) { return indented(c.s.Calls()) }},
	{"", "/last", false, (*conn).showLast},
}

// control serves what is not an LLM call; false means that the connection is to be closed.
func (c *conn) control() bool {
	p, _, _ := strings.Cut(c.path, "?")
	status, body := failure(404, "no such path")
	for i := range controls {
		x := &controls[i]
		if (x.method == "" || x.method == c.method) && (p == x.path || x.suffix && strings.HasSuffix(p, x.path)) {
			status, body = x.serve(c)
			break
		}
	}
	c.out = c.out[:0]
	c.head(status, "application/json", len(body), nil)
	c.out = append(c.out, body...)
	return c.write()
}

func (c *conn) reconfigure() (int, []byte) {
	cfg, err := ParseConfig(c.body, c.s.base)
	if err == nil {
		err = c.s.SetConfig(cfg)
	}
	if err != nil {
		return failure(400, "config: "+err.Error())
	}
	return 200, []byte("{}")
}

func (c *conn) showLast() (int, []byte) {
	l, ok := c.s.Last()
	switch {
	case !c.s.track:
		return failure(404, "requests are not tracked (-track-rid)")
	case !ok:
		return failure(404, "no request yet")
	}
	return indented(l)
}

func indented(v any) (int, []byte) {
	j, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return failure(500, err.Error())
	}
	return 200, j
}

func failure(status int, why string) (int, []byte) {
	j, _ := json.Marshal(map[string]any{"error": map[string]string{"message": "mockllm: " + why, "type": "invalid_request_error"}})
	return status, j
}
