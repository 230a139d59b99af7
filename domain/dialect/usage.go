package dialect

import "github.com/penstock/penstock/domain/pricing"

// report is a usage as an upstream wrote it, in its own terms. Every count is in [0, countMax].
type report struct {
	input, cached, write, write5m, write1h int64
	output, reasoning                      int64
	total, toolPrompt                      int64
	in, inCached, out                      media         // parts of input, cached and output
	searches                               int64         // that the provider ran
	aside                                  pricing.Usage // Anthropic: of calls beside the message, which its own counts leave out
	has                                    bool          // at least one count was there
	flatWrite, splitWrite                  bool          // which of Anthropic's two cache write reports were there
	absurd                                 bool          // a count was negative or beyond all reason
}

// empty says that there is no report, or one of nothing at all: some upstreams that do not count say zero.
func (r *report) empty() bool {
	said := *r
	said.has, said.flatWrite, said.splitWrite = false, false, false
	return said == report{}
}

// media are the tokens that are no text.
type media struct{ audio, image int64 }

// tokens is both kinds together.
func (m media) tokens() int64 { return m.audio + m.image }

// set stores a count if the next value is one.
func (r *report) set(c *cursor, to *int64) bool {
	negative := c.peek() == '-'
	n, ok := c.integer()
	if ok {
		*to = n
		r.has = true
		r.absurd = r.absurd || negative || n == countMax
	}
	return ok
}

// readOpenAI reads a usage object of chat, Responses or the pass-through endpoints.
func (r *report) readOpenAI(c *cursor) {
	for key := range c.members() {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			r.set(c, &r.input)
		case "completion_tokens", "output_tokens":
			r.set(c, &r.output)
		case "total_tokens":
			r.set(c, &r.total)
		case "prompt_tokens_details", "input_tokens_details", "input_token_details": // the last one of sound and live sessions
			r.readInputDetails(c)
		case "completion_tokens_details", "output_tokens_details", "output_token_details":
			r.readOutputDetails(c, "reasoning_tokens")
		case "num_search_queries": // Perplexity
			r.set(c, &r.searches)
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
	for key := range c.members() {
		switch string(key) {
		case "cached_tokens":
			r.set(c, &r.cached)
		case "cache_write_tokens":
			r.set(c, &r.write)
		case "cache_write_tokens_details":
			r.readWrites(c, "ttl_30m_tokens", "ttl_12h_tokens")
		case "audio_tokens":
			r.set(c, &r.in.audio)
		case "image_tokens":
			r.set(c, &r.in.image)
		case "cached_tokens_details":
			r.readMedia(c, &r.inCached)
		default:
			c.skip()
		}
	}
}

// readMedia reads which tokens of a sum were no text.
func (r *report) readMedia(c *cursor, to *media) {
	for key := range c.members() {
		switch string(key) {
		case "audio_tokens":
			r.set(c, &to.audio)
		case "image_tokens":
			r.set(c, &to.image)
		default:
			c.skip()
		}
	}
}

// readWrites reads how long cache writes live: the short and the long class.
func (r *report) readWrites(c *cursor, short, long string) {
	for key := range c.members() {
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
	for key := range c.members() {
		switch string(key) {
		case reasoning:
			r.set(c, &r.reasoning)
		case "audio_tokens":
			r.set(c, &r.out.audio)
		case "image_tokens":
			r.set(c, &r.out.image)
		default:
			c.skip()
		}
	}
}

// readAnthropic reads a usage object of Messages; tier is its service_tier as written, or the fast speed, which has a
// price of its own.
func (r *report) readAnthropic(c *cursor) (tier []byte) {
	var speed []byte
	for key := range c.members() {
		switch string(key) {
		case "iterations":
			r.readIterations(c)
		case "service_tier":
			tier = c.raw()
		case "speed":
			speed = c.raw()
		default:
			r.anthropicCount(c, key)
		}
	}
	if string(speed) == "fast" {
		return speed
	}
	return tier
}

// anthropicCount reads a member of a usage object that counts something.
func (r *report) anthropicCount(c *cursor, key []byte) {
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
	case "server_tool_use":
		r.readServerTools(c)
	default:
		c.skip()
	}
}

// readIterations reads the calls that a message was made of. Its own counts are the sum of those that wrote it: a compaction of
// the conversation and an advisor's word are billed beside them. An advisor is another, dearer model: at the price of
// the one that was asked it costs too little, but not nothing.
func (r *report) readIterations(c *cursor) {
	if r.aside = (pricing.Usage{}); !c.array() {
		return
	}
	for c.element() {
		var it report
		var kind []byte
		for key := range c.members() {
			if string(key) == "type" {
				kind = c.raw()
			} else {
				it.anthropicCount(c, key)
			}
		}
		if string(kind) == "compaction" || string(kind) == "advisor_message" {
			u, clamped := it.anthropic()
			sum := r.aside.Plus(u)
			r.absurd = r.absurd || it.absurd || clamped || sum.Total() > countMax
			if sum.Total() <= countMax {
				r.aside = sum
			}
		}
	}
}

// readServerTools reads how often the provider ran its tools for a message. Fetching pages is free.
func (r *report) readServerTools(c *cursor) {
	for key := range c.members() {
		if string(key) == "web_search_requests" {
			r.set(c, &r.searches)
		} else {
			c.skip()
		}
	}
}

// readGemini reads a usageMetadata object. Fields that it lacks keep their value: Gemini omits zeros and, in early
// chunks, whatever it does not know yet. tier is the tier of service or the kind of traffic, as written.
func (r *report) readGemini(c *cursor) (tier []byte) {
	for key := range c.members() {
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
		case "promptTokensDetails":
			r.readModalities(c, &r.in)
		case "cacheTokensDetails":
			r.readModalities(c, &r.inCached)
		case "candidatesTokensDetails":
			r.readModalities(c, &r.out)
		case "serviceTier", "trafficType":
			if raw := c.raw(); len(raw) > 0 {
				tier = raw
			}
		default:
			c.skip()
		}
	}
	return tier
}

// readModalities reads how many tokens of a sum were sound and how many pictures. Films are paid as text is.
func (r *report) readModalities(c *cursor, to *media) {
	if !c.array() {
		return
	}
	*to = media{}
	for c.element() {
		var modality []byte
		var n int64
		for key := range c.members() {
			switch string(key) {
			case "modality":
				modality = c.raw()
			case "tokenCount":
				r.set(c, &n)
			default:
				c.skip()
			}
		}
		switch string(modality) {
		case "AUDIO":
			to.audio = min(to.audio+n, countMax)
		case "IMAGE":
			to.image = min(to.image+n, countMax)
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
		before.output, before.reasoning, before.searches, before.aside, before.has = r.output, r.reasoning, r.searches, r.aside, true
		*r = before
	}
	return tier, true
}
