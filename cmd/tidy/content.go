package main

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// ticking are the names of package time that read a clock or wait for one. The rest of it is values.
var ticking = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// clock forbids the domain to read the time or to wait. A mention is enough: a function value reads it later.
func clock(tree *Tree) []Finding {
	return eachFile(tree, func(file *File) []Finding {
		local := timeName(file)
		if !within(file.Dir, "domain") || local == "" {
			return nil
		}
		if local == "." {
			return []Finding{{Path: file.Path, Line: 1, What: "imports time without its name",
				Reason: "a reading of the clock must be seen where it stands"}}
		}
		var found []Finding
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok || !slices.Contains(ticking, selector.Sel.Name) {
				return true
			}
			if from, ok := selector.X.(*ast.Ident); ok && from.Name == local {
				found = append(found, Finding{Path: file.Path, Line: file.line(selector), What: "domain uses time." + selector.Sel.Name})
			}
			return true
		})
		return found
	})
}

// timeName is the local name of package time in file, "" if it is not imported.
func timeName(file *File) string {
	for _, imported := range file.Imports {
		if imported.Path == "time" {
			if imported.Name != "" {
				return imported.Name
			}
			return "time"
		}
	}
	return ""
}

// shapeless are package names that say nothing.
var shapeless = []string{"common", "helper", "helpers", "misc", "types", "util", "utils"}

// names forbids packages and folders with a shapeless name, tests included.
func names(tree *Tree) []Finding {
	var found []Finding
	for _, file := range tree.Files {
		parts := append(strings.Split(file.Dir, "/"), strings.TrimSuffix(file.Package, "_test"))
		bad := slices.IndexFunc(parts, func(part string) bool { return slices.Contains(shapeless, part) })
		if bad >= 0 {
			found = append(found, Finding{Path: file.Path, Line: file.line(file.Syntax.Name), What: "package " + parts[bad]})
		}
	}
	return found
}

// linesMax is the hard limit; most files stay under 300.
const linesMax = 450

// length forbids long files; generated files and tests may be long.
func length(tree *Tree) []Finding {
	return eachFile(tree, func(file *File) []Finding {
		if file.Generated || file.Lines <= linesMax {
			return nil
		}
		return []Finding{{Path: file.Path, What: fmt.Sprintf("%d lines", file.Lines)}}
	})
}

// wired are the layers that a reader must be able to follow from the composition root.
var wired = []string{"domain", "events", "projections", "actors"}

// wiring forbids init functions in the wired layers.
func wiring(tree *Tree) []Finding {
	return eachFile(tree, func(file *File) []Finding {
		if !inAny(file.Dir, wired) {
			return nil
		}
		var found []Finding
		for _, decl := range file.Syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, Finding{Path: file.Path, Line: file.line(fn), What: "func init"})
			}
		}
		return found
	})
}

// unfinished are the marks that people leave for later. They are written apart here so that the pattern is not one.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)

// finished forbids such marks in comments of Go files, tests included, and anywhere in other hand-written text.
func finished(tree *Tree) []Finding {
	var found []Finding
	add := func(path string, line int, text string) {
		if mark := unfinished.FindString(text); mark != "" {
			found = append(found, Finding{Path: path, Line: line, What: "says " + mark})
		}
	}
	for _, file := range tree.Files {
		for _, group := range file.Syntax.Comments {
			for _, comment := range group.List {
				add(file.Path, file.line(comment), comment.Text)
			}
		}
	}
	for _, text := range tree.Texts {
		number := 0
		for line := range strings.Lines(text.Content) {
			number++
			add(text.Path, number, line)
		}
	}
	return found
}

// topFolders each have a README.md.
var topFolders = []string{"actors", "adapters", "cmd", "domain", "events", "migrations", "projections"}

// readmes demands a README.md in every top folder.
func readmes(tree *Tree) []Finding {
	var found []Finding
	for _, folder := range topFolders {
		if readme := folder + "/README.md"; !tree.Paths[readme] {
			found = append(found, Finding{Path: readme, What: "is missing"})
		}
	}
	return found
}

// migrationName is NNNN_name.sql.
var migrationName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)

// migrations demands well-formed names, a number used once, and the same names on both sides
// once there are migrations for both databases.
func migrations(tree *Tree) []Finding {
	sqlite, found := numbered(tree, "migrations/sqlite")
	postgres, more := numbered(tree, "migrations/postgres")
	found = append(found, more...)
	if len(sqlite) == 0 || len(postgres) == 0 {
		return found
	}
	return append(append(found,
		unmatched("migrations/sqlite", sqlite, "migrations/postgres", postgres)...),
		unmatched("migrations/postgres", postgres, "migrations/sqlite", sqlite)...)
}

// numbered returns the migrations of a folder by number, and what is wrong with their names.
func numbered(tree *Tree, folder string) (byNumber map[string]string, found []Finding) {
	byNumber = map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(tree.Paths)) {
		if path.Dir(file) != folder || path.Ext(file) != ".sql" {
			continue
		}
		parts := migrationName.FindStringSubmatch(path.Base(file))
		switch {
		case parts == nil:
			found = append(found, Finding{Path: file, What: "is not named NNNN_name.sql"})
		case byNumber[parts[1]] != "":
			found = append(found, Finding{Path: file, What: "number " + parts[1] + " is taken by " + byNumber[parts[1]]})
		default:
			byNumber[parts[1]] = path.Base(file)
		}
	}
	return byNumber, found
}

// unmatched returns the migrations of one folder that the other lacks or calls by another name.
func unmatched(folder string, here map[string]string, otherFolder string, there map[string]string) []Finding {
	var found []Finding
	for _, number := range slices.Sorted(maps.Keys(here)) {
		file := path.Join(folder, here[number])
		switch other := there[number]; other {
		case here[number]:
		case "":
			found = append(found, Finding{Path: file, What: "has no counterpart in " + otherFolder})
		default:
			found = append(found, Finding{Path: file, What: "is called " + other + " in " + otherFolder})
		}
	}
	return found
}
