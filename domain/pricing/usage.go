// Package pricing says what usage costs: exact, rounded once, never in floats.
package pricing

import (
	"errors"
	"fmt"
	"math"
)

// Usage is what one attempt consumed, split once into disjoint classes: no token is counted in two of them. Reasoning
// is the one exception: it is the part of Output that was thinking and is never added to it. Classes count tokens,
// except the last three, which count things. That an attempt is one request is not part of it: it always is. The zero
// value is "nothing consumed".
type Usage struct {
	Input        int64 `json:"input"`          // fresh input tokens of text; cache reads and writes, audio and images excluded
	CachedInput  int64 `json:"cached_input"`   // input tokens read from the provider's prompt cache, of whatever kind
	CacheWrite5m int64 `json:"cache_write_5m"` // input tokens written to the cache for 5 minutes (or an unnamed time)
	CacheWrite1h int64 `json:"cache_write_1h"` // input tokens written to the cache for an hour or longer
	Output       int64 `json:"output"`         // output tokens of text, reasoning included; audio and images excluded
	Reasoning    int64 `json:"reasoning"`      // part of Output

	AudioInput  int64 `json:"audio_input,omitempty"` // fresh input tokens of sound
	AudioOutput int64 `json:"audio_output,omitempty"`
	ImageInput  int64 `json:"image_input,omitempty"` // fresh input tokens of pictures
	ImageOutput int64 `json:"image_output,omitempty"`

	Images       int64 `json:"images,omitempty"`        // pictures that were made
	WebSearches  int64 `json:"web_searches,omitempty"`  // searches that the provider ran
	FileSearches int64 `json:"file_searches,omitempty"` // searches in stored files that the provider ran
}

// Errors of Usage.Check and of sums.
var (
	ErrUsage    = errors.New("usage is not valid")
	ErrOverflow = errors.New("cost is out of range")
)

// classes are the names of the members of a Usage, as prices and answers give them.
var classes = [...]string{
	"input", "cached_input", "cache_write_5m", "cache_write_1h", "output", "reasoning",
	"audio_input", "audio_output", "image_input", "image_output", "images", "web_searches", "file_searches",
}

// list is every member in the order of classes.
func (u *Usage) list() [len(classes)]int64 {
	return [...]int64{
		u.Input, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.Output, u.Reasoning,
		u.AudioInput, u.AudioOutput, u.ImageInput, u.ImageOutput, u.Images, u.WebSearches, u.FileSearches,
	}
}

// Total is every token of the attempt, each counted once.
func (u Usage) Total() int64 { return u.InputTotal() + u.OutputTotal() }

// InputTotal is all input tokens: fresh, read from the cache and written to it, of text, sound and pictures.
func (u Usage) InputTotal() int64 {
	return u.Input + u.CachedInput + u.CacheWrite5m + u.CacheWrite1h + u.AudioInput + u.ImageInput
}

// OutputTotal is all output tokens, of text (reasoning in it), sound and pictures.
func (u Usage) OutputTotal() int64 { return u.Output + u.AudioOutput + u.ImageOutput }

// IsZero says that nothing was consumed.
func (u Usage) IsZero() bool { return u == Usage{} }

// Plus is the sum class by class.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CachedInput: u.CachedInput + v.CachedInput,
		CacheWrite5m: u.CacheWrite5m + v.CacheWrite5m, CacheWrite1h: u.CacheWrite1h + v.CacheWrite1h,
		Output: u.Output + v.Output, Reasoning: u.Reasoning + v.Reasoning,
		AudioInput: u.AudioInput + v.AudioInput, AudioOutput: u.AudioOutput + v.AudioOutput,
		ImageInput: u.ImageInput + v.ImageInput, ImageOutput: u.ImageOutput + v.ImageOutput,
		Images: u.Images + v.Images, WebSearches: u.WebSearches + v.WebSearches, FileSearches: u.FileSearches + v.FileSearches,
	}
}

// Check returns ErrUsage when a class is negative, the reasoning part exceeds the output, or all tokens together do
// not fit an int64.
func (u Usage) Check() error {
	tokens := u.Input | u.CachedInput | u.CacheWrite5m | u.CacheWrite1h | u.Output | u.Reasoning | u.AudioInput | u.AudioOutput |
		u.ImageInput | u.ImageOutput
	if things := u.Images | u.WebSearches | u.FileSearches; uint64(tokens) < 1<<59 && things >= 0 && u.Reasoning <= u.Output {
		return nil // nothing is negative, and a sum of nine such numbers fits
	}
	for i, n := range u.list() {
		if n < 0 {
			return fmt.Errorf("%w: %s is negative (%d)", ErrUsage, classes[i], n)
		}
	}
	if u.Reasoning > u.Output {
		return fmt.Errorf("%w: reasoning (%d) exceeds output (%d)", ErrUsage, u.Reasoning, u.Output)
	}
	left := int64(math.MaxInt64)
	for _, n := range [...]int64{
		u.Input, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.AudioInput, u.ImageInput, u.Output, u.AudioOutput, u.ImageOutput,
	} {
		if n > left {
			return fmt.Errorf("%w: the sum of its tokens is out of range", ErrUsage)
		}
		left -= n
	}
	return nil
}

// Source says how a usage was got.
type Source string

// The sources of a usage, from the best to none.
const (
	Reported  Source = "reported"  // the upstream's terminal report
	Partial   Source = "partial"   // the upstream's last report before the answer broke off
	Estimated Source = "estimated" // counted by us from the bytes that passed
	None      Source = "none"      // nothing was consumed, or nothing can be known
)
