package requestlog

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// word is a text that many lines share. In a detail it is its number where it has one.
type word string

// words are the texts that have numbers, which are stored: new ones go to the end, and none may go or move without a new version of the
// projection.
var words = [...]string{
	"POST", "GET",
	"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions", "/v1/embeddings",
	"openai-chat", "openai-responses", "anthropic-messages", "gemini",
	"openai_chat_compatible", "openai_responses", "openai_extended", "anthropic_messages", "claude_code_messages",
	"codex_cli_responses", "gemini_native_generate", "gemini_code_assist_internal",
	"claude_code", "codex",
	"ok", "network", "connect_timeout", "first_byte_timeout", "idle_timeout", "empty_response", "no_content_stream", "stream_cut",
	"http_429", "http_4xx", "http_5xx", "overloaded", "auth", "quota", "invalid_answer", "caller_fault", "cancelled", "local_fault",
	"reported", "partial", "estimated", "none",
	"manual", "synced", "price_not_found", "default", "standard", "priority", "flex",
	"affinity_hit", "affinity_migrated", "affinity_pinned",
	"auth_filter", "admission", "candidate_selection", "queue", "upstream_request", "upstream_response", "downstream_streaming",
	"API_KEY_RATE_LIMITED", "CALLER_CONCURRENCY_FULL", "API_KEY_QUOTA_EXCEEDED", "BALANCE_EXHAUSTED", "ALL_UPSTREAMS_UNAVAILABLE",
	"QUEUE_WAIT_TIMEOUT", "CLIENT_DISCONNECTED", "STORE_OVERLOADED", "UPSTREAM_HTTP_ERROR", "UPSTREAM_NETWORK_ERROR", "REQUEST_TIMEOUT",
	"STREAM_ERROR", "NO_HEALTHY_CANDIDATES", "UPSTREAM_CIRCUIT_OPEN", "CONCURRENCY_FULL", "QUEUE_FULL",
}

var wordNumbers = func() map[string]int {
	m := make(map[string]int, len(words))
	for i, w := range words {
		m[w] = i
	}
	return m
}()

// UnmarshalJSON reads a number of words or the text itself.
func (w *word) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(w))
	}
	var n int
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	if n < 0 || n >= len(words) {
		return fmt.Errorf("there is no word %d", n)
	}
	*w = word(words[n])
	return nil
}
