package access

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// Version is major, minor and patch of a program. The zero value is not known.
type Version [3]int

// ParseVersion reads the first version after a slash in a User-Agent ("claude-cli/1.0.83 (external, cli)"), or a bare
// one ("0.40"). What follows the numbers is not looked at. False when there is none.
func ParseVersion(s string) (v Version, ok bool) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		s = s[i+1:]
	}
	s = strings.TrimPrefix(s, "v")
	for i := range v {
		n := 0
		for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == 0 {
			return v, i > 0
		}
		v[i], _ = strconv.Atoi(s[:n])
		if s = s[n:]; s == "" || s[0] != '.' {
			return v, true
		}
		s = s[1:]
	}
	return v, true
}

// Compare orders versions.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v[0], w[0]), cmp.Compare(v[1], w[1]), cmp.Compare(v[2], w[2]))
}

// String is "1.0.83".
func (v Version) String() string {
	return strconv.Itoa(v[0]) + "." + strconv.Itoa(v[1]) + "." + strconv.Itoa(v[2])
}

// AnyClient is the name of every program, recognised or not.
const AnyClient = "any"

// ClientRule lets one program in, from a version on.
type ClientRule struct {
	Name      string
	Least     Version
	Versioned bool // Least is set: a program that does not say its version is not let in
}

var errClient = errors.New(`must be a client such as codex, or "codex >= 0.40"`)

// ParseClientRule reads "claude_code" or "claude_code >= 1.0.80".
func ParseClientRule(s string) (r ClientRule, err error) {
	name, least, versioned := strings.Cut(s, ">=")
	r.Name = strings.TrimSpace(name)
	if versioned {
		least = strings.TrimSpace(least)
		if r.Least, r.Versioned = ParseVersion(least); !r.Versioned || strings.Trim(least, "v.0123456789") != "" {
			return r, errClient
		}
	}
	if r.Name == "" || strings.ContainsAny(r.Name, " \t<>=") || r.Name == AnyClient && versioned {
		return r, errClient
	}
	return r, nil
}

// String is the rule as ParseClientRule reads it.
func (r ClientRule) String() string {
	if !r.Versioned {
		return r.Name
	}
	return r.Name + " >= " + r.Least.String()
}

// Clients is who is let in (B8). An empty list lets everybody in.
type Clients []ClientRule

// ParseClients reads rules; one that cannot be read lets nobody in by itself.
func ParseClients(list []string) Clients {
	var c Clients
	for _, s := range list {
		r, err := ParseClientRule(s)
		if err != nil {
			r = ClientRule{}
		}
		c = append(c, r)
	}
	return c
}

// Allow says whether a program comes in: name is its recognised name, agent its User-Agent. It does not allocate.
func (c Clients) Allow(name, agent string) bool {
	for _, r := range c {
		if r.Name == AnyClient {
			return true
		}
		if r.Name == "" || r.Name != name {
			continue
		}
		if v, known := ParseVersion(agent); !r.Versioned || known && v.Compare(r.Least) >= 0 {
			return true
		}
	}
	return len(c) == 0
}
