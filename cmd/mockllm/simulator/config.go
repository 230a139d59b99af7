package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
)

// Bounds on one answer. Text is cut from one shared buffer, which grows to the largest size a Config asks for.
const (
	textMax   = 8 << 20
	chunksMax = 1 << 20
	tokensMax = 1 << 40
	actsMax   = 1000               // each is an item of the answer
	delayMax  = 24 * 3600 * 1000.0 // ms
	rulesMax  = 1000

	oversizedBytes = 2 << 20 // of an oversized line that gives none
)

// ruleSet is a Config in force: checked, with zero behaviours filled in and the text its answers are cut from.
type ruleSet struct {
	Config
	filler []byte
}

func compile(c Config) (*ruleSet, error) {
	if len(c.Rules) > rulesMax {
		return nil, errors.Newf("rules: %d, the most is %d", len(c.Rules), rulesMax)
	}
	c.Rules = slices.Clone(c.Rules)
	size := 0
	settle := func(name string, b *Behavior) error {
		if *b == (Behavior{}) {
			*b = Healthy()
		}
		size = max(size, b.RespBytes, b.ChunkBytes, b.oversized())
		return errors.Wrap(b.check(), name)
	}
	if err := settle("default", &c.Default); err != nil {
		return nil, err
	}
	for i := range c.Rules {
		if err := settle(fmt.Sprintf("rules[%d].behavior", i), &c.Rules[i].Behavior); err != nil {
			return nil, err
		}
	}
	const words = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor "
	return &ruleSet{Config: c, filler: bytes.Repeat([]byte(words), size/len(words)+1)}, nil
}

func (r *ruleSet) text(n int) []byte { return r.filler[:n] }

// pick returns the behaviour of the first rule that matches.
func (r *ruleSet) pick(key, model, path string) *Behavior {
	for i := range r.Rules {
		u := &r.Rules[i]
		if strings.Contains(key, u.Key) && strings.Contains(model, u.Model) && strings.Contains(path, u.Path) {
			return &u.Behavior
		}
	}
	return &r.Default
}

// ParseConfig reads the JSON form of a Config over base: a field left out of "default" keeps base's value.
// The error names the field.
func ParseConfig(data []byte, base Behavior) (Config, error) {
	c := Config{Default: base}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return Config{}, errors.Newf("%s: a JSON %s is not a %s", wrong.Field, wrong.Value, wrong.Type)
		}
		return Config{}, errors.Newf("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return Config{}, errors.New("data after the JSON object")
	}
	_, err := compile(c)
	return c, err
}

// oversized is the length of the line of an oversized answer, 0 when there is none.
func (b *Behavior) oversized() int {
	if b.OversizedRate <= 0 {
		return 0
	}
	return cmp.Or(b.OversizedBytes, oversizedBytes)
}

// check refuses what cannot be played; the error names the field.
func (b *Behavior) check() error {
	for _, f := range []struct {
		name     string
		v        float64
		min, max float64
	}{
		{"ttfb_ms", b.TTFBMs, 0, delayMax}, {"ttfb_jitter_ms", b.TTFBJitterMs, 0, delayMax}, {"chunk_ms", b.ChunkMs, 0, delayMax},
		{"hang_ms", b.HangMs, 0, delayMax}, {"stall_ms", b.StallMs, 0, delayMax},
		{"chunks", float64(b.Chunks), 0, chunksMax}, {"chunk_bytes", float64(b.ChunkBytes), 0, textMax},
		{"resp_bytes", float64(b.RespBytes), 0, textMax}, {"flush_every", float64(b.FlushEvery), 0, chunksMax},
		{"fault_after", float64(b.FaultAfter), 0, chunksMax}, {"retry_after", float64(b.RetryAfter), 0, delayMax},
		{"prompt_tokens", float64(b.PromptTokens), 0, tokensMax}, {"out_tokens", float64(b.OutTokens), 0, tokensMax},
		{"cached_tokens", float64(b.CachedTokens), 0, tokensMax}, {"cache_write_tokens", float64(b.CacheWriteTokens), 0, tokensMax},
		{"cache_write_1h_tokens", float64(b.CacheWrite1hTokens), 0, float64(b.CacheWriteTokens)},
		{"reasoning_tokens", float64(b.ReasoningTokens), 0, tokensMax},
		{"audio_input_tokens", float64(b.AudioInputTokens), 0, tokensMax}, {"audio_output_tokens", float64(b.AudioOutputTokens), 0, tokensMax},
		{"image_input_tokens", float64(b.ImageInputTokens), 0, tokensMax}, {"image_output_tokens", float64(b.ImageOutputTokens), 0, tokensMax},
		{"images", float64(b.Images), 0, actsMax}, {"web_searches", float64(b.WebSearches), 0, actsMax},
		{"file_searches", float64(b.FileSearches), 0, actsMax},
		{"oversized_bytes", float64(b.OversizedBytes), 0, textMax},
		{"err_status", float64(b.ErrStatus), 0, 599}, {"err_body (bytes)", float64(len(b.ErrBody)), 0, textMax},
	} {
		if !(f.v >= f.min && f.v <= f.max) { // so written, NaN is refused too
			return errors.Newf("%s: %v is not within %v..%v", f.name, f.v, f.min, f.max)
		}
	}
	for _, f := range faults {
		if v := f.rate(b); !(v >= 0 && v <= 1) {
			return errors.Newf("%s: %v is not within 0..1", f.field, v)
		}
	}
	switch s := b.ErrStatus; {
	case s != 0 && s < 200, s == 204, s == 304:
		return errors.Newf("err_status: %d cannot carry a body", s)
	case b.PromptTokens > 0 && b.CachedTokens+b.CacheWriteTokens > b.PromptTokens:
		return errors.Newf("cached_tokens + cache_write_tokens: %d exceed prompt_tokens %d", b.CachedTokens+b.CacheWriteTokens, b.PromptTokens)
	case b.OutTokens > 0 && b.ReasoningTokens > b.OutTokens:
		return errors.Newf("reasoning_tokens: %d exceed out_tokens %d", b.ReasoningTokens, b.OutTokens)
	case strings.ContainsAny(b.ServiceTier, "\"\\"):
		return errors.Newf("service_tier: %q needs no quotes", b.ServiceTier)
	case strings.ContainsFunc(b.ErrContentType, func(r rune) bool { return r < ' ' || r > '~' }):
		return errors.Newf("err_content_type: %q is no header value", b.ErrContentType)
	case !slices.Contains(encodings, b.Compress):
		return errors.Newf("compress: %q is none of %q", b.Compress, encodings)
	}
	return nil
}
