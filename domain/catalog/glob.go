package catalog

import "strings"

// isGlob says that a pattern has wildcards.
func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?") }

// Glob says whether a pattern matches a whole name: "*" is any run of characters, "?" one byte, everything else itself. Linear
// in the usual case, at worst pattern × name.
func Glob(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
