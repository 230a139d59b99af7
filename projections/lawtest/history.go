// Package lawtest holds the laws that every projection and every read model passes, and plausible event histories to
// hold them against. It is imported by tests only.
package lawtest

import "github.com/penstock/penstock/projections/history"

// History says which history to make. The same values make the same history.
type History = history.History

// Names that histories use.
var (
	keys      = []string{"key-a", "key-b", "key-c", ""}
	upstreams = []string{"openai-main", "openai-spare", "anthropic", "relay"}
)
