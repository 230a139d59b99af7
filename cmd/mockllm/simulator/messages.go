package simulator

// messages is Anthropic messages.
type messages struct{}

func (messages) streams(_ string, body []byte) (bool, bool) { return isTrue(body, `"stream"`), false }

func (messages) idHeader() string { return "request-id" }

// input is the input side of a usage object: input_tokens is what no cache had.
func (messages) input(b js, u Usage) js {
	b = b.s(`"input_tokens":`).d(max(0, u.Prompt-u.Cached-u.CacheWrite)).s(`,"cache_creation_input_tokens":`).d(u.CacheWrite)
	b = b.s(`,"cache_read_input_tokens":`).d(u.Cached)
	b = b.tier("service_tier", u)
	if u.CacheWrite > 0 {
		b = b.s(`,"cache_creation":{"ephemeral_5m_input_tokens":`).d(u.CacheWrite - u.CacheWrite1h).s(`,"ephemeral_1h_input_tokens":`).d(u.CacheWrite1h).s(`}`)
	}
	return b
}

func (messages) output(b js, u Usage) js {
	b = b.s(`"output_tokens":`).d(u.Output)
	if u.Reasoning > 0 {
		b = b.s(`,"output_tokens_details":{"thinking_tokens":`).d(u.Reasoning).s(`}`)
	}
	if u.WebSearches > 0 {
		b = b.s(`,"server_tool_use":{"web_search_requests":`).d(u.WebSearches).s(`}`)
	}
	return b
}

func (messages) open(b js, a *answer) js {
	return b.s(`{"id":"`).id("msg_", a.n).s(`","type":"message","role":"assistant","model":"`).s(a.model).s(`","content":[`)
}

func (m messages) whole(b js, a *answer, txt []byte) js {
	b = m.open(b, a).s(`{"type":"text","text":"`).t(txt).s(`"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{`)
	return m.output(m.input(b, a.usage).s(`,`), a.usage).s(`}}`)
}

func (m messages) start(b js, a *answer) js {
	b = m.open(b.s("event: message_start\ndata: {\"type\":\"message_start\",\"message\":"), a)
	b = m.input(b.s(`],"stop_reason":null,"stop_sequence":null,"usage":{`), a.usage).s(`,"output_tokens":1}}}` + "\n\n")
	b = b.s("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
	return b.s("event: ping\ndata: {\"type\":\"ping\"}\n\n")
}

func (messages) delta(b js, _ *answer, txt []byte, _ int) js {
	b = b.s("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"")
	return b.t(txt).s("\"}}\n\n")
}

func (m messages) end(b js, a *answer, _ []byte, _ int) js {
	b = b.s("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n")
	b = b.s("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{")
	return m.output(b, a.usage).s("}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
}

func (m messages) broken(b js, a *answer, _ int) js {
	return m.refusal(b.s("event: error\ndata: "), a, 529, "").s("\n\n")
}

var anthropicKinds = map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
	404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 422: "invalid_request_error", 429: "rate_limit_error",
	504: "timeout_error", 529: "overloaded_error"}

func (messages) refusal(b js, a *answer, status int, kind string) js {
	if kind == "" {
		kind = kindOf(anthropicKinds, status, "api_error")
	}
	b = b.s(`{"type":"error","error":{"type":`).q(kind).s(`,"message":"mock error `).d(status)
	return b.s(`"},"request_id":"req_`).d(int(a.n)).s(`"}`)
}
