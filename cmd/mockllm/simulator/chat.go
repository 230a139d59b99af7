package simulator

// chat is OpenAI chat completions.
type chat struct{}

func (chat) streams(_ string, body []byte) (bool, bool) { return isTrue(body, `"stream"`), false }

func (chat) idHeader() string { return "x-request-id" }

func (chat) usage(b js, u Usage) js {
	b = b.s(`{"prompt_tokens":`).d(u.Prompt).s(`,"completion_tokens":`).d(u.Output).s(`,"total_tokens":`).d(u.Prompt + u.Output)
	b = b.s(`,"prompt_tokens_details":{"cached_tokens":`).d(u.Cached)
	b = b.writes(u).media(u.AudioInput, u.ImageInput)
	b = b.s(`},"completion_tokens_details":{"reasoning_tokens":`).d(u.Reasoning).media(u.AudioOutput, u.ImageOutput).s(`}`)
	if u.WebSearches > 0 {
		b = b.s(`,"num_search_queries":`).d(u.WebSearches)
	}
	return b.s(`}`)
}

func (c chat) whole(b js, a *answer, txt []byte) js {
	b = b.s(`{"id":"`).id("chatcmpl-", a.n).s(`","object":"chat.completion","created":`).d(int(a.created)).s(`,"model":"`).s(a.model)
	b = b.s(`","choices":[{"index":0,"message":{"role":"assistant","content":"`).t(txt)
	b = b.s(`","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":`)
	return c.usage(b, a.usage).tier("service_tier", a.usage).s(`,"system_fingerprint":"fp_mock"}`)
}

// open begins a chunk, up to its choices.
func (chat) open(b js, a *answer) js {
	b = b.s(`data: {"id":"`).id("chatcmpl-", a.n).s(`","object":"chat.completion.chunk","created":`).d(int(a.created))
	return b.s(`,"model":"`).s(a.model).s(`"`).tier("service_tier", a.usage).s(`,"system_fingerprint":"fp_mock","choices":[`)
}

// shut ends a chunk that has choices: when usage was asked for, each says that it has none.
func (chat) shut(b js, a *answer) js {
	if a.askedUsage {
		b = b.s(`,"usage":null`)
	}
	return b.s("}\n\n")
}

func (c chat) start(b js, a *answer) js {
	b = c.open(b, a).s(`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]`)
	return c.shut(b, a)
}

func (c chat) delta(b js, a *answer, txt []byte, _ int) js {
	b = c.open(b, a).s(`{"index":0,"delta":{"content":"`).t(txt).s(`"},"logprobs":null,"finish_reason":null}]`)
	return c.shut(b, a)
}

func (c chat) end(b js, a *answer, _ []byte, _ int) js {
	b = c.open(b, a).s(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]`)
	b = c.shut(b, a)
	if a.askedUsage {
		b = c.usage(c.open(b, a).s(`],"usage":`), a.usage).s("}\n\n")
	}
	return b.s("data: [DONE]\n\n")
}

func (c chat) broken(b js, a *answer, _ int) js {
	return c.refusal(b.s("data: "), a, 500, "").s("\n\n")
}

func (chat) refusal(b js, _ *answer, status int, kind string) js { return openaiError(b, status, kind) }

var openaiKinds = map[int]string{400: "invalid_request_error", 401: "invalid_request_error", 403: "invalid_request_error",
	404: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error"}

var openaiCodes = map[int]string{400: "invalid_value", 401: "invalid_api_key", 403: "unsupported_country_region_territory",
	404: "model_not_found", 422: "invalid_value", 429: "rate_limit_exceeded"}

// openaiError is the error object of both OpenAI dialects. A kind given replaces type and code, as with
// insufficient_quota.
func openaiError(b js, status int, kind string) js {
	code := kind
	if kind == "" {
		kind, code = kindOf(openaiKinds, status, "server_error"), kindOf(openaiCodes, status, "server_error")
	}
	return b.s(`{"error":{"message":"mock error `).d(status).s(`","type":`).q(kind).s(`,"param":null,"code":`).q(code).s(`}}`)
}
