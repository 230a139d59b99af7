package dialect

import "github.com/penstock/penstock/domain/pricing"

// report is a usage as an upstream wrote it, in its own terms. Every count is in [0, countMax].
type report struct {
	input, cached, write, write5m, write1h int64
	output, reasoning                      int64
	total, toolPrompt                      int64
	has                                    bool // at least one count was there
	flatWrite, splitWrite                  bool // which of Anthropic's two cache write reports were there
}

// set stores a count if the next value is one.
func (r *report) set(c *cursor, to *int64) bool {
	n, ok := c.integer()
	if ok {
		*to = n
		r.has = true
	}
	return ok
}

// readOpenAI reads a usage object of chat, Responses or the pass-through endpoints.
func (r *report) readOpenAI(c *cursor) {
	if !c.object() {
		return
	}
	for {
		key, ok := c.member()
		if !ok {
			return
		}
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			r.set(c, &r.input)
		case "completion_tokens", "output_tokens":
			r.set(c, &r.output)
		case "total_tokens":
			r.set(c, &r.total)
		case "prompt_tokens_details", "input_tokens_details":
			r.readInputDetails(c)
		case "completion_tokens_details", "output_tokens_details":
			r.readOutputDetails(c, "reasoning_tokens")
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek, Moonshot; the details say the same
			if n, ok := c.integer(); ok && r.cached == 0 {
				r.cached = n
			}
		default:
			c.skip()
		}
	}
}

func (r *report) readInputDetails(c *cursor) {
	if !c.object() {
		return
	}
	for {
		key, ok := c.member()
		if !ok {
			return
		}
		switch string(key) {
		case "cached_tokens":
			r.set(c, &r.cached)
		case "cache_write_tokens":
			r.set(c, &r.write)
		case "cache_write_tokens_details":
			r.readWrites(c, "ttl_30m_tokens", "ttl_12h_tokens")
		default:
			c.skip()
		}
	}
}

// readWrites reads how long cache writes live: the short and the long class.
func (r *report) readWrites(c *cursor, short, long string) {
	if !c.object() {
		return
	}
	for {
		key, ok := c.member()
		if !ok {
			return
		}
		switch string(key) {
		case short:
			r.splitWrite = r.set(c, &r.write5m) || r.splitWrite
		case long:
			r.splitWrite = r.set(c, &r.write1h) || r.splitWrite
		default:
			c.skip()
		}
	}
}

func (r *report) readOutputDetails(c *cursor, reasoning string) {
	if !c.object() {
		return
	}
	for {
		key, ok := c.member()
		if !ok {
			return
		}
		if string(key) == reasoning {
			r.set(c, &r.reasoning)
		} else {
			c.skip()
		}
	}
}

// readAnthropic reads a usage object of Messages; tier is its service_tier as written.
func (r *report) readAnthropic(c *cursor) (tier []byte) {
	if !c.object() {
		return nil
	}
	for {
		key, ok := c.member()
		if !ok {
			return tier
		}
		switch string(key) {
		case "input_tokens":
			r.set(c, &r.input)
		case "cache_read_input_tokens":
			r.set(c, &r.cached)
		case "cache_creation_input_tokens":
			r.flatWrite = r.set(c, &r.write) || r.flatWrite
		case "cache_creation":
			r.readWrites(c, "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
		case "output_tokens":
			r.set(c, &r.output)
		case "output_tokens_details":
			r.readOutputDetails(c, "thinking_tokens")
		case "service_tier":
			tier = c.raw()
		default:
			c.skip()
		}
	}
}

// readGemini reads a usageMetadata object. Fields that it lacks keep their value: Gemini omits zeros and, in early
// chunks, whatever it does not know yet.
func (r *report) readGemini(c *cursor) {
	if !c.object() {
		return
	}
	for {
		key, ok := c.member()
		if !ok {
			return
		}
		switch string(key) {
		case "promptTokenCount":
			r.set(c, &r.input)
		case "cachedContentTokenCount":
			r.set(c, &r.cached)
		case "candidatesTokenCount":
			r.set(c, &r.output)
		case "thoughtsTokenCount":
			r.set(c, &r.reasoning)
		case "toolUsePromptTokenCount":
			r.set(c, &r.toolPrompt)
		default:
			c.skip()
		}
	}
}

// laterAnthropic reads a later report of the same message on top of r: counts are cumulative, so what it says wins,
// what it leaves out stays, and nothing is added (wire list 3). A report of no input at all is a missing one, since no
// request has none. ok is false if the report has no counts; r is then as before.
func (r *report) laterAnthropic(c *cursor) (tier []byte, ok bool) {
	before := *r
	r.flatWrite, r.splitWrite, r.has = false, false, false
	if tier = r.readAnthropic(c); !r.has {
		*r = before
		return tier, false
	}
	if !r.flatWrite && !r.splitWrite {
		r.flatWrite, r.splitWrite = before.flatWrite, before.splitWrite
	}
	if r.input+r.cached+r.write+r.write5m+r.write1h == 0 {
		before.output, before.reasoning, before.has = r.output, r.reasoning, true
		*r = before
	}
	return tier, true
}

// usage splits the report into disjoint classes. Nothing is negative and no part exceeds its whole (pain 66).
func (r *report) usage(d Dialect) pricing.Usage {
	switch d {
	case AnthropicMessages:
		return r.anthropic()
	case Gemini:
		return r.gemini()
	}
	return r.openAI()
}

func (r *report) openAI() pricing.Usage {
	output := r.output
	if r.reasoning > 0 && r.total == r.input+r.output+r.reasoning {
		output += r.reasoning // some upstreams count thoughts beside the completion, their total tells (wire list 22)
	}
	u := pricing.Usage{Output: output, Reasoning: min(r.reasoning, output)}
	u.CachedInput = min(r.cached, r.input)
	write := r.write
	if write == 0 {
		write = r.write5m + r.write1h
	}
	write = min(write, r.input-u.CachedInput)
	u.CacheWrite1h = min(r.write1h, write)
	u.CacheWrite5m = write - u.CacheWrite1h
	u.Input = r.input - u.CachedInput - write
	return u
}

func (r *report) anthropic() pricing.Usage {
	u := pricing.Usage{
		Input: r.input, CachedInput: r.cached, CacheWrite5m: r.write5m, CacheWrite1h: r.write1h,
		Output: r.output, Reasoning: min(r.reasoning, r.output),
	}
	if r.flatWrite && (r.write > 0 || !r.splitWrite) { // the flat count is the whole; what the split does not explain is of the short kind (wire list 21)
		u.CacheWrite1h = min(r.write1h, r.write)
		u.CacheWrite5m = r.write - u.CacheWrite1h
	}
	return u
}

func (r *report) gemini() pricing.Usage {
	input := r.input + r.toolPrompt
	cached := min(r.cached, input)
	return pricing.Usage{
		Input: input - cached, CachedInput: cached,
		Output: r.output + r.reasoning, Reasoning: r.reasoning,
	}
}
