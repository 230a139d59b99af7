package simulator

// Behavior says how one request is answered. Delays are in milliseconds, rates are 0..1, sizes in bytes.
// Faults are drawn independently in the order in which the rates stand here; the first that hits is played.
// The zero Behavior as a whole stands for Healthy(); in any other a zero field means zero, so start from
// Healthy() and change what you need.
type Behavior struct {
	TTFBMs       float64 `json:"ttfb_ms"`        // delay before the first response byte
	TTFBJitterMs float64 `json:"ttfb_jitter_ms"` // plus uniform 0..this
	Chunks       int     `json:"chunks"`         // content chunks in a stream
	ChunkMs      float64 `json:"chunk_ms"`       // delay between chunks
	ChunkBytes   int     `json:"chunk_bytes"`    // content bytes per chunk
	FlushEvery   int     `json:"flush_every"`    // events per write when chunk_ms is 0; 0 = 1
	RespBytes    int     `json:"resp_bytes"`     // content bytes of a non-stream answer
	Compress     string  `json:"compress"`       // "", gzip, deflate, br or zstd, whatever the client accepts

	PromptTokens       int    `json:"prompt_tokens"`         // all input, caches included; 0 = body bytes / 4
	OutTokens          int    `json:"out_tokens"`            // all output, reasoning included; 0 = chunks, or resp_bytes / 4
	CachedTokens       int    `json:"cached_tokens"`         // the part of the prompt that was read from a cache
	CacheWriteTokens   int    `json:"cache_write_tokens"`    // the part of the prompt that was written to one (not Gemini)
	CacheWrite1hTokens int    `json:"cache_write_1h_tokens"` // the part of cache_write_tokens kept for an hour (Anthropic)
	ReasoningTokens    int    `json:"reasoning_tokens"`      // the part of the output that was thought
	AudioInputTokens   int    `json:"audio_input_tokens"`    // the parts of prompt and output that were sound or pictures (not Anthropic)
	AudioOutputTokens  int    `json:"audio_output_tokens"`
	ImageInputTokens   int    `json:"image_input_tokens"`
	ImageOutputTokens  int    `json:"image_output_tokens"`
	Images             int    `json:"images"`        // pictures that were made (Responses, /images/generations: 0 = 1)
	WebSearches        int    `json:"web_searches"`  // searches that the provider ran
	FileSearches       int    `json:"file_searches"` // as WebSearches (Responses)
	ServiceTier        string `json:"service_tier"`  // that the answer says it was served in; "" says nothing
	AlwaysUsage        bool   `json:"always_usage"`  // OpenAI chat stream: usage chunk even if not asked for

	ResetRate         float64 `json:"reset_rate"`           // RST before the headers
	HangRate          float64 `json:"hang_rate"`            // silence before the first byte for hang_ms, then RST
	HangMs            float64 `json:"hang_ms"`              // 0 = 60000
	ErrRate           float64 `json:"err_rate"`             // answer err_status in the dialect's error shape
	ErrStatus         int     `json:"err_status"`           // 0 = 500
	ErrBody           string  `json:"err_body"`             // this body instead of the dialect's
	ErrType           string  `json:"err_type"`             // this error type (Gemini: status) instead of the usual one
	ErrContentType    string  `json:"err_content_type"`     // "": application/json
	RetryAfter        int     `json:"retry_after"`          // Retry-After seconds on errors, if > 0
	ResetAfterHeaders float64 `json:"reset_after_headers"`  // rate: RST after the headers, before any body byte
	WrongTypeRate     float64 `json:"wrong_type_rate"`      // 200 text/html
	EmptyRate         float64 `json:"empty_rate"`           // 200 with an empty body
	GarbageRate       float64 `json:"garbage_rate"`         // 200 with JSON that does not parse
	OversizedRate     float64 `json:"oversized_rate"`       // one line of oversized_bytes that never ends, then a clean end
	OversizedBytes    int     `json:"oversized_bytes"`      // 0 = 2 MiB
	NoContentRate     float64 `json:"nocontent_rate"`       // stream: start events only, then a clean end without marker
	StallRate         float64 `json:"stall_rate"`           // stop after fault_after chunks, silent for stall_ms, then RST
	StallMs           float64 `json:"stall_ms"`             // 0 = 60000
	TruncRate         float64 `json:"trunc_rate"`           // FIN after fault_after chunks, without terminal events
	MidstreamErrRate  float64 `json:"midstream_error_rate"` // stream: the dialect's error event after fault_after chunks, then close
	FailedRate        float64 `json:"failed_rate"`          // responses: response.failed (stream), status "failed" (JSON)
	FaultAfter        int     `json:"fault_after"`          // chunks before a stall, cut, error event or response.failed
}

// Healthy is the behaviour of an upstream that works: 50 chunks of 16 bytes, or 700 bytes, at once.
func Healthy() Behavior {
	return Behavior{Chunks: 50, ChunkBytes: 16, FlushEvery: 1, RespBytes: 700, ErrStatus: 500, StallMs: 60000, FaultAfter: 3}
}

// Rule binds a Behavior to requests: Key, Model and Path are substrings of the credential, the model and the
// path with query; an empty one matches all.
type Rule struct {
	Key      string   `json:"key,omitempty"`
	Model    string   `json:"model,omitempty"`
	Path     string   `json:"path,omitempty"`
	Behavior Behavior `json:"behavior"`
}

// Config is the whole set of behaviours; the zero value answers everything healthily. It is swapped atomically:
// a request keeps the one it began with.
type Config struct {
	Default Behavior `json:"default"`
	Rules   []Rule   `json:"rules,omitempty"`
}
