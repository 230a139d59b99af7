package catalog

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration written as "30s" in resource files, JSON and facts.
type Duration time.Duration

// String is the shortest form that Go's duration syntax reads back: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads Go's duration syntax; negative durations are refused.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration such as 30s", b)
	}
	*d = Duration(v)
	return nil
}

// Std is the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }
