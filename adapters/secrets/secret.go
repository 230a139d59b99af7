package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what every printer gets to see of a Secret.
const hidden = "***"

// Secret is a text that no printer shows: fmt, slog, JSON and text encoders all write "***". Only Reveal gives it
// away, so that every place that needs the plain text can be found by one search. The zero value is no secret.
type Secret string

// Reveal is the plain text.
func (s Secret) Reveal() string { return string(s) }

// String is "***".
func (Secret) String() string { return hidden }

// GoString is "***".
func (Secret) GoString() string { return hidden }

// Format writes "***" for every verb; without it %d would show the bytes.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue is "***".
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText is "***".
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON is "***" as a JSON string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
