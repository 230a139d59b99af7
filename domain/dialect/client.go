package dialect

import (
	"strings"
	"unicode/utf8"
)

// Client is the program that calls, as far as it can be recognised. The zero value is any other one.
type Client uint8

// The clients that are told from others.
const (
	AnyClient Client = iota
	ClaudeCode
	CodexCLI
	GeminiCLI
	OpenCode
)

var clientNames = [...]string{"any", "claude_code", "codex", "gemini_cli", "opencode"}

// String is the client's name in facts, logs and in the clients of a group; unknown values are "any".
func (c Client) String() string {
	if int(c) >= len(clientNames) {
		return clientNames[AnyClient]
	}
	return clientNames[c]
}

// ParseClient is the client with that name; false for an unknown one.
func ParseClient(name string) (Client, bool) {
	for i, n := range clientNames {
		if n == name {
			return Client(i), true
		}
	}
	return AnyClient, false
}

// clientPools is which client's requests belong into a pool of their own (C7). The generic capability serves instead
// when that pool cannot (C8).
var clientPools = [...]struct {
	client       Client
	generic, own Capability
}{
	{ClaudeCode, CapMessages, CapClaudeCode},
	{CodexCLI, CapResponses, CapCodexCLI},
}

// Pools is what a request needs of an upstream: the capability of its endpoint, or the client's own with the generic
// one to fall back to ("" for none) (C7-C9).
func Pools(endpoint Capability, c Client) (need, fallback Capability) {
	for _, row := range clientPools {
		if row.client == c && row.generic == endpoint {
			return row.own, endpoint
		}
	}
	return endpoint, ""
}

// Clues collects what the headers of a request tell of the client and of the session. The zero value has seen none. It
// keeps parts of the values that it is given.
type Clues struct {
	agent, app, originator string
	beta, codex            bool // anthropic-beta: claude-code-…; any x-codex-…
	session                [len(sessionHeaders)]string
}

// sessionHeaders name a session, in descending order of trust. Codex sends session-id, Claude Code its own, others one
// of the rest.
var sessionHeaders = [...]string{
	"session_id", "session-id", "x-session-id", "x-session_id", "x_session_id", "x-claude-code-session-id", "x-session-affinity", "thread-id",
}

// sessionLengths has a bit for each length that one of sessionHeaders has: few other headers need be compared with them.
var sessionLengths = func() (lengths uint64) {
	for _, h := range sessionHeaders {
		lengths |= 1 << len(h)
	}
	return lengths
}()

// Header takes one header in; its name in any case. It does not allocate.
func (c *Clues) Header(name, value string) {
	switch len(name) {
	case 5:
		if strings.EqualFold(name, "x-app") {
			c.app = value
		}
	case 10:
		switch {
		case strings.EqualFold(name, "user-agent"):
			c.agent = value
		case strings.EqualFold(name, "originator"):
			c.originator = value
		}
	case 14:
		if strings.EqualFold(name, "anthropic-beta") && containsFold(value, "claude-code-") {
			c.beta = true
		}
	}
	if len(name) > 8 && name[0]|0x20 == 'x' && strings.EqualFold(name[:8], "x-codex-") {
		c.codex = true
	}
	if sessionLengths>>len(name)&1 == 0 {
		return
	}
	for i, h := range sessionHeaders {
		if len(name) == len(h) && c.session[i] == "" && strings.EqualFold(name, h) {
			c.session[i] = value
		}
	}
}

// Client recognises the program. Claude Code: the beta of its own, or its agent with x-app: cli. Codex: originator,
// agent or an x-codex- header.
func (c *Clues) Client() Client {
	switch {
	case c.beta, prefixFold(c.agent, "claude-cli/") && strings.EqualFold(c.app, "cli"):
		return ClaudeCode
	case c.codex, codexName(c.originator), codexName(beforeSlash(c.agent)):
		return CodexCLI
	case prefixFold(c.agent, "GeminiCLI"):
		return GeminiCLI
	case prefixFold(c.agent, "opencode/"):
		return OpenCode
	}
	return AnyClient
}

// codexName is codex_cli_rs, codex_exec, codex_vscode, codex-tui and the like.
func codexName(s string) bool { return prefixFold(s, "codex_") || prefixFold(s, "codex-") }

// Session is the session that the headers name, "" when none does.
func (c *Clues) Session() string {
	for _, id := range &c.session {
		if id == "" {
			continue
		}
		if id = strings.TrimSpace(id); id != "" && len(id) <= sessionMax && utf8.ValidString(id) {
			return id
		}
	}
	return ""
}

// SessionOf is the session of a request: what the dialect's clients trust first (metadata.user_id for Messages, headers
// for the others), then the other one. Gemini's bodies name none.
func SessionOf(d Dialect, headers *Clues, body *Request) string {
	first, second := headers.Session(), body.Session
	if d == AnthropicMessages {
		first, second = second, first
	}
	if first != "" {
		return first
	}
	return second
}

func prefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func beforeSlash(s string) string {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i]
	}
	return s
}

func containsFold(s, part string) bool {
	for i := 0; i+len(part) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(part)], part) {
			return true
		}
	}
	return false
}
