package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestRowsAreFoundWhereTestsNameThem(t *testing.T) {
	cases := []struct{ says, body, want string }{
		{"in a comment", "// keeps A51 and D16.\nfunc f() {}", "A51 D16"},
		{"in a range with the letter twice", "// (A10-A12)", "A10 A11 A12"},
		{"in a range with the letter once", "// E28–30, C3", "C3 E28 E29 E30"},
		{"side by side", "// A46, A83; B10/B11 C1", "A46 A83 B10 B11 C1"},
		{"in a function's name", "func TestA51SlotIsHandedOver_D16() {}", "A51 D16"},
		{"in the name of a case", "var x = \"A51: a freed slot\"", "A51"},
		{"not where there is no such row", "// A0 A88 B77 C68 D53 E55 F1", ""},
		{"not in the middle of a word", "// SHA25 0xA51 A511 018f-A51-B2 xA51y", ""},
		{"not in a variable", "var A51 = 1", ""},
		{"a range never crosses a chapter", "// A10-B12", ""},
		{"a range ends at the last row", "// D51-D60", "D51 D52"},
	}
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) {
			const path = "domain/gate/gate_test.go"
			rows := RowsNamed(module(t, files{path: "package gate\n" + c.body}))
			var got []string
			for _, chapter := range chapters {
				for n := 1; n <= chapter.rows; n++ {
					if in := rows[row{chapter.letter, n}]; len(in) > 0 {
						got = append(got, fmt.Sprint(chapter.letter, n))
						if len(in) != 1 || in[0] != path {
							t.Errorf("%s%d is said to be in %v", chapter.letter, n, in)
						}
					}
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("found %v, want %q", got, c.want)
			}
		})
	}
}

func TestRowsCountInTestsAndSuitesOnly(t *testing.T) {
	tree := module(t, files{
		"domain/gate/a_test.go":  "package gate\n// A1 A1",
		"events/storetest/a.go":  "package storetest\n// A1 B2",
		"domain/gate/product.go": "package gate\n// A3",
		"cmd/tidy/rule_test.go":  "package main\n// A4",
	})
	var out strings.Builder
	if err := RowsNamed(tree).Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"A1   domain/gate/a_test.go, events/storetest/a.go\n",
		"B2   events/storetest/a.go\n",
		"A: 1 of 87 named\n   not named: A2 A3 A4 ",
		"E: 0 of 54 named\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in:\n%s", line, out.String())
		}
	}
}
