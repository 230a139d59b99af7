package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// module makes a tree of the given files. The body of a Go file is either its source, with a package clause, or
// just a list of imports.
func module(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.org/house\n\ngo 1.26\n")}}
	for name, body := range files {
		if strings.HasSuffix(name, ".go") && !strings.Contains(body, "package ") {
			imports := strings.Fields(body)
			for i, path := range imports {
				imports[i] = fmt.Sprintf("import _ %q\n", path)
			}
			body = "package p\n\n" + strings.Join(imports, "")
		}
		fsys[name] = &fstest.MapFile{Data: []byte(body)}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// checkOne applies the rule of that name and returns its findings as "path:line: what".
func checkOne(t *testing.T, name string, files map[string]string) []string {
	t.Helper()
	at := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("no rule %q", name)
	}
	var found []string
	for _, f := range Check(module(t, files), Rules[at:at+1]) {
		if f.Reason == "" || f.Rule == "" {
			t.Errorf("finding without a rule or reason: %+v", f)
		}
		found = append(found, fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.What))
	}
	return found
}

type files = map[string]string

func TestEachRuleFiresOnWhatItForbidsAndOnNothingElse(t *testing.T) {
	const house = "example.org/house"
	cases := []struct {
		rule  string
		says  string
		files files
		want  []string // nil = nothing may be found
	}{
		{"layers", "everything may look down", files{
			"cmd/penstock/main.go":     house + " " + house + "/adapters/sqlite " + house + "/cmd/mockllm/simulator",
			"penstock.go":              house + "/adapters/sqlite " + house + "/actors " + house + "/migrations",
			"adapters/sqlite/a.go":     house + "/actors " + house + "/domain/gate " + house + "/migrations",
			"actors/a.go":              house + "/projections/stats " + house + "/events " + house + "/domain/gate",
			"projections/stats/a.go":   house + "/events " + house + "/projections",
			"events/storetest/a.go":    house + "/events",
			"events/a.go":              house + "/domain/gate",
			"domain/gate/a.go":         house + "/domain/money",
			"migrations/embed.go":      "embed",
			"domain/gate/gate_test.go": house + "/events/storetest",
		}, nil},
		{"layers", "nobody may look up", files{
			"penstock.go":            house + "/cmd/mockllm/simulator",
			"adapters/sqlite/a.go":   house,
			"actors/a.go":            house + "/adapters/sqlite",
			"projections/stats/a.go": house + "/actors",
			"events/a.go":            house + "/projections",
			"domain/gate/a.go":       house + "/events",
			"migrations/embed.go":    house + "/domain/gate",
		}, []string{
			"actors/a.go:3: actors imports adapters/sqlite",
			"adapters/sqlite/a.go:3: adapters/sqlite imports .",
			"domain/gate/a.go:3: domain/gate imports events",
			"events/a.go:3: events imports projections",
			"migrations/embed.go:3: migrations imports domain/gate",
			"penstock.go:3: . imports cmd/mockllm/simulator",
			"projections/stats/a.go:3: projections/stats imports actors",
		}},
		{"layers", "migrations are for those who open a database", files{
			"actors/a.go": house + "/migrations", "domain/gate/a.go": house + "/migrations",
		}, []string{"actors/a.go:3: actors imports migrations", "domain/gate/a.go:3: domain/gate imports migrations"}},
		{"layers", "a new top folder needs a place on the map", files{"internal/x/a.go": "fmt"},
			[]string{"internal/x/a.go:1: folder internal/x stands on no storey"}},

		{"neighbours", "an adapter has parts but no neighbours", files{
			"adapters/admin/a.go":         house + "/adapters/admin/console " + house + "/domain/dialect",
			"adapters/admin/console/a.go": house + "/adapters/proxy",
		}, []string{"adapters/admin/console/a.go:3: adapter admin imports adapter proxy"}},
		{"neighbours", "tests of an adapter may use the memory store", files{
			"adapters/sqlite/a_test.go": house + "/adapters/memory"}, nil},

		{"pure", "the domain has the harmless part of the standard library", files{
			"domain/gate/a.go":           "errors fmt time strings math math/big math/bits crypto/sha256 iter logic " + house + "/domain/money",
			"domain/gate/a_test.go":      "testing math/rand/v2 os",
			"domain/dialect/a.go":        "github.com/go-json-experiment/json",
			"domain/dialect/openai/a.go": "github.com/go-json-experiment/json/jsontext",
			"adapters/system/clock.go":   "os net/http sync context",
		}, nil},
		{"pure", "the domain has no world, no waiting and no chance", files{
			"domain/gate/a.go": "os os/signal net net/http log log/slog sync sync/atomic context math/rand math/rand/v2 crypto/rand syscall io/fs testing",
		}, func() (want []string) {
			for i, path := range strings.Fields("os os/signal net net/http log log/slog sync sync/atomic context math/rand math/rand/v2 crypto/rand syscall io/fs testing") {
				want = append(want, fmt.Sprintf("domain/gate/a.go:%d: domain imports %s", 3+i, path))
			}
			return want
		}()},
		{"pure", "only the dialects need a fast JSON library", files{
			"domain/request/a.go": "github.com/go-json-experiment/json",
			"domain/dialect/a.go": "github.com/google/uuid",
		}, []string{
			"domain/dialect/a.go:3: domain imports github.com/google/uuid",
			"domain/request/a.go:3: domain imports github.com/go-json-experiment/json",
		}},

		{"owners", "each library behind its own door", files{
			"actors/a.go":                  "github.com/asynkron/protoactor-go/actor",
			"adapters/proxy/a.go":          "github.com/valyala/fasthttp",
			"adapters/outbound/a.go":       "github.com/valyala/fasthttp/fasthttpproxy",
			"cmd/fastproxy/main.go":        "github.com/valyala/fasthttp",
			"adapters/postgres/a.go":       "github.com/jackc/pgx/v5/pgxpool",
			"adapters/sqlite/a.go":         "github.com/ncruces/go-sqlite3 github.com/ncruces/go-sqlite3-wasm/v6",
			"adapters/admin/a.go":          "github.com/danielgtaylor/huma/v2/adapters/humago",
			"cmd/penstock/main.go":         "github.com/spf13/cobra",
			"adapters/telemetry/a_test.go": "github.com/valyala/fasthttp",
		}, nil},
		{"owners", "and behind no other", files{
			"penstock.go":          "github.com/asynkron/protoactor-go/actor",
			"cmd/loadgen/main.go":  "github.com/valyala/fasthttp github.com/spf13/cobra",
			"adapters/memory/a.go": "github.com/jackc/pgx/v5 github.com/ncruces/go-sqlite3/driver github.com/danielgtaylor/huma/v2",
		}, []string{
			"adapters/memory/a.go:3: imports github.com/jackc/pgx/v5, which belongs to adapters/postgres",
			"adapters/memory/a.go:4: imports github.com/ncruces/go-sqlite3/driver, which belongs to adapters/sqlite",
			"adapters/memory/a.go:5: imports github.com/danielgtaylor/huma/v2, which belongs to adapters/admin",
			"cmd/loadgen/main.go:3: imports github.com/valyala/fasthttp, which belongs to adapters/proxy, adapters/outbound, cmd/fastproxy",
			"cmd/loadgen/main.go:4: imports github.com/spf13/cobra, which belongs to cmd/penstock",
			"penstock.go:3: imports github.com/asynkron/protoactor-go/actor, which belongs to actors",
		}},

		{"clock", "times are values", files{
			"domain/gate/a.go":      "package gate\nimport \"time\"\nvar d = time.Second\nfunc f(t time.Time) time.Time { return time.Unix(0, 0).Add(d) }",
			"domain/gate/a_test.go": "package gate\nimport \"time\"\nvar now = time.Now()",
			"domain/gate/b.go":      "package gate\nfunc f(clock interface{ Now() int }) int { return clock.Now() }",
			"actors/a.go":           "package actors\nimport \"time\"\nvar now = time.Now()",
		}, nil},
		{"clock", "the domain reads no clock, by whatever name, and hands none on", files{
			"domain/gate/a.go": "package gate\nimport \"time\"\nvar a = time.Now()\nvar b = time.Since\nfunc f() { time.Sleep(1) }\nvar c = time.After(1)\nvar d = time.NewTimer(1)",
			"domain/gate/b.go": "package gate\nimport t \"time\"\nvar a = t.Now()",
			"domain/gate/c.go": "package gate\nimport . \"time\"\nvar a = Now()",
		}, []string{
			"domain/gate/a.go:3: domain uses time.Now",
			"domain/gate/a.go:4: domain uses time.Since",
			"domain/gate/a.go:5: domain uses time.Sleep",
			"domain/gate/a.go:6: domain uses time.After",
			"domain/gate/a.go:7: domain uses time.NewTimer",
			"domain/gate/b.go:3: domain uses time.Now",
			"domain/gate/c.go:1: imports time without its name",
		}},

		{"names", "a name says what is inside", files{
			"domain/util/a.go":          "package gate",
			"domain/gate/a.go":          "package common",
			"domain/gate/a_test.go":     "package types_test",
			"adapters/helpers/x/a.go":   "package x",
			"cmd/misc/main.go":          "package main",
			"domain/money/amount.go":    "package money",
			"domain/request/typeset.go": "package request",
		}, []string{
			"adapters/helpers/x/a.go:1: package helpers",
			"cmd/misc/main.go:1: package misc",
			"domain/gate/a.go:1: package common",
			"domain/gate/a_test.go:1: package types",
			"domain/util/a.go:1: package util",
		}},

		{"length", "a file of the product fits a head", files{
			"domain/gate/long.go":      "package gate\n" + strings.Repeat("\n", linesMax),
			"domain/gate/full.go":      "package gate\n" + strings.Repeat("\n", linesMax-1),
			"domain/gate/long_test.go": "package gate\n" + strings.Repeat("\n", 2*linesMax),
			"domain/gate/made.go":      "// Code generated by a table. DO NOT EDIT.\n\npackage gate\n" + strings.Repeat("\n", linesMax),
			"domain/gate/claims.go":    "package gate\n// Code generated by a table. DO NOT EDIT.\n" + strings.Repeat("\n", linesMax),
		}, []string{
			"domain/gate/claims.go:0: 452 lines", // the line counts only above the package clause
			"domain/gate/long.go:0: 451 lines",
		}},

		{"wiring", "nothing runs before main in the core", files{
			"domain/gate/a.go":       "package gate\nfunc init() {}",
			"events/a.go":            "package events\nfunc init() {}",
			"projections/stats/a.go": "package stats\nfunc init() {}",
			"actors/a.go":            "package actors\n\nfunc init() {}",
			"actors/b.go":            "package actors\ntype m struct{}\nfunc (m) init() {}",
			"actors/a_test.go":       "package actors\nfunc init() {}",
			"cmd/penstock/main.go":   "package main\nfunc init() {}",
		}, []string{
			"actors/a.go:3: func init",
			"domain/gate/a.go:2: func init",
			"events/a.go:2: func init",
			"projections/stats/a.go:2: func init",
		}},

		{"finished", "no mark is left behind, in no kind of text", files{
			"domain/gate/a.go":             "package gate\n// TO" + "DO: later\nvar mark = \"TO" + "DO\"",
			"domain/gate/a_test.go":        "package gate\n/* FIX" + "ME */",
			"domain/gate/b.go":             "package gate\n// METHODOLOGY, a TO" + "DOLIST",
			"migrations/sqlite/0001_a.sql": "-- fine\n-- TO" + "DO index\n",
			"events/testdata/x.sql":        "-- TO" + "DO recorded",
		}, []string{
			"domain/gate/a.go:2: says TO" + "DO",
			"domain/gate/a_test.go:2: says FIX" + "ME",
			"migrations/sqlite/0001_a.sql:2: says TO" + "DO",
		}},

		{"readme", "every top folder explains itself", files{
			"actors/README.md": "x", "adapters/README.md": "x", "cmd/README.md": "x", "domain/README.md": "x",
			"events/README.md": "x", "migrations/README.md": "x", "projections/stats/README.md": "x",
		}, []string{"projections/README.md:0: is missing"}},

		{"migrations", "one database alone is at peace", files{"migrations/sqlite/0001_events.sql": ""}, nil},
		{"migrations", "a number is given once", files{
			"migrations/sqlite/0001_again.sql": "", "migrations/sqlite/0001_events.sql": "",
		}, []string{"migrations/sqlite/0001_events.sql:0: number 0001 is taken by 0001_again.sql"}},
		{"migrations", "two databases keep step", files{
			"migrations/sqlite/0001_events.sql":    "",
			"migrations/postgres/0001_events.sql":  "",
			"migrations/sqlite/0002_secrets.sql":   "",
			"migrations/postgres/0002_sealed.sql":  "",
			"migrations/sqlite/0003_bill.sql":      "",
			"migrations/postgres/0004_stats.sql":   "",
			"migrations/postgres/5-short-name.sql": "",
		}, []string{
			"migrations/postgres/0002_sealed.sql:0: is called 0002_secrets.sql in migrations/sqlite",
			"migrations/postgres/0004_stats.sql:0: has no counterpart in migrations/sqlite",
			"migrations/postgres/5-short-name.sql:0: is not named NNNN_name.sql",
			"migrations/sqlite/0002_secrets.sql:0: is called 0002_sealed.sql in migrations/postgres",
			"migrations/sqlite/0003_bill.sql:0: has no counterpart in migrations/postgres",
		}},
	}
	fired := map[string]bool{}
	for _, c := range cases {
		t.Run(c.rule+"/"+c.says, func(t *testing.T) {
			got := checkOne(t, c.rule, c.files)
			if !slices.Equal(got, c.want) {
				t.Errorf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
		fired[c.rule] = fired[c.rule] || len(c.want) > 0
	}
	for _, rule := range Rules {
		if !fired[rule.Name] {
			t.Errorf("rule %q is never shown to fire", rule.Name)
		}
	}
}

func TestAFileThatDoesNotParseIsAFindingAndHidesNoOther(t *testing.T) {
	tree := module(t, files{
		"domain/gate/broken.go": "package gate\nfunc {",
		"domain/gate/a.go":      "os",
	})
	found := Check(tree, Rules[2:3])
	if len(found) != 2 || found[0].Path != "domain/gate/a.go" || found[1].Path != "domain/gate/broken.go" ||
		!strings.Contains(found[1].What, "does not parse") {
		t.Errorf("found %v", found)
	}
}

func TestForeignFoldersArePassedBy(t *testing.T) {
	bad := "package util\nimport _ \"os\""
	tree := module(t, files{
		"lint/go.mod": "module other", "lint/util/a.go": bad, ".hidden/util/a.go": bad,
		"domain/testdata/util/a.go": bad, "bin/util/a.go": bad, "domain/data/a.go": "errors",
	})
	if len(tree.Files) != 1 || tree.Files[0].Path != "domain/data/a.go" {
		t.Errorf("walked %v", tree.Paths)
	}
}

func TestAModuleWithoutAModuleLineIsRefused(t *testing.T) {
	_, err := Load(fstest.MapFS{"go.mod": {Data: []byte("go 1.26\n")}})
	if err == nil || !strings.Contains(err.Error(), "no module line") {
		t.Errorf("err = %v", err)
	}
}

// TestThisTreeFollowsTheHouseRules is the gate: every finding in the tree around this package is a failure.
func TestThisTreeFollowsTheHouseRules(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if !tree.Paths["cmd/tidy/rule_test.go"] {
		t.Fatalf("%s is not the tree that this test belongs to", root)
	}
	for _, f := range Check(tree, Rules) {
		t.Error(f)
	}
}
