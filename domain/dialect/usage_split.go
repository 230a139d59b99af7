package dialect

import "github.com/penstock/penstock/domain/pricing"

// usage splits the report into disjoint classes. Nothing is negative and no part exceeds its whole (pain 66): what an
// upstream reports beyond that is cut, and clamped says so.
func (r *report) usage(d Dialect) (u pricing.Usage, clamped bool) {
	switch d {
	case AnthropicMessages:
		u, clamped = r.anthropic()
	case Gemini:
		u, clamped = r.gemini()
	default:
		u, clamped = r.openAI()
	}
	u.WebSearches = r.searches
	return u, clamped || r.absurd
}

// openAI is the split of reports whose totals hold all parts.
func (r *report) openAI() (u pricing.Usage, clamped bool) {
	write := r.write
	if write == 0 {
		write = r.write5m + r.write1h
	}
	clamped = r.cached > r.input || write > r.input-min(r.cached, r.input) || r.write1h > write
	u.CachedInput = min(r.cached, r.input)
	write = min(write, r.input-u.CachedInput)
	u.CacheWrite1h = min(r.write1h, write)
	u.CacheWrite5m = write - u.CacheWrite1h
	clamped = r.inputMedia(&u, r.input, r.input-u.CachedInput-write) || clamped

	output := r.output
	if r.reasoning > 0 && r.total == r.input+r.output+r.reasoning {
		output += r.reasoning // some upstreams count thoughts beside the completion, their total tells (wire list 22)
	}
	return u, r.outputMedia(&u, output, r.reasoning) || clamped
}

// inputMedia splits what is left of the input, once reads and writes of the cache are taken out, into text, sound and
// pictures. Sound that was read from the cache is not fresh.
func (r *report) inputMedia(u *pricing.Usage, whole, left int64) (clamped bool) {
	u.AudioInput = min(max(0, r.in.audio-r.inCached.audio), left)
	left -= u.AudioInput
	u.ImageInput = min(max(0, r.in.image-r.inCached.image), left)
	u.Input = left - u.ImageInput
	return r.in.tokens() > whole || r.inCached.tokens() > r.cached
}

// outputMedia splits an output into text, sound and pictures. Thoughts are text.
func (r *report) outputMedia(u *pricing.Usage, whole, reasoning int64) (clamped bool) {
	u.AudioOutput = min(r.out.audio, whole)
	u.ImageOutput = min(r.out.image, whole-u.AudioOutput)
	u.Output = whole - u.AudioOutput - u.ImageOutput
	u.Reasoning = min(reasoning, u.Output)
	return r.out.tokens() > whole || u.Reasoning < reasoning
}

// anthropic is the split of reports whose input excludes the cache.
func (r *report) anthropic() (u pricing.Usage, clamped bool) {
	u = pricing.Usage{Input: r.input, CachedInput: r.cached, CacheWrite5m: r.write5m, CacheWrite1h: r.write1h}
	if r.flatWrite && (r.write > 0 || !r.splitWrite) { // the flat count is the whole; what the split does not explain is of the short kind (wire list 21)
		clamped = r.write5m+r.write1h > r.write
		u.CacheWrite1h = min(r.write1h, r.write)
		u.CacheWrite5m = r.write - u.CacheWrite1h
	}
	clamped = r.outputMedia(&u, r.output, r.reasoning) || clamped
	return u.Plus(r.aside), clamped
}

// gemini is the split of reports whose candidates exclude the thoughts.
func (r *report) gemini() (u pricing.Usage, clamped bool) {
	input := r.input + r.toolPrompt
	u.CachedInput = min(r.cached, input)
	clamped = r.inputMedia(&u, input, input-u.CachedInput) || r.cached > input
	clamped = r.outputMedia(&u, r.output, 0) || clamped
	u.Output, u.Reasoning = u.Output+r.reasoning, r.reasoning
	return u, clamped
}
