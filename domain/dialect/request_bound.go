package dialect

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// weighty are the members that decide what a request may do and what it costs. Some readers (Go's own, and thus many gateways) do not
// care for the case of a name: to them "Model" is the model, and comes over "model" when it is the later one.
var weighty = [...]string{
	"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "prompt",
	"service_tier", "serviceTier", "background", "generationConfig", "generation_config",
}

// weightyConfig are those within Gemini's configuration of the output.
var weightyConfig = [...]string{"maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count"}

// other steps over a member that means nothing here, unless it is one of those in another case: that is refused.
func (s *requestScan) other(name []byte, among []string) {
	for _, n := range among {
		if (len(name) == len(n) || len(name) > len(n) && !ascii(name)) && bytes.EqualFold(name, []byte(n)) {
			s.wrong(fieldName(name), "some readers take it for "+n)
			return
		}
	}
	s.skip()
}

// ascii is false for a name such as max_toKens with the sign for kelvin, which some readers take for a k.
func ascii(name []byte) bool {
	return !slices.ContainsFunc(name, func(c byte) bool { return c >= utf8.RuneSelf })
}

// bounds are what limits the output of a request. Each is the largest that any reader can find in the body: 0 when it does not
// say, below 0 when there is something that some readers take for a number and others do not.
type bounds struct {
	tokens  int64 // of one answer
	answers int64 // for each prompt
	prompts int64
}

// bounding reads a member that limits the output where the dialect has it. In another one upstreams pass over it.
func (s *requestScan) bounding(name []byte) {
	switch n := string(name); {
	case n == "max_output_tokens" && s.d == OpenAIResponses,
		n == "max_tokens" && (s.d == OpenAIChat || s.d == AnthropicMessages),
		n == "max_completion_tokens" && s.d == OpenAIChat:
		s.most(&s.bound.tokens)
	case (n == "n" || n == "best_of") && s.d == OpenAIChat:
		s.most(&s.bound.answers)
	case n == "prompt" && s.d == OpenAIChat:
		s.prompts()
	default:
		s.skip()
	}
}

// most reads one bound. Null is none, and so is a number below 1. A text is one to upstreams that convert it.
func (s *requestScan) most(bound *int64) {
	null := s.peek() == 'n'
	n, ok := s.integer()
	switch {
	case null:
	case !ok:
		*bound = -1
	case *bound >= 0:
		*bound = max(*bound, n)
	}
}

// prompts counts those of a completion: each of a list of texts, or of lists of tokens, is answered by itself.
func (s *requestScan) prompts() {
	if !s.array() {
		return
	}
	for s.element() {
		if c := s.peek(); c == '"' || c == '[' {
			s.bound.prompts++
		}
		s.skip()
	}
}

func (b *bounds) output() int64 { return max(b.tokens, 0) }

func (b *bounds) choices() int64 {
	if b.answers < 0 || b.prompts <= 1 {
		return b.answers
	}
	if answers := max(b.answers, 1); answers < countMax/b.prompts {
		return answers * b.prompts
	}
	return countMax
}
