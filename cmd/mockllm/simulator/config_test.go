package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	res, err := client(t).Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func get(t *testing.T, url string, into any) int {
	t.Helper()
	res, err := client(t).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

func TestABadConfigIsRefusedWithTheNameOfTheField(t *testing.T) {
	s := start(t, Options{})
	for body, field := range map[string]string{
		`{"defualt":{}}`:                          "defualt",
		`{"default":{"ttfb":1}}`:                  "ttfb",
		`{"rules":[{"kye":"a"}]}`:                 "kye",
		`{"default":{"err_rate":1.5}}`:            "default: err_rate",
		`{"default":{"hang_rate":-0.1}}`:          "hang_rate",
		`{"default":{"chunks":"many"}}`:           "chunks",
		`{"default":{"chunks":-1}}`:               "chunks",
		`{"default":{"resp_bytes":9000000}}`:      "resp_bytes",
		`{"default":{"err_status":204}}`:          "err_status",
		`{"default":{"err_status":99}}`:           "err_status",
		`{"default":{"compress":"lzma"}}`:         "compress",
		`{"default":{"oversized_bytes":-1}}`:      "oversized_bytes",
		`{"default":{"err_content_type":"a\nb"}}`: "err_content_type",
		`{"rules":[{"key":"a","behavior":{}},{"key":"b","behavior":{"ttfb_ms":-1}}]}`: "rules[1].behavior: ttfb_ms",
		`{"default":{"prompt_tokens":10,"cached_tokens":11}}`:                         "cached_tokens",
		`{"default":{"out_tokens":10,"reasoning_tokens":11}}`:                         "reasoning_tokens",
		`{"default":{"cache_write_1h_tokens":1}}`:                                     "cache_write_1h_tokens",
		`{} {}`: "after the JSON object",
		``:      "EOF",
	} {
		status, answer := post(t, s.URL()+"/config", body)
		if msg, _ := at(object(t, answer), "error", "message").(string); status != 400 || !strings.Contains(msg, field) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if s.Config().Default != Healthy() {
		t.Error("a refused config changed something")
	}
}

func TestPostedConfigFillsTheDefaultFromTheBaseAndRulesFromZero(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.RespBytes = 123 }))
	if status, body := post(t, s.URL()+"/config", `{"default":{"chunks":3},"rules":[{"key":"slow","behavior":{"ttfb_ms":1}}]}`); status != 200 {
		t.Fatal(body)
	}
	var c Config
	get(t, s.URL()+"/config", &c)
	if c.Default.Chunks != 3 || c.Default.RespBytes != 123 || c.Rules[0].Behavior != (Behavior{TTFBMs: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestTheFirstRuleThatMatchesKeyModelAndPathIsPlayed(t *testing.T) {
	fail := func(status int) Behavior { return Behavior{ErrRate: 1, ErrStatus: status} }
	s := start(t, Options{Config: Config{Rules: []Rule{
		{Key: "bad", Behavior: fail(401)},
		{Model: "m1", Path: "/messages", Behavior: fail(529)},
		{Model: "m1", Path: "alt=sse", Behavior: fail(503)},
		{Key: "good"}, // the zero behaviour is healthy
		{Model: "m1", Behavior: fail(500)},
	}}})
	for _, c := range []struct {
		key   string
		shape int
		want  int
	}{{"sk-bad", 4, 401}, {"sk-good", 4, 529}, {"sk-good", 7, 503}, {"sk-good", 0, 200}, {"sk-x", 0, 500}, {"sk-x", 6, 500}} {
		res, err := sendAs(t.Context(), client(t), s, shapes[c.shape], c.key)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s, %s: %d, want %d", c.key, shapes[c.shape].name, res.StatusCode, c.want)
		}
	}
}

func TestTheControlSurfaceSpeaksTheJSONThatToolsExpect(t *testing.T) {
	s := start(t, like(func(*Behavior) {}))
	fetch(t, s, shape{"chat JSON", "/v1/chat/completions", `{"model":"m1","messages":"[rid:r-1] hi"}`, false})
	var st map[string]any
	get(t, s.URL()+"/stats", &st)
	for _, way := range [][]any{{"all", "requests"}, {"all", "max_in_flight"}, {"all", "completed"}, {"connections", "requests"}, {"status", "200"},
		{"chunks_sent"}, {"by_key", "sk-1", "completed"}, {"by_model", "m1", "requests"}, {"by_path", "/v1/chat/completions", "requests"}} {
		if v, _ := at(st, way...).(float64); v < 1 {
			t.Errorf("/stats: %v is %v", way, at(st, way...))
		}
	}
	for _, way := range [][]any{{"all", "in_flight"}, {"all", "client_aborted"}, {"all", "faulted"}} {
		if at(st, way...) != 0.0 {
			t.Errorf("/stats: %v is %v", way, at(st, way...))
		}
	}
	var rids map[string]any
	get(t, s.URL()+"/rids", &rids)
	if at(rids, "r-1", "attempts") != 1.0 || at(rids, "r-1", "completed") != 1.0 || at(rids, "r-1", "last_key") != "sk-1" || at(rids, "r-1", "chunks") != 1.0 {
		t.Errorf("/rids: %v", rids)
	}
	if status, body := post(t, s.URL()+"/stats/reset", ""); status != 200 || body != "{}" {
		t.Errorf("/stats/reset: %d %s", status, body)
	}
	if s.Stats().All.Requests != 0 || len(s.Requests()) != 0 {
		t.Error("the reset left something")
	}
	var m map[string]any
	if status := get(t, s.URL()+"/nowhere", &m); status != http.StatusNotFound {
		t.Errorf("/nowhere: %d", status)
	}
}
