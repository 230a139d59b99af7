package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// What errors.Is finds in the errors of this package.
var (
	ErrInvalid    = errors.New("invalid resource")
	ErrNotFound   = errors.New("resource not found")
	ErrReferenced = errors.New("resource is referenced")
)

// InvalidError says which field of which resource is wrong and why. It is ErrInvalid.
type InvalidError struct {
	Ref
	Field  string // path such as breaker.failures or model_rules[2].value; "" is the resource itself
	Reason string
}

// Error is "upstream openai-main: breaker.failures: must be 1..1,000,000".
func (e *InvalidError) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{strings.TrimSpace(e.Ref.String()), e.Field, e.Reason} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// Is makes it ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// NotFoundError is ErrNotFound with the resource's name.
type NotFoundError struct{ Ref }

// Error is "key team-a: not found".
func (e *NotFoundError) Error() string { return e.Ref.String() + ": not found" }

// Is makes it ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ReferencedError says who still needs the resource that was to be removed. It is ErrReferenced.
type ReferencedError struct {
	Ref
	By []Ref // sorted; never empty
}

// Error names at most five of the referrers.
func (e *ReferencedError) Error() string {
	names := make([]string, 0, 5)
	for _, r := range e.By {
		if len(names) == cap(names) {
			return fmt.Sprintf("%s: is used by %s and %d more", e.Ref, strings.Join(names, ", "), len(e.By)-len(names))
		}
		names = append(names, r.String())
	}
	return fmt.Sprintf("%s: is used by %s", e.Ref, strings.Join(names, ", "))
}

// Is makes it ErrReferenced.
func (e *ReferencedError) Is(target error) bool { return target == ErrReferenced }
