// Command penstock is the gateway and its operator's tools in one binary: see penstock --help.
package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstock/penstock/cmd/penstock/cli"
	"github.com/penstock/penstock/cmd/penstock/demo"
)

// version is set by the linker in releases; else the build tells it.
var version string

func main() {
	program := cli.Program{
		Version: versionOf(version), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Terminal: term.IsTerminal(int(os.Stdin.Fd())), Watched: term.IsTerminal(int(os.Stderr.Fd())), Now: time.Now,
		Serve: serve, OpenOffline: openOffline, Migrate: migrate, Backup: backUp, Restore: restore,
		More: []*cobra.Command{demo.Command(versionOf(version))},
	}
	os.Exit(program.Run(context.Background(), os.Args[1:]))
}

func versionOf(linked string) string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
