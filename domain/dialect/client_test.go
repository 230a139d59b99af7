package dialect

import (
	"encoding/json"
	"strings"
	"testing"
)

func clues(headers ...string) *Clues {
	var c Clues
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		c.Header(name, value)
	}
	return &c
}

func TestClientsAreRecognisedByTheirHeaders_C7_B5(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string
		want    Client
	}{
		{"Claude Code 2.1.332", []string{"User-Agent: claude-cli/2.1.332 (external, sdk-cli)", "X-App: cli", "Anthropic-Beta: claude-code-20250219,interleaved-thinking-2025-05-14"}, ClaudeCode},
		{"its beta behind others is enough", []string{"anthropic-beta: effort-2025-11-24,claude-code-20250219"}, ClaudeCode},
		{"its agent with x-app", []string{"user-agent: claude-cli/1.0", "x-app: cli"}, ClaudeCode},
		{"its agent alone is not", []string{"user-agent: claude-cli/1.0"}, AnyClient},
		{"x-app alone is not", []string{"x-app: cli"}, AnyClient},
		{"another beta", []string{"anthropic-beta: context-1m-2025-08-07"}, AnyClient},
		{"Codex by its originator", []string{"originator: codex_cli_rs"}, CodexCLI},
		{"codex exec 0.171", []string{"originator: codex_exec", "user-agent: codex_exec/0.171.0 (Linux)"}, CodexCLI},
		{"Codex by its agent", []string{"user-agent: codex_cli_rs/0.20"}, CodexCLI},
		{"Codex by one of its headers", []string{"X-Codex-Window-Id: 1"}, CodexCLI},
		{"x-codexes is none of them", []string{"x-codexes: 1"}, AnyClient},
		{"Gemini CLI", []string{"user-agent: GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)"}, GeminiCLI},
		{"opencode", []string{"user-agent: opencode/1.18.33 ai-sdk/provider-utils"}, OpenCode},
		{"an SDK", []string{"user-agent: OpenAI/Python 2.1", "accept: */*"}, AnyClient},
		{"nothing", nil, AnyClient},
	} {
		if got := clues(c.headers...).Client(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for c := AnyClient; c <= OpenCode; c++ {
		if back, ok := ParseClient(c.String()); !ok || back != c {
			t.Errorf("%v is not read back", c)
		}
	}
	if _, ok := ParseClient("curl"); ok || Client(99).String() != "any" {
		t.Error("an unknown client has a name")
	}
}

func TestAClientHasItsOwnPoolWithTheGenericOneBehind_C7_C8(t *testing.T) {
	for _, c := range []struct {
		endpoint       Capability
		client         Client
		need, fallback Capability
	}{
		{CapMessages, ClaudeCode, CapClaudeCode, CapMessages},
		{CapResponses, CodexCLI, CapCodexCLI, CapResponses},
		{CapMessages, CodexCLI, CapMessages, ""},
		{CapChat, ClaudeCode, CapChat, ""},
		{CapGemini, GeminiCLI, CapGemini, ""},
		{CapResponses, AnyClient, CapResponses, ""},
	} {
		need, fallback := Pools(c.endpoint, c.client)
		if need != c.need || fallback != c.fallback {
			t.Errorf("%s from %v: %s, %s", c.endpoint, c.client, need, fallback)
		}
		if is, _ := need.Fallback(); is != fallback {
			t.Errorf("%s falls back to %s by the table of capabilities", need, is)
		}
	}
}

func TestASessionIsFoundWhereEachClientPutsIt(t *testing.T) {
	body := func(d Dialect, text string) *Request {
		r, err := ScanRequest([]byte(text), d)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	for _, c := range []struct {
		name    string
		d       Dialect
		headers []string
		body    string
		want    string
	}{
		{"OpenAI: headers before the body", OpenAIResponses, []string{"Session-Id: h"}, `{"prompt_cache_key":"k"}`, "h"},
		{"in their order", OpenAIResponses, []string{"x_session_id: e", "X-Session-Id: c", "session_id: a", "session-id: b"}, `{}`, "a"},
		{"prompt_cache_key, metadata, conversation, previous response", OpenAIResponses, nil, `{"previous_response_id":"r","conversation":"c","metadata":{"session_id":"m"},"prompt_cache_key":"k"}`, "k"},
		{"metadata", OpenAIChat, nil, `{"metadata":{"session_id":"m"}}`, "m"},
		{"conversation as an object", OpenAIResponses, nil, `{"conversation":{"id":"c"}}`, "c"},
		{"previous response", OpenAIResponses, nil, `{"previous_response_id":"r"}`, "r"},
		{"Claude Code: the body before its header", AnthropicMessages, []string{"x-claude-code-session-id: h"}, `{"metadata":{"user_id":"{\"session_id\":\"b\"}"}}`, "b"},
		{"its header", AnthropicMessages, []string{"x-claude-code-session-id: h"}, `{}`, "h"},
		{"opencode", AnthropicMessages, []string{"x-session-affinity: a", "x-session-id: ses_1"}, `{}`, "ses_1"},
		{"Gemini: a header only", Gemini, nil, `{"prompt_cache_key":"k"}`, ""},
		{"one that is too long is none", OpenAIChat, []string{"session_id: " + strings.Repeat("x", 129)}, `{}`, ""},
		{"none (sub2api#3127)", OpenAIResponses, nil, `{"input":"hi"}`, ""},
	} {
		if got := SessionOf(c.d, clues(c.headers...), body(c.d, c.body)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWhatOnlyOneAccountCanContinueIsSeen(t *testing.T) {
	for _, c := range []struct {
		d            Dialect
		body         string
		continuation string
		reasoning    bool
		other        bool
	}{
		{OpenAIResponses, `{"previous_response_id":"resp_1","conversation":"c"}`, "resp_1", false, false},
		{OpenAIResponses, `{"conversation":{"id":"conv_1"}}`, "conv_1", false, false},
		{OpenAIResponses, `{"previous_response_id":null}`, "", false, false},
		{OpenAIResponses, `{"input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":"abc"}]}`, "", true, false},
		{OpenAIResponses, `{"input":[{"encrypted_content":"abc","type":"reasoning"},{"type":"compaction","encrypted_content":"abc"}]}`, "", true, true},
		{OpenAIResponses, `{"input":[{"type":"reasoning","encrypted_content":null}],"include":["reasoning.encrypted_content"]}`, "", false, false},
		{OpenAIResponses, `{"input":[{"role":"user","content":[{"type":"reasoning","encrypted_content":"abc"}]}]}`, "", false, false},
		{OpenAIChat, `{"messages":[{"role":"assistant","type":"reasoning","encrypted_content":"abc"}],"previous_response_id":"r"}`, "", false, false},
	} {
		r, err := ScanRequest([]byte(c.body), c.d)
		if err != nil || r.Continuation != c.continuation || r.EncryptedReasoning != c.reasoning || r.EncryptedOther != c.other {
			t.Errorf("%s: %+v, %v", c.body, r, err)
		}
	}
}

// B12: turns of one conversation share a session made from the content; different conversations do not.
func TestASessionFromTheContentLastsForAConversation_B12(t *testing.T) {
	session := func(d Dialect, body string) string {
		r, err := ScanRequest([]byte(body), d)
		if err != nil {
			t.Fatal(err)
		}
		return r.ContentSession([]byte(body))
	}
	for _, c := range []struct {
		name        string
		d           Dialect
		first, next string
		same        bool
	}{
		{"a chat grows", OpenAIChat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`, `{"temperature":1,"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}]}`, true},
		{"another question", OpenAIChat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"p"}]}`, false},
		{"another system prompt", AnthropicMessages, `{"system":"s","messages":[{"role":"user","content":"q"}]}`, `{"system":"t","messages":[{"role":"user","content":"q"}]}`, false},
		{"messages", AnthropicMessages, `{"system":"s","messages":[{"role":"user","content":"q"}]}`, `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}],"system":"s"}`, true},
		{"responses with text", OpenAIResponses, `{"input":"q"}`, `{"input":"q","stream":true}`, true},
		{"gemini without roles", Gemini, `{"contents":[{"parts":[{"text":"q"}]}]}`, `{"contents":[{"parts":[{"text":"q"}]},{"role":"model","parts":[]}]}`, true},
		{"long texts that differ at their end", OpenAIResponses, `{"input":"` + strings.Repeat("x", 20000) + `a"}`, `{"input":"` + strings.Repeat("x", 20000) + `b"}`, false},
	} {
		a, b := session(c.d, c.first), session(c.d, c.next)
		if a == "" || !strings.HasPrefix(a, "content:") || len(a) != 40 || (a == b) != c.same {
			t.Errorf("%s: %s %s", c.name, a, b)
		}
	}
	for _, nothing := range []string{`{}`, `{"messages":[]}`, `{"system":"shared by everybody"}`} {
		if got := session(AnthropicMessages, nothing); got != "" {
			t.Errorf("%s: %s", nothing, got)
		}
	}
}

func TestReasoningOfAnotherAccountIsDropped(t *testing.T) {
	const secret, open, text = `{"type":"reasoning","id":"rs","encrypted_content":"x"}`, `{"type":"reasoning","summary":[]}`, `{"role":"user","content":"q"}`
	for _, c := range []struct{ body, want string }{
		{`{"input":[` + text + `,` + secret + `,` + open + `]}`, `{"input":[` + text + `,` + open + `]}`},
		{`{"a":1,"input":[ ` + secret + ` , ` + text + ` ],"b":2}`, `{"a":1,"input":[` + text + `],"b":2}`},
		{`{"input":[` + secret + `]}`, `{"input":[]}`},
		{`{"input":[` + secret + `,` + secret + `,` + text + `,` + secret + `,` + text + `]}`, `{"input":[` + text + `,` + text + `]}`},
		{`{"input":"x"}`, `{"input":"x"}`},
		{`{"input":[` + secret + `,}`, `{"input":[` + secret + `,}`},
		{`[]`, `[]`},
		{``, ``},
	} {
		got := string(DropReasoning([]byte("+"), []byte(c.body)))[1:]
		if got != c.want || json.Valid([]byte(c.body)) && !json.Valid([]byte(got)) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.body, got, c.want)
		}
	}
}

func TestEachOfItsHeadersNamesTheSession(t *testing.T) {
	for _, name := range sessionHeaders {
		for _, written := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			if got := clues("Accept: */*", written+": s", "X-"+written+"-: t").Session(); got != "s" {
				t.Errorf("%s: %q", written, got)
			}
		}
	}
}

func TestReadingCluesDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		var c Clues
		c.Header("User-Agent", "claude-cli/2.1.332 (external, sdk-cli)")
		c.Header("X-Claude-Code-Session-Id", "abc")
		c.Header("Anthropic-Beta", "interleaved-thinking-2025-05-14,claude-code-20250219")
		if c.Client() != ClaudeCode || c.Session() != "abc" {
			t.Fatal("not recognised")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDropReasoning: what was valid stays valid, and nothing else is lost.
func FuzzDropReasoning(f *testing.F) {
	f.Add(`{"input":[{"type":"reasoning","encrypted_content":"x"},1]}`)
	f.Add(`{"input":[[],{}],"input":[null]}`)
	f.Fuzz(func(t *testing.T, body string) {
		got := DropReasoning(nil, []byte(body))
		if json.Valid([]byte(body)) && !json.Valid(got) {
			t.Fatalf("%q became %q", body, got)
		}
		if len(got) > len(body) || !strings.Contains(body, "encrypted") && !strings.Contains(body, "\\") && !json.Valid([]byte(body)) && string(got) != body {
			t.Fatalf("%q became %q", body, got)
		}
	})
}
