package simulator

// plain is an OpenAI endpoint that only knows one JSON answer; its errors are those of chat.
type plain struct {
	chat
	json     func(b js, a *answer, txt []byte) js
	usage    bool // the answer tells it
	pictures bool // it has some
}

func (plain) streams(string, []byte) (bool, bool) { return false, false }

func (p plain) whole(b js, a *answer, txt []byte) js { return p.json(b, a, txt) }

func embedding(b js, a *answer, _ []byte) js {
	b = b.s(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25,-0.5,0.125]}],"model":"`).s(a.model)
	return b.s(`","usage":{"prompt_tokens":`).d(a.usage.Prompt).s(`,"total_tokens":`).d(a.usage.Prompt).s(`}}`)
}

func moderation(b js, a *answer, _ []byte) js {
	b = b.s(`{"id":"`).id("modr-", a.n).s(`","model":"`).s(a.model)
	return b.s(`","results":[{"flagged":false,"categories":{},"category_scores":{}}]}`)
}

func image(b js, a *answer, _ []byte) js {
	b = b.s(`{"created":`).d(int(a.created)).s(`,"data":[{"b64_json":"iVBORw0KGgo="}`)
	for range a.usage.Images - 1 {
		b = b.s(`,{"b64_json":"iVBORw0KGgo="}`)
	}
	b = b.s(`],"usage":{"input_tokens":`).d(a.usage.Prompt)
	return b.s(`,"output_tokens":`).d(a.usage.Output).s(`,"total_tokens":`).d(a.usage.Prompt + a.usage.Output).s(`}}`)
}

func transcript(b js, a *answer, txt []byte) js {
	b = b.s(`{"text":"`).t(txt).s(`","usage":{"type":"tokens","input_tokens":`).d(a.usage.Prompt)
	return b.s(`,"output_tokens":`).d(a.usage.Output).s(`,"total_tokens":`).d(a.usage.Prompt + a.usage.Output).s(`}}`)
}

// counting is the token count of another dialect, with its errors.
type counting struct{ dialect }

func (counting) streams(string, []byte) (bool, bool) { return false, false }

func (c counting) whole(b js, a *answer, _ []byte) js {
	if _, ok := c.dialect.(gemini); ok {
		return b.s(`{"totalTokens":`).d(a.usage.Prompt).s(`}`)
	}
	return b.s(`{"input_tokens":`).d(a.usage.Prompt).s(`}`)
}
