// Package cli is the operator's side of penstock: its commands, their settings and the client of the admin API.
// Programs that embed it hand in what only the composition root can do (see Program).
package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock/penstock/events"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Program is what surrounds the commands. Every field but More is needed.
type Program struct {
	Version  string
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Getenv   func(string) string
	Terminal bool // a person sits at Stdin
	Watched  bool // a person looks at Stderr
	Now      func() time.Time

	// Serve runs a gateway until the context ends.
	Serve func(ctx context.Context, s Settings) error
	// OpenOffline opens the data of a stopped gateway.
	OpenOffline func(ctx context.Context, s Settings) (Offline, error)
	// Migrate brings the schema of a stopped gateway's event store up to date, or only names the migrations.
	Migrate func(ctx context.Context, s Settings, dryRun bool) ([]string, error)
	// Backup writes the store of a stopped gateway.
	Backup func(ctx context.Context, s Settings, to io.Writer) error
	// Restore fills the empty store of a stopped gateway from a backup.
	Restore func(ctx context.Context, s Settings, heads []events.Head, from io.Reader) (events.Restored, error)
	// More are commands that are made elsewhere.
	More []*cobra.Command
}

// Run executes a command line and returns the exit code: 0 ok, 1 failed, 2 wrong usage.
func (p *Program) Run(ctx context.Context, args []string) int {
	started := false
	out := &whole{w: p.Stdout}
	own := *p
	own.Stdout = out
	root := own.root(&started)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = errors.Wrap(out.err, "write output")
	}
	if err == nil {
		return exitOK
	}
	var silent *silentError
	if !errors.As(err, &silent) {
		fmt.Fprintln(p.Stderr, "penstock: "+err.Error())
		if hint := errors.FlattenHints(err); hint != "" {
			fmt.Fprintln(p.Stderr, hint)
		}
	}
	var wrong *usageError
	if errors.As(err, &wrong) || !started {
		return exitUsage
	}
	return exitFailed
}

// whole remembers that an output is not: a command whose invoice or list has met a full disk has not succeeded, whether it looks
// at each of its writes or not.
type whole struct {
	w   io.Writer
	err error // the first one
}

func (o *whole) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

func (p *Program) root(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "penstock",
		Short:         "A self-hosted gateway for LLM APIs",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		// Runs after flags and arguments have been understood: errors before it, and of its own, are wrong usage.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := understood(cmd); err != nil {
				return err
			}
			*started = true
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(p.serveCommand(), p.applyCommand(), p.getCommand(), p.exportCommand(), p.keyCommand(),
		p.logsCommand(), p.explainCommand(), p.eventsCommand(), p.billCommand(), p.replayCommand(),
		p.creditCommand(), p.balanceCommand(), p.subscriptionCommand(), p.statementCommand(),
		p.upstreamCommand(), p.accountCommand(), p.doctorCommand(), p.versionCommand(), p.auditCommand(), p.booksCommand(), p.backupCommand(), p.restoreCommand(), p.migrateCommand(), p.pricesCommand(), p.repriceCommand())
	root.AddCommand(p.More...)
	root.SetHelpCommand(helpCommand())
	return root
}

// helpCommand is that of cobra, which takes a command that is not there for none at all.
func helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %s; see penstock help", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		}}
}

// understood refuses flags that exclude each other, and those that are given and empty, such as that of a variable which a
// script has not set: a limit left out in silence allows more than was meant, a filter shows more, and a booking without
// its id is booked twice.
func understood(cmd *cobra.Command) error {
	if err := cmd.ValidateFlagGroups(); err != nil { // cobra does it later, when a command counts as begun
		return err
	}
	var empty []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			text = strings.Join(list.GetSlice(), "")
		}
		if text == "" {
			empty = append(empty, "--"+f.Name+" is empty")
		}
	})
	if len(empty) > 0 {
		return errors.New(strings.Join(empty, "\n"))
	}
	return nil
}

func (p *Program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := LoadSettings(cmd, p.Getenv)
			if err != nil {
				return err
			}
			return p.Serve(cmd.Context(), s)
		},
	}
	AddSettings(cmd, settingNames()...)
	return cmd
}

// usageError is an error in how a command was called.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Usage marks an error as wrong usage, for commands that are made elsewhere; nil stays nil.
func Usage(err error) error { return usage(err) }

// usage marks an error as wrong usage; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

func usagef(format string, args ...any) error { return usage(errors.Newf(format, args...)) }

// silentError fails a command that has already said why on standard output.
type silentError struct{}

func (*silentError) Error() string { return "failed" }

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("%s: which one? see %s --help", nameOf(cmd), cmd.CommandPath())
		}}
	cmd.AddCommand(children...)
	return cmd
}
