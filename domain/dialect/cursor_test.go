package dialect

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// walk is what a cursor reads of an object of numbers: names, numbers, whether it was valid.
func walk(text string) (names []string, numbers []int64, whole bool) {
	c := cursor{b: []byte(text)}
	for key := range c.members() {
		names = append(names, string(key))
		if n, ok := c.integer(); ok {
			numbers = append(numbers, n)
		}
	}
	return names, numbers, c.end()
}

// A compact text takes short ways that one with spaces does not.
func TestACompactObjectReadsLikeOneWithSpaces(t *testing.T) {
	names := []string{"", "a", `\"`, `a\u0062c`, `\u006dodel`, "é", "快速", "\x7f", "a:b", "a,b", "{", "\xff", "\x1f", `\x`}
	for n := range 40 {
		names = append(names, strings.Repeat("n", n), strings.Repeat("n", n)+"é", "é"+strings.Repeat("n", n), strings.Repeat("n", n)+`\n`)
	}
	values := []string{
		"0", "7", "00", "01", "-1", "-0", "1.5", "1e3", "1E3", "1e", "1.", "12x", "999999999999", "1000000000000", "1099511627775",
		"1099511627776", "1099511627777", "99999999999999999999", "null", `"x"`, "[1]", "{}", "",
	}
	for _, name := range names {
		for _, value := range values {
			compact := `{"` + name + `":` + value + `,"b":` + value + `}`
			spaced := `{ "` + name + `" : ` + value + ` , "b" : ` + value + ` } `
			n1, v1, ok1 := walk(compact)
			n2, v2, ok2 := walk(spaced)
			if ok1 != ok2 || ok1 && (!slices.Equal(n1, n2) || !slices.Equal(v1, v2)) {
				t.Errorf("%q: %q %v %v; with spaces %q %v %v", compact, n1, v1, ok1, n2, v2, ok2)
			}
			if valid := utf8.ValidString(name) && !strings.Contains(name, "\x1f") && name != `\x`; ok1 && len(n1) != 2 || ok1 && !valid {
				t.Errorf("%q: %q", compact, n1)
			}
		}
		for cut := range `{"` + name + `":1,"b":2}` { // no way looks beyond the end
			if _, _, ok := walk((`{"` + name + `":1,"b":2}`)[:cut]); ok {
				t.Errorf("%q is whole, cut at %d", name, cut)
			}
		}
	}
}
