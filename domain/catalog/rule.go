package catalog

import (
	"regexp"
	"slices"
	"strings"
)

// RuleBodyMax is how much of an answer's body a rule looks at.
const RuleBodyMax = 64 << 10

// CompiledRule is a failure rule ready to be matched.
type CompiledRule struct {
	*Rule
	body       *regexp.Regexp
	headerName string
	header     *regexp.Regexp
}

// Evidence is what rules are matched against. The zero value is met by no condition.
type Evidence struct {
	Status int
	Types  []string                 // names of the error: its type, its code, the gateway's class
	Body   []byte                   // the start of the body
	Header func(name string) string // nil: no headers
}

// Matches says that every condition of the rule is met.
func (r *CompiledRule) Matches(e Evidence) bool {
	m := &r.Match
	switch {
	case len(m.Status) > 0 && !slices.Contains(m.Status, e.Status):
		return false
	case m.ErrorType != "" && !slices.Contains(e.Types, m.ErrorType):
		return false
	case r.body != nil && !r.body.Match(e.Body[:min(len(e.Body), RuleBodyMax)]):
		return false
	case r.header != nil && (e.Header == nil || !r.header.MatchString(e.Header(r.headerName))):
		return false
	}
	return true
}

// compileRule compiles the patterns of a rule, or says which field is wrong.
func compileRule(r *Rule) (*CompiledRule, *InvalidError) {
	c := &CompiledRule{Rule: r}
	fault := func(field, reason string) *InvalidError { return &InvalidError{Ref{KindRule, r.ID}, field, reason} }
	var err error
	if r.Match.BodyPattern != "" {
		if c.body, err = regexp.Compile(r.Match.BodyPattern); err != nil {
			return nil, fault("match.body_pattern", "is not a valid regular expression: "+err.Error())
		}
	}
	if r.Match.Header != "" {
		name, pattern, ok := strings.Cut(r.Match.Header, ":")
		if c.headerName = strings.TrimSpace(name); !ok || !isToken(c.headerName) {
			return nil, fault("match.header", `must be "name: pattern"`)
		}
		if c.header, err = regexp.Compile(strings.TrimSpace(pattern)); err != nil {
			return nil, fault("match.header", "is not a valid regular expression: "+err.Error())
		}
	}
	if c.body == nil && c.header == nil && len(r.Match.Status) == 0 && r.Match.ErrorType == "" {
		return nil, fault("match", "needs at least one of status, error_type, body_pattern, header")
	}
	return c, nil
}

func (c *checker) rule(r Rule) Resource {
	c.id(r.ID, "")
	c.between("priority", r.Priority, -1_000_000, 1_000_000, "")
	for i, status := range r.Match.Status {
		c.between(indexed("match.status", i), status, 100, 599, "")
	}
	r.Match.Status = emptyIsNil(slices.Clone(r.Match.Status))
	c.text("match.error_type", r.Match.ErrorType, false)
	if _, fault := compileRule(&r); fault != nil {
		c.fail(fault.Field, "%s", fault.Reason)
	}
	if r.Action.BlockFor != 0 {
		c.duration("action.block_for", r.Action.BlockFor, week)
	}
	return &r
}
