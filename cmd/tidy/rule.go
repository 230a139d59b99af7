package main

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is one house rule: what it forbids is in Check, why it is forbidden in Reason.
type Rule struct {
	Name   string
	Reason string // used for findings that bring no reason of their own
	Check  func(*Tree) []Finding
}

// Finding is one place that breaks a rule.
type Finding struct {
	Path   string
	Line   int // 0 = the file as a whole
	What   string
	Rule   string
	Reason string
}

// String is "path:line: what [rule]: reason", which editors can jump to.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s [%s]: %s", f.Path, max(f.Line, 1), f.What, f.Rule, f.Reason)
}

// Rules are all house rules, in the order of the map: arrows first, then what a file may hold.
var Rules = []Rule{
	{"layers", "imports run downwards only: " + layerOrder(), layers},
	{"neighbours", "adapters share only what lies below them, so that each can be replaced alone", neighbours},
	{"pure", "the domain is tested by its values alone: no world, no waiting, no chance", pure},
	{"owners", "a library stays behind the one door that hides it", owners},
	{"clock", "time arrives in the command, so that every decision can be repeated", clock},
	{"names", "a package is named for what it holds; such a name says nothing and collects everything", names},
	{"length", fmt.Sprintf("a file fits a head: at most %d lines", linesMax), length},
	{"wiring", "what runs before main is seen by nobody; the composition root wires by hand", wiring},
	{"finished", "what is not done is an issue, not a mark in the code", finished},
	{"readme", "whoever opens a top folder learns what lives there and how to add one more", readmes},
	{"migrations", "both databases are at the same schema when they are at the same number", migrations},
}

// Check applies rules to tree. Findings are ordered by place.
func Check(tree *Tree, rules []Rule) []Finding {
	findings := slices.Clone(tree.Broken)
	for _, rule := range rules {
		for _, f := range rule.Check(tree) {
			f.Rule = rule.Name
			f.Reason = cmp.Or(f.Reason, rule.Reason)
			findings = append(findings, f)
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.What, b.What))
	})
	return findings
}

// eachFile collects the findings of check over the files that are part of the product.
func eachFile(tree *Tree, check func(*File) []Finding) []Finding {
	var found []Finding
	for _, file := range tree.Files {
		if !file.Test {
			found = append(found, check(file)...)
		}
	}
	return found
}

// eachImport collects the findings of check over the imports of product files.
// check returns what is wrong and why, or "" for an import that is fine.
func eachImport(tree *Tree, check func(*File, Import) (what, reason string)) []Finding {
	return eachFile(tree, func(file *File) []Finding {
		var found []Finding
		for _, imported := range file.Imports {
			if what, reason := check(file, imported); what != "" {
				found = append(found, Finding{Path: file.Path, Line: imported.Line, What: what, Reason: reason})
			}
		}
		return found
	})
}
