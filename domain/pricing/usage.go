// Package pricing says what usage costs: exact, rounded once, never in floats.
package pricing

// Usage is what one attempt consumed, in tokens, split once into disjoint classes: no token is counted in two of
// Input, CachedInput, CacheWrite5m, CacheWrite1h. Reasoning is the part of Output that was thinking and is never
// added to it. The zero value is "nothing consumed".
type Usage struct {
	Input        int64 `json:"input"`          // fresh input tokens, cache reads and writes excluded
	CachedInput  int64 `json:"cached_input"`   // input tokens read from the provider's prompt cache
	CacheWrite5m int64 `json:"cache_write_5m"` // input tokens written to the cache for 5 minutes (or an unnamed time)
	CacheWrite1h int64 `json:"cache_write_1h"` // input tokens written to the cache for an hour or longer
	Output       int64 `json:"output"`         // output tokens, reasoning included
	Reasoning    int64 `json:"reasoning"`      // part of Output
}

// Total is every token of the attempt, each counted once.
func (u Usage) Total() int64 {
	return u.Input + u.CachedInput + u.CacheWrite5m + u.CacheWrite1h + u.Output
}

// InputTotal is all input tokens: fresh, read from the cache and written to it.
func (u Usage) InputTotal() int64 {
	return u.Input + u.CachedInput + u.CacheWrite5m + u.CacheWrite1h
}

// IsZero says that nothing was consumed.
func (u Usage) IsZero() bool { return u == Usage{} }

// Plus is the sum class by class.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CachedInput: u.CachedInput + v.CachedInput,
		CacheWrite5m: u.CacheWrite5m + v.CacheWrite5m, CacheWrite1h: u.CacheWrite1h + v.CacheWrite1h,
		Output: u.Output + v.Output, Reasoning: u.Reasoning + v.Reasoning,
	}
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
