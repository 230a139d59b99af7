package catalog

import (
	"fmt"
	"regexp"
)

// aliasHopsMax bounds a chain of aliases (C17).
const aliasHopsMax = 10

// Match is what the model rules of an upstream say about a model.
type Match struct {
	Matched  bool
	Resolved string // for logs and prices; the model itself unless an alias applied
	Redirect bool   // an alias applied
}

// modelRules are the compiled rules of one upstream. Rules are tried in their order and the first hit wins (C50); the
// first rule per name is found by map, expressions before it are tried one by one. The zero value takes every model.
type modelRules struct {
	explicit bool // there are rules, valid or not
	names    map[string]nameRule
	regexes  []regexRule
}

type nameRule struct {
	at       int // place in the list
	resolved string
	redirect bool
}

type regexRule struct {
	at int
	re *regexp.Regexp
}

// compileRules compiles what is valid and reports the rest by place. A circular alias or an invalid expression never
// matches; it does not make the other rules void.
func compileRules(list []ModelRule) (m modelRules, faults map[int]string) {
	m.explicit = len(list) > 0
	fault := func(i int, reason string) {
		if faults == nil {
			faults = map[int]string{}
		}
		faults[i] = reason
	}
	targets := map[string]string{} // alias → target, first one wins
	for _, r := range list {
		if _, known := targets[r.Value]; r.Type == "alias" && !known {
			targets[r.Value] = r.Target
		}
	}
	name := func(i int, model, resolved string, redirect bool) {
		if m.names == nil {
			m.names = map[string]nameRule{}
		}
		if _, known := m.names[model]; !known {
			m.names[model] = nameRule{i, resolved, redirect}
		}
	}
	for i, r := range list {
		switch r.Type {
		case "exact":
			name(i, r.Value, r.Value, false)
		case "alias":
			resolved, err := followAlias(targets, r.Value, r.Target)
			if err != nil {
				fault(i, err.Error())
				continue
			}
			name(i, r.Value, resolved, true)
		case "regex":
			re, err := regexp.Compile(r.Value)
			if err != nil {
				fault(i, "is not a valid regular expression: "+err.Error())
				continue
			}
			m.regexes = append(m.regexes, regexRule{i, re})
		default:
			fault(i, "unknown type")
		}
	}
	return m, faults
}

func followAlias(targets map[string]string, from, to string) (string, error) {
	seen := map[string]bool{from: true}
	for hops := 1; ; hops++ {
		if seen[to] {
			return "", fmt.Errorf("is a circular alias over %q", to)
		}
		if hops > aliasHopsMax {
			return "", fmt.Errorf("is a chain of more than %d aliases", aliasHopsMax)
		}
		next, more := targets[to]
		if !more {
			return to, nil
		}
		seen[to] = true
		to = next
	}
}

// match applies the rules. No rules take every model, and no model ("") passes every rule (C43-C46).
func (m *modelRules) match(model string) Match {
	if model == "" || !m.explicit {
		return Match{Matched: true, Resolved: model}
	}
	hit, found := m.names[model]
	for _, r := range m.regexes {
		if found && hit.at < r.at {
			break
		}
		if r.re.MatchString(model) {
			return Match{Matched: true, Resolved: model}
		}
	}
	if !found {
		return Match{Resolved: model}
	}
	return Match{Matched: true, Resolved: hit.resolved, Redirect: hit.redirect}
}
