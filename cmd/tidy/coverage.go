package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// chapters of the list of behaviour rows that this gateway covers, with the number of rows in each: row ids are
// A1 … A87, B1 … B76 and so on. A test names the rows that it proves in its name, its table or a comment.
var chapters = []struct {
	letter string
	rows   int
}{{"A", 87}, {"B", 76}, {"C", 67}, {"D", 52}, {"E", 54}}

// row is one row id.
type row struct {
	letter string
	number int
}

func (r row) String() string { return r.letter + strconv.Itoa(r.number) }

// Rows says in which test files each row is named.
type Rows map[row][]string

// Row ids in prose stand between blanks or punctuation, alone ("A51") or as a range ("A10-A25", "A10–25"). Ids in
// a function's name follow a lower-case letter or an underscore ("TestA51SlotIsHandedOver", "Test_D16").
// A hyphen is no border, so that a UUID names no row.
var (
	rowInProse = regexp.MustCompile(`(?:^|[\s(\[,;:/"'` + "`" + `])([A-E])(\d{1,2})(?:\s?[-–]\s?([A-E]?)(\d{1,2}))?(?:$|[\s)\],;:./"'` + "`" + `])`)
	rowInName  = regexp.MustCompile(`(?:[a-z]|_)([A-E])(\d{1,2})(?:$|[^0-9])`)
)

// RowsNamed collects the rows that tests name: in _test.go files, and in suites, whose folder ends in "test".
// The tests of this package are left out: they name rows only as examples.
func RowsNamed(tree *Tree) Rows {
	rows := Rows{}
	for _, file := range tree.Files {
		proves := file.Test || strings.HasSuffix(file.Dir, "test")
		if !proves || within(file.Dir, "cmd/tidy") {
			continue
		}
		for _, id := range rowsOf(file) {
			if !slices.Contains(rows[id], file.Path) {
				rows[id] = append(rows[id], file.Path)
			}
		}
	}
	return rows
}

// rowsOf returns the rows that one file names, with repetitions.
func rowsOf(file *File) []row {
	var ids []row
	for _, group := range file.Syntax.Comments {
		for _, comment := range group.List {
			ids = append(ids, inProse(comment.Text)...)
		}
	}
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			for _, m := range rowInName.FindAllStringSubmatch(node.Name.Name, -1) {
				ids = append(ids, between(m[1], m[2], m[2])...)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); node.Kind == token.STRING && err == nil {
				ids = append(ids, inProse(text)...)
			}
		}
		return true
	})
	return ids
}

// inProse returns the rows named in running text. Neighbours share the border between them, so the search goes on
// one character before the end of each match.
func inProse(text string) []row {
	var ids []row
	for {
		at := rowInProse.FindStringSubmatchIndex(text)
		if at == nil {
			return ids
		}
		part := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return text[at[2*n]:at[2*n+1]]
		}
		if otherLetter := part(3); otherLetter == "" || otherLetter == part(1) {
			ids = append(ids, between(part(1), part(2), cmp.Or(part(4), part(2)))...)
		}
		text = text[max(at[1]-1, at[5]):]
	}
}

// between returns the rows first … last of a chapter that exist.
func between(letter, first, last string) []row {
	from, _ := strconv.Atoi(first) // the patterns let only digits through
	to, _ := strconv.Atoi(last)
	var ids []row
	for _, chapter := range chapters {
		if chapter.letter != letter {
			continue
		}
		for n := max(from, 1); n <= min(to, chapter.rows); n++ {
			ids = append(ids, row{letter, n})
		}
	}
	return ids
}

// Print writes every named row with its files, then for each chapter how many are named and which are not.
func (r Rows) Print(w io.Writer) error {
	byPlace := func(a, b row) int { return cmp.Or(cmp.Compare(a.letter, b.letter), cmp.Compare(a.number, b.number)) }
	var out strings.Builder
	for _, id := range slices.SortedFunc(maps.Keys(r), byPlace) {
		fmt.Fprintf(&out, "%-4s %s\n", id, strings.Join(r[id], ", "))
	}
	for _, chapter := range chapters {
		var missing []string
		for n := 1; n <= chapter.rows; n++ {
			if id := (row{chapter.letter, n}); len(r[id]) == 0 {
				missing = append(missing, id.String())
			}
		}
		fmt.Fprintf(&out, "\n%s: %d of %d named\n", chapter.letter, chapter.rows-len(missing), chapter.rows)
		if len(missing) > 0 {
			fmt.Fprintf(&out, "   not named: %s\n", strings.Join(missing, " "))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
