// Command tidy checks the house rules: who may import whom, and what a file may hold.
//
//	go run ./cmd/tidy             prints every finding with its reason; exit 1 if there is one
//	go run ./cmd/tidy -coverage   prints which behaviour rows are named in tests, and which are not
//
// It parses source and never type-checks, so it is quick and also works on a tree that does not build.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	coverage := flag.Bool("coverage", false, "list the behaviour rows that tests name, instead of checking")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: tidy [-coverage]   (from anywhere inside the module)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ok, err := run(os.Stdout, *coverage)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tidy:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// run loads the module around the working directory and writes the report that was asked for.
// It returns false when a house rule is broken.
func run(w io.Writer, coverage bool) (bool, error) {
	root, err := moduleRoot()
	if err != nil {
		return false, err
	}
	tree, err := Load(os.DirFS(root))
	if err != nil {
		return false, err
	}
	if coverage {
		return true, RowsNamed(tree).Print(w)
	}
	findings := Check(tree, Rules)
	for _, f := range findings {
		fmt.Fprintln(w, f)
	}
	fmt.Fprintf(w, "tidy: %d files, %d rules, %d findings\n", len(tree.Files), len(Rules), len(findings))
	return len(findings) == 0, nil
}

// moduleRoot returns the closest folder at or above the working directory that holds a go.mod.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod at or above %s", start)
		}
	}
}
