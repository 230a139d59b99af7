package penstock_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// routed is what a request's line in the log says of its way.
type routed struct {
	Capability, Upstream, Account, Session, Affinity, Model string
	Profile                                                 string `json:"client_profile"`
	UpstreamModel                                           string `json:"upstream_model"`
	Status                                                  int
	Reason                                                  string
	Excluded                                                []struct{ Upstream, Account, Reason, Until string }
}

func (r *rig) way(resp *http.Response) routed {
	r.t.Helper()
	var story struct{ Request *routed }
	status, body := r.admin("GET", "/api/v1/requests/"+resp.Header.Get("X-Request-Id"), nil)
	if err := json.Unmarshal(body, &story); status != 200 || err != nil || story.Request == nil {
		r.t.Fatalf("request: %d %s", status, body)
	}
	return *story.Request
}

// accounts gives an upstream more accounts: id-2, id-3 …
func (r *rig) accounts(upstream string, n int) {
	for i := 2; i <= n; i++ {
		r.apply(map[string]any{"kind": "account", "id": fmt.Sprint(upstream, "-", i), "upstream": upstream, "api_key": fmt.Sprint("sk-", upstream, i)})
	}
}

// told is a way in which a client names its session; % is the session.
type told struct {
	name, path, body string
	headers          []string
	profile          string
}

const (
	chatSession     = `{"model":"m","messages":[{"role":"user","content":"hi"}]`
	messagesSession = `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}]`
	responseSession = `{"model":"m","input":"hi"`
	geminiBody      = `{"contents":[{"parts":[{"text":"hi"}]}]}`
	geminiPath      = "/v1beta/models/m:generateContent"
)

var sessions = []told{
	{"chat, prompt_cache_key", "/v1/chat/completions", chatSession + `,"prompt_cache_key":"%"}`, nil, ""},
	{"chat, a header", "/v1/chat/completions", chatSession + `}`, []string{"X-Session-Id", "%"}, ""},
	{"Claude Code, today", "/v1/messages", messagesSession + `,"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"%\"}"}}`,
		[]string{"User-Agent", "claude-cli/2.0.1 (external, cli)", "X-App", "cli"}, "claude_code"},
	{"Claude Code, before", "/v1/messages", messagesSession + `,"metadata":{"user_id":"user_ab_account__session_%"}}`,
		[]string{"Anthropic-Beta", "claude-code-20250219"}, "claude_code"},
	{"Codex, prompt_cache_key", "/v1/responses", responseSession + `,"prompt_cache_key":"%"}`, []string{"Originator", "codex_cli_rs"}, "codex"},
	{"Codex, its header", "/v1/responses", responseSession + `}`, []string{"Session_id", "%", "Originator", "codex_cli_rs"}, "codex"},
	{"responses, conversation", "/v1/responses", responseSession + `,"conversation":{"id":"%"}}`, nil, ""},
	{"Gemini, a header", geminiPath, geminiBody, []string{"X-Session-Id", "%"}, ""},
}

func (c told) of(session string) (path, body string, headers []string) {
	for _, h := range c.headers {
		headers = append(headers, strings.ReplaceAll(h, "%", session))
	}
	return c.path, strings.ReplaceAll(c.body, "%", session), headers
}

// The next request of a session meets the account of the last one, however its client names it, and still does so after a
// restart (C7, C56, C57, B12, B13).
func TestSessionsKeepTheirAccountAlsoAcrossARestart(t *testing.T) {
	r := newRig(t, nil)
	for _, id := range []string{"a", "b"} {
		r.upstream(id, fixed(), nil)
		r.accounts(id, 3)
	}
	key := r.key("team", nil)
	type at struct{ upstream, account string }
	home := map[string]at{}
	ask := func(c told, session string) routed {
		t.Helper()
		path, body, headers := c.of(session)
		resp, answer := r.post(path, body, append(headers, "Authorization", key)...)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d %s", c.name, resp.StatusCode, answer)
		}
		e := r.way(resp)
		if e.Session != session || e.Profile != c.profile {
			t.Errorf("%s: session %q, profile %q", c.name, e.Session, e.Profile)
		}
		return e
	}
	stays := func(when string) {
		t.Helper()
		for i, c := range sessions {
			for n := range 4 {
				session := fmt.Sprintf("s-%d-%d", i, n)
				if e := ask(c, session); (at{e.Upstream, e.Account}) != home[session] ||
					e.Affinity != "affinity_hit" && e.Affinity != "affinity_pinned" {
					t.Errorf("%s, %s: %s %s %q, was at %v", when, c.name, e.Upstream, e.Account, e.Affinity, home[session])
				}
			}
		}
	}
	used := map[string]bool{}
	for i, c := range sessions {
		for n := range 4 {
			session := fmt.Sprintf("s-%d-%d", i, n)
			e := ask(c, session)
			home[session] = at{e.Upstream, e.Account}
			used[e.Upstream] = true
			if e.Affinity != "" {
				t.Errorf("%s: first request %s", c.name, e.Affinity)
			}
		}
	}
	if len(used) != 2 {
		t.Errorf("sessions began at %v only", used)
	}
	stays("before the restart")
	r.close()
	r.open()
	stays("after it")

	bound := 0
	for _, id := range []string{"a", "b"} {
		var st struct {
			Bindings *int                                `json:"affinity_bindings"`
			Sessions []struct{ Session, Account string } `json:"affinity_sessions"`
		}
		status, body := r.admin("GET", "/api/v1/upstreams/"+id+"/status", nil)
		if err := json.Unmarshal(body, &st); status != 200 || err != nil || st.Bindings == nil {
			t.Fatalf("status: %d %s", status, body)
		}
		for _, s := range st.Sessions {
			if home[s.Session].account != s.Account {
				t.Errorf("%s is shown at %s", s.Session, s.Account)
			}
		}
		bound += *st.Bindings
	}
	if bound != len(home) {
		t.Errorf("%d bindings are shown, %d sessions", bound, len(home))
	}
	_, metrics := r.admin("GET", "/metrics", nil)
	if want := fmt.Sprintf("penstock_affinity_bindings %d\n", len(home)); !strings.Contains(string(metrics), want) {
		t.Errorf("metrics lack %q", want)
	}
	r.verify()
}

// A response is continued by the account that gave it, whole or streamed, before and after a restart; when that account
// cannot serve, the request is refused with the reason (B54, E25).
func TestAResponseIsContinuedByTheAccountThatGaveIt(t *testing.T) {
	r := newRig(t, nil)
	for _, id := range []string{"a", "b"} {
		r.upstream(id, fixed(), nil)
		r.accounts(id, 3)
	}
	key := r.key("team", nil)
	for _, stream := range []bool{false, true} {
		var first routed
		last := ""
		for n := range 5 {
			body := fmt.Sprintf(`{"model":"m","stream":%v,"input":"hi"`, stream)
			if n > 0 {
				body += `,"previous_response_id":"` + last + `"`
			}
			resp, answer := r.post("/v1/responses", body+"}", "Authorization", key)
			if resp.StatusCode != 200 {
				t.Fatalf("%d %s", resp.StatusCode, answer)
			}
			_, id, ok := strings.Cut(answer, `"id":"resp_`)
			if last, _, _ = strings.Cut(id, `"`); !ok {
				t.Fatalf("no id in %s", answer)
			}
			last = "resp_" + last
			e := r.way(resp)
			if n == 0 {
				first = e
			} else if e.Account != first.Account || e.Affinity != "affinity_pinned" {
				t.Errorf("stream %v, %d: %s %s, first at %s", stream, n, e.Account, e.Affinity, first.Account)
			}
			if n == 2 {
				r.close()
				r.open()
			}
		}
		if status, body := r.admin("POST", "/api/v1/accounts/"+first.Account+"/block", map[string]any{"until": "2099-01-01T00:00:00Z"}); status/100 != 2 {
			t.Fatalf("%d %s", status, body)
		}
		resp, answer := r.post("/v1/responses", `{"model":"m","input":"hi","previous_response_id":"`+last+`"}`, "Authorization", key)
		e := r.way(resp)
		if resp.StatusCode != 503 || !strings.Contains(answer, "CONTINUATION_PINNED") || e.Reason != "CONTINUATION_PINNED" {
			t.Errorf("%d %s, logged %+v", resp.StatusCode, answer, e)
		}
		if status, body := r.admin("POST", "/api/v1/accounts/"+first.Account+"/block", map[string]any{"until": nil}); status/100 != 2 {
			t.Fatalf("unblock: %d %s", status, body)
		}
	}
}

// C3-C9, C37-C47: a recognised client meets the upstreams that declare its capability; without such, and when none of them
// can serve, the generic ones; other clients never meet those of a client.
func TestClientsHavePoolsOfTheirOwn_C3_C9(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("claude", fixed(), map[string]any{"capabilities": []string{"claude_code_messages"}})
	r.upstream("codex", fixed(), map[string]any{"capabilities": []string{"codex_cli_responses"}})
	r.upstream("plain", fixed(), map[string]any{"capabilities": []string{"anthropic_messages", "openai_responses"}})
	key := r.key("team", nil)
	claude, codex := sessions[2], sessions[5]
	ask := func(c told, headers bool) routed {
		t.Helper()
		path, body, hs := c.of("s")
		if !headers {
			hs = nil
		}
		resp, _ := r.post(path, body, append(hs, "Authorization", key)...)
		return r.way(resp)
	}
	expect := func(what string, e routed, upstream, capability string) {
		t.Helper()
		if e.Upstream != upstream || e.Capability != capability {
			t.Errorf("%s: %s for %s (%d %s)", what, e.Upstream, e.Capability, e.Status, e.Reason)
		}
	}
	for range 5 {
		expect("Claude Code", ask(claude, true), "claude", "claude_code_messages")
		expect("messages", ask(claude, false), "plain", "anthropic_messages")
		expect("Codex", ask(codex, true), "codex", "codex_cli_responses")
		expect("responses", ask(codex, false), "plain", "openai_responses")
	}
	for _, id := range []string{"claude", "codex"} {
		if status, body := r.admin("POST", "/api/v1/upstreams/"+id+"/breaker", map[string]any{"action": "open"}); status/100 != 2 {
			t.Fatalf("breaker: %d %s", status, body)
		}
	}
	expect("Claude Code, its pool out of service", ask(claude, true), "plain", "claude_code_messages")
	expect("Codex, its pool out of service", ask(codex, true), "plain", "codex_cli_responses")
}

// B4, D19-D24, E17: what a key may use is what is granted to it and no more: a group that has nothing, or is not there, serves
// nothing.
func TestGrantsFailClosed_D19_D24(t *testing.T) {
	r := newRig(t, nil)
	a := r.upstream("a", fixed(), nil)
	b := r.upstream("b", fixed(), nil)
	r.accounts("b", 2)
	r.apply(
		map[string]any{"kind": "group", "id": "only-b2", "accounts": []string{"b-2"}},
		map[string]any{"kind": "group", "id": "empty"},
	)
	for _, c := range []struct {
		id     string
		doc    map[string]any
		status int
		code   string
		where  string
	}{
		{"open", nil, 200, "", ""},
		{"restricted", map[string]any{"access": "restricted", "upstreams": []string{"b"}}, 200, "", "b"},
		{"restricted-to-nothing", map[string]any{"access": "restricted"}, 403, "NO_AUTHORIZED_UPSTREAMS", ""},
		{"of-a-group", map[string]any{"group": "only-b2"}, 200, "", "b-2"},
		{"of-an-empty-group", map[string]any{"group": "empty"}, 0, "", ""},
	} {
		key := r.key(c.id, c.doc)
		for range 6 {
			resp, body := r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
			e := r.way(resp)
			if c.status == 0 {
				if resp.StatusCode == 200 {
					t.Errorf("%s: served by %s", c.id, e.Account)
				}
				continue
			}
			if resp.StatusCode != c.status || !strings.Contains(body, c.code) || !strings.HasPrefix(e.Account, c.where) {
				t.Errorf("%s: %d by %s: %.200s", c.id, resp.StatusCode, e.Account, body)
			}
		}
	}
	if a.Stats().All.Requests == 0 || b.Stats().All.Requests == 0 {
		t.Error("nobody was asked")
	}
}

// E13-E17: public names, names with an upstream in front, and the list of models.
func TestPublicNamesOfModels_E13_E17(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), map[string]any{"model_rules": []map[string]any{{"type": "exact", "value": "gpt-5"}, {"type": "exact", "value": "b/literal"}}})
	r.upstream("b", fixed(), map[string]any{"model_rules": []map[string]any{{"type": "exact", "value": "gpt-5"}, {"type": "alias", "value": "fast", "target": "gpt-5"}, {"type": "regex", "value": "^secret-"}}})
	r.apply(map[string]any{"kind": "setting", "name": "scheduling.public_names_only", "value": "true"})
	key := r.key("team", nil)
	narrow := r.key("narrow", map[string]any{"access": "restricted", "upstreams": []string{"a"}})
	chat := func(key, model string) (routed, string) {
		t.Helper()
		resp, body := r.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model), "Authorization", key)
		return r.way(resp), body
	}
	for _, c := range []struct {
		key, model, upstream string
		status               int
		code                 string
	}{
		{key, "b/gpt-5", "b", 200, ""},
		{key, "b/literal", "a", 200, ""}, // a public name wins over the prefix (E15)
		{key, "fast", "b", 200, ""},
		{key, "b/secret-1", "b", 200, ""},
		{key, "secret-1", "", 404, "UNKNOWN_MODEL"},
		{key, "nobody/gpt-5", "", 404, "UNKNOWN_MODEL"},
		{narrow, "b/gpt-5", "", 403, "NO_AUTHORIZED_UPSTREAMS"},
		{narrow, "gpt-5", "a", 200, ""},
	} {
		e, body := chat(c.key, c.model)
		if e.Status != c.status || e.Upstream != c.upstream || !strings.Contains(body, c.code) {
			t.Errorf("%s: %d by %q: %.200s", c.model, e.Status, e.Upstream, body)
		}
	}
	list := func(path, key string) (int, string) {
		req, err := http.NewRequest("GET", "http://"+r.gw.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var page struct{ Data []struct{ ID string } }
		_ = json.NewDecoder(resp.Body).Decode(&page)
		var ids []string
		for _, m := range page.Data {
			ids = append(ids, m.ID)
		}
		return resp.StatusCode, strings.Join(ids, " ")
	}
	if _, got := list("/v1/models", key); got != "b/literal fast gpt-5" {
		t.Errorf("models: %s", got)
	}
	if _, got := list("/v1/models", narrow); got != "b/literal gpt-5" {
		t.Errorf("models of a narrow key: %s", got)
	}
	for path, want := range map[string]int{"/v1/models/fast": 200, "/v1/models/b/gpt-5": 200, "/v1/models/none": 404} {
		if status, _ := list(path, key); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// The excluded accounts stand in the log, with the end of their block.
func TestTheLogShowsWhichAccountsWereLeftOut(t *testing.T) {
	r := newRig(t, nil)
	bad := fixed()
	bad.ErrRate, bad.ErrStatus, bad.RetryAfter = 1, 429, 60
	r.upstream("a", simulator.Behavior(bad), nil)
	r.upstream("b", fixed(), map[string]any{"priority": 1})
	key := r.key("team", nil)
	r.post("/v1/chat/completions", chatBody("x"), "Authorization", key)
	resp, _ := r.post("/v1/chat/completions", chatBody("y"), "Authorization", key)
	e := r.way(resp)
	for _, x := range e.Excluded {
		if x.Upstream == "a" && x.Account == "a-1" && x.Reason == "blocked" && x.Until != "" {
			return
		}
	}
	t.Errorf("logged %+v", e)
}
