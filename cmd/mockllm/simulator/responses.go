package simulator

// responses is OpenAI responses.
type responses struct{}

func (responses) streams(_ string, body []byte) (bool, bool) { return isTrue(body, `"stream"`), false }

func (responses) idHeader() string { return "x-request-id" }

func (responses) usage(b js, u Usage) js {
	b = b.s(`{"input_tokens":`).d(u.Prompt).s(`,"input_tokens_details":{"cached_tokens":`).d(u.Cached)
	b = b.writes(u).media(u.AudioInput, u.ImageInput)
	b = b.s(`},"output_tokens":`).d(u.Output).s(`,"output_tokens_details":{"reasoning_tokens":`).d(u.Reasoning).media(u.AudioOutput, u.ImageOutput)
	return b.s(`},"total_tokens":`).d(u.Prompt + u.Output).s(`}`)
}

// response is the response object in one of its states; only a completed one has output and usage.
func (r responses) response(b js, a *answer, status string, txt []byte) js {
	b = b.s(`{"id":"`).id("resp_", a.n).s(`","object":"response","created_at":`).d(int(a.created)).s(`,"status":"`).s(status).s(`","error":`)
	if status == "failed" {
		b = b.s(`{"code":"server_error","message":"mock failure"}`)
	} else {
		b = b.s(`null`)
	}
	b = b.s(`,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"model":"`).s(a.model).s(`","output":[`)
	if status == "completed" {
		b = r.item(b, a, status, txt)
		for i := range a.usage.acts() {
			b = r.act(b.s(`,`), a, i)
		}
	}
	b = b.s(`],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1.0,` +
		`"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":`)
	if status == "completed" {
		b = r.usage(b, a.usage)
	} else {
		b = b.s(`null`)
	}
	return b.tier("service_tier", a.usage).s(`,"user":null,"metadata":{}}`)
}

// acts is how many items the provider bills beside tokens.
func (u *Usage) acts() int { return u.WebSearches + u.FileSearches + u.Images }

// act is such an item.
func (responses) act(b js, a *answer, i int) js {
	kind, more := "web_search_call", `,"action":{"type":"search","query":"mock"}`
	switch u := &a.usage; {
	case i >= u.WebSearches+u.FileSearches:
		kind, more = "image_generation_call", `,"result":"iVBORw0KGgo="`
	case i >= u.WebSearches:
		kind, more = "file_search_call", `,"queries":["mock"],"results":null`
	}
	return b.s(`{"type":"`).s(kind).s(`","id":"act_`).d(i).s(`","status":"completed"`).s(more).s(`}`)
}

func (responses) item(b js, a *answer, status string, txt []byte) js {
	b = b.s(`{"type":"message","id":"`).id("msg_", a.n).s(`","status":"`).s(status).s(`","role":"assistant","content":[`)
	if status == "completed" {
		b = b.s(`{"type":"output_text","text":"`).t(txt).s(`","annotations":[]}`)
	}
	return b.s(`]}`)
}

func (r responses) whole(b js, a *answer, txt []byte) js { return r.response(b, a, "completed", txt) }

// open begins an event with its sequence number.
func (responses) open(b js, kind string, sn int) js {
	return b.s("event: ").s(kind).s("\ndata: {\"type\":\"").s(kind).s(`","sequence_number":`).d(sn)
}

// inPart names the one content part that all text belongs to.
func (responses) inPart(b js, a *answer) js {
	return b.s(`,"item_id":"`).id("msg_", a.n).s(`","output_index":0,"content_index":0`)
}

func (r responses) start(b js, a *answer) js {
	b = r.response(r.open(b, "response.created", 0).s(`,"response":`), a, "in_progress", nil).s("}\n\n")
	b = r.response(r.open(b, "response.in_progress", 1).s(`,"response":`), a, "in_progress", nil).s("}\n\n")
	b = r.item(r.open(b, "response.output_item.added", 2).s(`,"output_index":0,"item":`), a, "in_progress", nil).s("}\n\n")
	b = r.inPart(r.open(b, "response.content_part.added", 3), a)
	return b.s(`,"part":{"type":"output_text","text":"","annotations":[]}}` + "\n\n")
}

func (r responses) delta(b js, a *answer, txt []byte, i int) js {
	return r.inPart(r.open(b, "response.output_text.delta", 4+i), a).s(`,"delta":"`).t(txt).s("\"}\n\n")
}

func (r responses) end(b js, a *answer, unit []byte, n int) js {
	var txt []byte
	for range n {
		txt = append(txt, unit...)
	}
	b = r.inPart(r.open(b, "response.output_text.done", 4+n), a).s(`,"text":"`).t(txt).s("\"}\n\n")
	b = r.inPart(r.open(b, "response.content_part.done", 5+n), a).s(`,"part":{"type":"output_text","text":"`).t(txt).s(`","annotations":[]}}` + "\n\n")
	b = r.item(r.open(b, "response.output_item.done", 6+n).s(`,"output_index":0,"item":`), a, "completed", txt).s("}\n\n")
	for i := range a.usage.acts() {
		b = r.act(r.open(b, "response.output_item.done", 7+n).s(`,"output_index":`).d(1+i).s(`,"item":`), a, i).s("}\n\n")
		n++
	}
	return r.response(r.open(b, "response.completed", 7+n).s(`,"response":`), a, "completed", txt).s("}\n\n")
}

// broken is what OpenAI really sends: the error event in its nested form, then response.failed.
func (r responses) broken(b js, a *answer, n int) js {
	b = r.open(b, "error", 4+n).s(`,"error":{"type":"server_error","code":"server_error","message":"mock error in the stream","param":null}}` + "\n\n")
	return r.failedEvent(b, a, n+1)
}

func (r responses) failedWhole(b js, a *answer) js { return r.response(b, a, "failed", nil) }

func (r responses) failedEvent(b js, a *answer, n int) js {
	return r.response(r.open(b, "response.failed", 4+n).s(`,"response":`), a, "failed", nil).s("}\n\n")
}

func (responses) refusal(b js, _ *answer, status int, kind string) js {
	return openaiError(b, status, kind)
}
