package main

import (
	"fmt"
	"slices"
	"strings"
)

// layer is one storey of the house.
type layer struct {
	room   string // top folder; "." is the root package
	reason string // why nothing above may be imported from here
}

// storeys from the top down. A package imports its own storey and those below.
var storeys = []layer{
	{"cmd", "programs use everything and are used by nothing"},
	{".", "the composition root is used by programs only"},
	{"adapters", "an adapter serves the core; what wires it stands above"},
	{"actors", "actors run the machines; they do not know which technology asks or stores"},
	{"projections", "a projection is a fold over events; who writes its rows is not its business"},
	{"events", "events name and store facts; what is made of them stands above"},
	{"domain", "the domain knows nothing but itself"},
	{"migrations", "embedded SQL: it imports nothing of ours"},
}

func layerOrder() string {
	var rooms []string
	for _, storey := range storeys {
		rooms = append(rooms, strings.Replace(storey.room, ".", "root package", 1))
	}
	return strings.Join(rooms, " > ")
}

// storeyOf returns the index into storeys of a folder, or -1 for a folder that is not on the map.
func storeyOf(dir string) int {
	top, _, _ := strings.Cut(dir, "/")
	return slices.IndexFunc(storeys, func(s layer) bool { return s.room == top })
}

// ours returns the folder of an import of this module.
func (t *Tree) ours(imported string) (dir string, ok bool) {
	if imported == t.Module {
		return ".", true
	}
	return strings.CutPrefix(imported, t.Module+"/")
}

// layers forbids imports that run upwards, and folders that stand on no storey.
func layers(tree *Tree) []Finding {
	var lost []Finding
	for _, file := range tree.Files {
		if storeyOf(file.Dir) < 0 {
			lost = append(lost, Finding{Path: file.Path, Line: 1, What: "folder " + file.Dir + " stands on no storey"})
		}
	}
	return append(lost, eachImport(tree, func(file *File, imported Import) (string, string) {
		dir, ok := tree.ours(imported.Path)
		if !ok {
			return "", ""
		}
		from, to := storeyOf(file.Dir), storeyOf(dir)
		if from < 0 || to < 0 || mayImport(from, to) {
			return "", ""
		}
		return fmt.Sprintf("%s imports %s", file.Dir, dir), storeys[from].reason
	})...)
}

// mayImport reports whether storey from may import storey to. Migrations are for those who open a database.
func mayImport(from, to int) bool {
	if storeys[to].room == "migrations" && from > storeyOf("adapters") {
		return from == to
	}
	return from <= to
}

// neighbours forbids one adapter to import another; parts of the same adapter may.
func neighbours(tree *Tree) []Finding {
	return eachImport(tree, func(file *File, imported Import) (string, string) {
		dir, ok := tree.ours(imported.Path)
		if !ok || !within(file.Dir, "adapters") || !within(dir, "adapters") {
			return "", ""
		}
		if one, other := adapterOf(file.Dir), adapterOf(dir); one != other {
			return fmt.Sprintf("adapter %s imports adapter %s", one, other), ""
		}
		return "", ""
	})
}

// adapterOf names the adapter that a folder belongs to; "adapters" itself is one of its own.
func adapterOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return parts[min(1, len(parts)-1)]
}

// impure are the parts of the standard library that the domain does without, each with everything below it.
var impure = []struct{ library, reason string }{
	{"C", "the domain is plain Go"},
	{"context", "a decision takes no time, so nothing can cancel it"},
	{"crypto/rand", "chance arrives in the command"},
	{"database", "the domain does no IO"},
	{"embed", "the domain does no IO"},
	{"expvar", "the domain is observed through its facts"},
	{"flag", "settings arrive as values"},
	{"io/fs", "the domain does no IO"},
	{"io/ioutil", "the domain does no IO"},
	{"log", "the domain is observed through its facts"},
	{"math/rand", "chance arrives in the command"},
	{"net", "the domain does no IO"},
	{"os", "the domain does no IO"},
	{"path/filepath", "paths differ between systems; the domain does no IO"},
	{"plugin", "the domain is plain Go"},
	{"sync", "a machine has one owner, who serialises; sync/atomic is no exception"},
	{"syscall", "the domain does no IO"},
	{"testing", "test libraries stay out of the binary"},
}

// harmless are parts of impure libraries that only read and write text.
var harmless = []string{"net/url", "net/netip"}

// jsonLibraries may be imported by domain/dialect, which reads and writes bodies on the hot path.
var jsonLibraries = []string{"github.com/go-json-experiment/json"}

// pure allows the domain other domain packages and the harmless part of the standard library.
func pure(tree *Tree) []Finding {
	return eachImport(tree, func(file *File, imported Import) (string, string) {
		if !within(file.Dir, "domain") {
			return "", ""
		}
		if _, ok := tree.ours(imported.Path); ok {
			return "", "" // layers looks at these
		}
		for _, library := range impure {
			if within(imported.Path, library.library) && !inAny(imported.Path, harmless) {
				return "domain imports " + imported.Path, library.reason
			}
		}
		host, _, _ := strings.Cut(imported.Path, "/")
		if standard := !strings.Contains(host, "."); standard {
			return "", ""
		}
		if within(file.Dir, "domain/dialect") && inAny(imported.Path, jsonLibraries) {
			return "", ""
		}
		return "domain imports " + imported.Path, "the domain stands on the standard library alone"
	})
}

// owned lists libraries and the only folders that may import them.
var owned = []struct {
	module string // import path, with everything below it
	rooms  []string
	reason string
}{
	{"github.com/asynkron/protoactor-go", []string{"actors"},
		"an actor is a shell around a machine; nobody else needs to know that there are actors"},
	{"github.com/ThreeDotsLabs/watermill-sql", []string{"adapters/postgres"},
		"the feed over PostgreSQL is that adapter's affair; others know watermill's interfaces only"},
	{"github.com/valyala/fasthttp", []string{"adapters/proxy", "adapters/outbound", "cmd/fastproxy"},
		"only the data plane pays for speed with fasthttp's rules about who owns which bytes"},
	{"github.com/jackc/pgx", []string{"adapters/postgres"}, "the store is a port"},
	{"github.com/ncruces/go-sqlite3", []string{"adapters/sqlite"}, "the store is a port"},
	{"github.com/danielgtaylor/huma", []string{"adapters/admin"}, "the control plane alone describes itself in OpenAPI"},
	{"github.com/spf13/cobra", []string{"cmd/penstock"}, "commands and flags end where the program begins"},
}

// owners forbids a library outside the folders that own it.
func owners(tree *Tree) []Finding {
	return eachImport(tree, func(file *File, imported Import) (string, string) {
		for _, library := range owned {
			if within(imported.Path, library.module) && !inAny(file.Dir, library.rooms) {
				return fmt.Sprintf("imports %s, which belongs to %s", imported.Path, strings.Join(library.rooms, ", ")), library.reason
			}
		}
		return "", ""
	})
}
