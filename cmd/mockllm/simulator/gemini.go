package simulator

import "strings"

// gemini is generateContent and streamGenerateContent, the latter as SSE or as a JSON array.
type gemini struct{}

func (gemini) streams(path string, _ []byte) (stream, array bool) {
	stream = strings.Contains(path, ":streamGenerateContent")
	return stream, stream && !strings.Contains(path, "alt=sse")
}

func (gemini) idHeader() string { return "x-request-id" }

// shut ends an answer or chunk: usage (candidates without thoughts), version, id.
func (gemini) shut(b js, a *answer) js {
	u := a.usage
	b = b.s(`,"usageMetadata":{"promptTokenCount":`).d(u.Prompt)
	if u.Cached > 0 {
		b = b.s(`,"cachedContentTokenCount":`).d(u.Cached)
	}
	b = b.s(`,"candidatesTokenCount":`).d(max(0, u.Output-u.Reasoning))
	if u.Reasoning > 0 {
		b = b.s(`,"thoughtsTokenCount":`).d(u.Reasoning)
	}
	b = b.modalities("promptTokensDetails", u.Prompt, u.AudioInput, u.ImageInput).modalities("candidatesTokensDetails", u.Output-u.Reasoning, u.AudioOutput, u.ImageOutput)
	b = b.tier("serviceTier", u).s(`,"totalTokenCount":`).d(u.Prompt + u.Output)
	return b.s(`},"modelVersion":"`).s(a.model).s(`","responseId":"`).id("", a.n).s(`"}`)
}

// modalities splits a sum, if it is not all text.
func (b js) modalities(name string, all, audio, image int) js {
	if audio+image == 0 {
		return b
	}
	b = b.s(`,"`).s(name).s(`":[{"modality":"TEXT","tokenCount":`).d(max(0, all-audio-image))
	b = b.s(`},{"modality":"AUDIO","tokenCount":`).d(audio).s(`},{"modality":"IMAGE","tokenCount":`).d(image)
	return b.s(`}]`)
}

// grounded is the member of a last candidate that names the searches it rests on.
func (b js) grounded(u Usage) js {
	if u.WebSearches == 0 {
		return b
	}
	b = b.s(`,"groundingMetadata":{"webSearchQueries":["mock"`)
	for range u.WebSearches - 1 {
		b = b.s(`,"mock"`)
	}
	return b.s(`]}`)
}

func (g gemini) whole(b js, a *answer, txt []byte) js {
	b = b.s(`{"candidates":[{"content":{"parts":[{"text":"`).t(txt).s(`"}],"role":"model"},"finishReason":"STOP"`).grounded(a.usage).s(`,"index":0}]`)
	return g.shut(b, a)
}

// start: Gemini has no preamble, so SSE begins with a comment, which a client must skip.
func (gemini) start(b js, a *answer) js {
	if a.array {
		return b.s(`[`)
	}
	return b.s(": mock\n\n")
}

// before and after frame chunk i of a stream; real SSE of Gemini ends its events with CRLF.
func (gemini) before(b js, a *answer, i int) js {
	switch {
	case !a.array:
		return b.s("data: ")
	case i > 0:
		return b.s(",\r\n")
	}
	return b
}

func (gemini) after(b js, a *answer) js {
	if a.array {
		return b
	}
	return b.s("\r\n\r\n")
}

func (g gemini) delta(b js, a *answer, txt []byte, i int) js {
	b = g.before(b, a, i).s(`{"candidates":[{"content":{"parts":[{"text":"`).t(txt).s(`"}],"role":"model"},"index":0}]`)
	return g.after(g.shut(b, a), a)
}

func (g gemini) end(b js, a *answer, _ []byte, n int) js {
	b = g.before(b, a, n).s(`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"`).grounded(a.usage).s(`,"index":0}]`)
	return g.close(g.after(g.shut(b, a), a), a)
}

// close ends the stream itself, as far as it has an end.
func (gemini) close(b js, a *answer) js {
	if a.array {
		return b.s(`]`)
	}
	return b
}

func (g gemini) broken(b js, a *answer, n int) js {
	return g.close(g.after(g.refusal(g.before(b, a, n), a, 503, ""), a), a)
}

var geminiKinds = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
	422: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}

func (gemini) refusal(b js, a *answer, status int, kind string) js {
	if kind == "" {
		kind = kindOf(geminiKinds, status, "INTERNAL")
	}
	b = b.s(`{"error":{"code":`).d(status).s(`,"message":"mock error `).d(status).s(`","status":`).q(kind)
	if a.retryAfter > 0 {
		b = b.s(`,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`).d(a.retryAfter).s(`s"}]`)
	}
	return b.s(`}}`)
}
