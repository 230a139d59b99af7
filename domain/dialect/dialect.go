// Package dialect reads and writes the four wire protocols that clients and upstreams speak. It routes a path to an
// endpoint, scans a request body once, splices into it without re-encoding, meters an answer while its bytes pass, and
// writes error bodies and model lists in the client's own shape. It is pure: no clock, no network, no locks. What is
// read from outside is never trusted: every scan is bounded and total.
package dialect

// Dialect is a wire protocol. The zero value is None: the path alone does not tell.
type Dialect uint8

// The dialects.
const (
	None Dialect = iota
	OpenAIChat
	OpenAIResponses
	AnthropicMessages
	Gemini
)

var dialectNames = [...]string{"", "openai-chat", "openai-responses", "anthropic-messages", "gemini"}

// String is the dialect's name in facts and logs; None and unknown values are "".
func (d Dialect) String() string {
	if int(d) >= len(dialectNames) {
		return ""
	}
	return dialectNames[d]
}

// Parse is the dialect with that name; an unknown name is None.
func Parse(name string) Dialect {
	for i, n := range dialectNames {
		if n == name {
			return Dialect(i)
		}
	}
	return None
}

// openAI says that the dialect has OpenAI's error shape and usage fields.
func (d Dialect) openAI() bool { return d == None || d == OpenAIChat || d == OpenAIResponses }

// Capability is what an upstream can serve and what a request needs.
type Capability string

// The eight capabilities (C3a..C3h).
const (
	CapMessages   Capability = "anthropic_messages"          // POST /v1/messages
	CapClaudeCode Capability = "claude_code_messages"        // the same from Claude Code
	CapResponses  Capability = "openai_responses"            // POST /v1/responses
	CapCodexCLI   Capability = "codex_cli_responses"         // the same from Codex
	CapChat       Capability = "openai_chat_compatible"      // chat completions, model list
	CapExtended   Capability = "openai_extended"             // completions, embeddings, images, audio, moderations
	CapGemini     Capability = "gemini_native_generate"      // /v1beta/models/{m}:verb
	CapCodeAssist Capability = "gemini_code_assist_internal" // Gemini Code Assist
)

// capabilities holds every capability with its provider group (C4) and the one that may serve instead (C8).
var capabilities = [...]struct {
	capability Capability
	provider   string
	fallback   Capability
}{
	{CapMessages, "anthropic", ""},
	{CapClaudeCode, "anthropic", CapMessages},
	{CapResponses, "openai", ""},
	{CapCodexCLI, "openai", CapResponses},
	{CapChat, "openai", ""},
	{CapExtended, "openai", ""},
	{CapGemini, "google", ""},
	{CapCodeAssist, "google", ""},
}

// Capabilities lists the eight capabilities in the order of C3. The caller owns the slice.
func Capabilities() []Capability {
	list := make([]Capability, 0, len(capabilities))
	for _, row := range capabilities {
		list = append(list, row.capability)
	}
	return list
}

// Valid says that c is one of the eight. A legacy name is not valid before NormalizeCapability.
func (c Capability) Valid() bool {
	for _, row := range capabilities {
		if row.capability == c {
			return true
		}
	}
	return false
}

// Provider is the group of C4: "anthropic", "openai", "google"; "" for an unknown capability.
func (c Capability) Provider() string {
	for _, row := range capabilities {
		if row.capability == c {
			return row.provider
		}
	}
	return ""
}

// Fallback is the generic capability that may serve a client-specific one (C8); false for the generic ones.
func (c Capability) Fallback() (Capability, bool) {
	for _, row := range capabilities {
		if row.capability == c {
			return row.fallback, row.fallback != ""
		}
	}
	return "", false
}

// NormalizeCapability maps a legacy name to today's (C5: codex_responses); everything else stays as it is.
func NormalizeCapability(name string) Capability {
	if name == "codex_responses" {
		return CapResponses
	}
	return Capability(name)
}

// Span is a byte range [Start, End). The zero value means "not there".
type Span struct{ Start, End int }

// Empty says that the span covers no byte.
func (s Span) Empty() bool { return s.End <= s.Start }

// Of is the part of b that the span covers.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End] }
