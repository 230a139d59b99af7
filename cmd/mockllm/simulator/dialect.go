package simulator

import "strconv"

// dialect builds the JSON bodies and events of one wire protocol. Each method appends to b and returns it.
// Texts are plain ASCII without characters that JSON escapes.
type dialect interface {
	// streams tells whether the request wants a stream, and if so whether as a JSON array instead of SSE.
	streams(path string, body []byte) (stream, array bool)
	// whole is a non-stream answer.
	whole(b js, a *answer, txt []byte) js
	// start is everything before the first content chunk.
	start(b js, a *answer) js
	// delta is content chunk i, from 0.
	delta(b js, a *answer, txt []byte, i int) js
	// end is everything after the last of n content chunks of unit each.
	end(b js, a *answer, unit []byte, n int) js
	// broken is the error inside a stream, after n content chunks.
	broken(b js, a *answer, n int) js
	// refusal is the body of an error status. kind "" means the usual one for the status.
	refusal(b js, a *answer, status int, kind string) js
	// idHeader is the name of the header that carries the upstream's request id.
	idHeader() string
}

// failing is a dialect that can answer 200 with a failed result.
type failing interface {
	failedWhole(b js, a *answer) js
	failedEvent(b js, a *answer, n int) js
}

// answer is what the dialects need to know of one request.
type answer struct {
	model      string
	n          uint64 // request number: makes the ids
	created    int64  // unix seconds
	usage      Usage
	askedUsage bool // OpenAI chat: the stream ends with a usage chunk
	array      bool // Gemini: a JSON array instead of SSE
	retryAfter int  // seconds; 0 = not said
}

// usageOf derives what b leaves open from the body's size and the answer's.
func usageOf(b *Behavior, bodyBytes int, stream bool) Usage {
	u := Usage{Prompt: b.PromptTokens, Output: b.OutTokens, Cached: b.CachedTokens, CacheWrite: b.CacheWriteTokens,
		CacheWrite1h: b.CacheWrite1hTokens, Reasoning: b.ReasoningTokens, AudioInput: b.AudioInputTokens, AudioOutput: b.AudioOutputTokens,
		ImageInput: b.ImageInputTokens, ImageOutput: b.ImageOutputTokens, Images: b.Images, WebSearches: b.WebSearches, FileSearches: b.FileSearches,
		ServiceTier: b.ServiceTier}
	if u.Prompt == 0 {
		u.Prompt = max((bodyBytes+3)/4, u.Cached+u.CacheWrite+u.AudioInput+u.ImageInput)
	}
	if u.Output == 0 {
		u.Output = (b.RespBytes + 3) / 4
		if stream {
			u.Output = b.Chunks
		}
		u.Output = max(u.Output, u.Reasoning+u.AudioOutput+u.ImageOutput)
	}
	return u
}

// media are members for the tokens that are no text, if there are any.
func (b js) media(audio, image int) js {
	if audio > 0 {
		b = b.s(`,"audio_tokens":`).d(audio)
	}
	if image > 0 {
		b = b.s(`,"image_tokens":`).d(image)
	}
	return b
}

// writes is the member for cache writes, of whatever length, as OpenAI has it.
func (b js) writes(u Usage) js {
	if u.CacheWrite > 0 {
		b = b.s(`,"cache_write_tokens":`).d(u.CacheWrite)
	}
	return b
}

// tier is the member that says the tier of service, if that is said.
func (b js) tier(name string, u Usage) js {
	if u.ServiceTier != "" {
		b = b.s(`,"`).s(name).s(`":"`).s(u.ServiceTier).s(`"`)
	}
	return b
}

// js is JSON text under construction.
type js []byte

func (b js) s(x string) js { return append(b, x...) }
func (b js) t(x []byte) js { return append(b, x...) }
func (b js) d(n int) js    { return strconv.AppendInt(b, int64(n), 10) }
func (b js) q(x string) js { return strconv.AppendQuote(b, x) }

// id is a name of request n's, such as msg_gk2x: the same in every event of the answer.
func (b js) id(prefix string, n uint64) js {
	return strconv.AppendUint(append(b, prefix...), 1_000_000_000+n, 36)
}

// kindOf finds the usual error type of a status; def is for all others.
func kindOf(table map[int]string, status int, def string) string {
	if k, ok := table[status]; ok {
		return k
	}
	return def
}
