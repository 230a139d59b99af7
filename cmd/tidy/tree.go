package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is one module as the rules see it: parsed Go files, other text, and which files there are.
type Tree struct {
	Module string          // module path of go.mod
	Files  []*File         // every Go file, by path
	Texts  []*Text         // SQL, scripts, pages and settings, by path
	Paths  map[string]bool // every file that was walked, slash-separated and relative to the root
	Broken []Finding       // files that do not parse; they are in no other list
}

// File is one Go file.
type File struct {
	Path      string // slash-separated, relative to the root of the module
	Dir       string // folder of Path; "." for the root package
	Package   string // name in the package clause
	Test      bool   // a _test.go file
	Generated bool   // carries the standard "Code generated … DO NOT EDIT." line
	Lines     int
	Imports   []Import
	Syntax    *ast.File
	Positions *token.FileSet
}

// Import is one import line of a file.
type Import struct {
	Path string // as written, unquoted
	Name string // local name if one is given, else ""
	Line int
}

// Text is one file that is not Go but is written by hand.
type Text struct {
	Path    string
	Content string
}

// textual are the endings of hand-written files that are not Go.
var textual = []string{".sql", ".yml", ".yaml", ".sh", ".js", ".css", ".html"}

// Folders that hold nothing written by hand for this module: by name anywhere, and at the root.
var (
	skippedNames = []string{"node_modules", "testdata", "vendor"} // foreign code, recorded bytes
	skippedRoots = []string{"bin", "data"}                        // built programs, a gateway's own files
)

// Load reads the module in fsys. Hidden and skipped folders and nested modules are passed by.
func Load(fsys fs.FS) (*Tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	tree := &Tree{Module: modulePath(mod), Paths: map[string]bool{}}
	if tree.Module == "" {
		return nil, fmt.Errorf("go.mod: no module line")
	}
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && passedBy(fsys, name) {
				return fs.SkipDir
			}
			return nil
		}
		tree.Paths[name] = true
		return tree.read(fsys, name)
	})
	return tree, err
}

func passedBy(fsys fs.FS, dir string) bool {
	base := path.Base(dir)
	if strings.HasPrefix(base, ".") || slices.Contains(skippedNames, base) || slices.Contains(skippedRoots, dir) {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

// modulePath returns the path in the module line, or "".
func modulePath(mod []byte) string {
	for line := range strings.Lines(string(mod)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.Trim(strings.TrimSpace(rest), `"`)
		}
	}
	return ""
}

// read adds one file to the tree if it is of a kind that a rule looks at.
func (t *Tree) read(fsys fs.FS, name string) error {
	isGo := path.Ext(name) == ".go"
	if !isGo && !slices.Contains(textual, path.Ext(name)) {
		return nil
	}
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if !isGo {
		t.Texts = append(t.Texts, &Text{Path: name, Content: string(src)})
		return nil
	}
	file, err := parse(name, src)
	if err != nil {
		t.Broken = append(t.Broken, Finding{Path: name, Line: 1, What: "does not parse: " + err.Error(),
			Rule: "parse", Reason: "a file that the parser refuses can be checked by nobody"})
		return nil
	}
	t.Files = append(t.Files, file)
	return nil
}

func parse(name string, src []byte) (*File, error) {
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	file := &File{
		Path:      name,
		Dir:       path.Dir(name),
		Package:   syntax.Name.Name,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(syntax),
		Lines:     bytes.Count(src, []byte("\n")),
		Syntax:    syntax,
		Positions: positions,
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("import %s: %w", spec.Path.Value, err)
		}
		one := Import{Path: imported, Line: file.line(spec)}
		if spec.Name != nil {
			one.Name = spec.Name.Name
		}
		file.Imports = append(file.Imports, one)
	}
	return file, nil
}

func (f *File) line(node ast.Node) int { return f.Positions.Position(node.Pos()).Line }

// within reports whether dir is the folder room or lies below it.
func within(dir, room string) bool {
	return dir == room || strings.HasPrefix(dir, room+"/")
}

// inAny reports whether dir lies in one of rooms.
func inAny(dir string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return within(dir, room) })
}
