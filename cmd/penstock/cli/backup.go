package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

func (p *Program) backupCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "backup", Short: "Copy the store of a gateway, running or not, into a file", Args: cobra.NoArgs, RunE: p.backup,
		Long: `Copy the store of a gateway, running or not, into a file: every event up to the head of this moment, the
sealed credentials in all versions and the places of webhooks. penstock restore brings it back, into either kind of store.
What is not in it: the secret key (keep a copy of secret.key or PENSTOCK_SECRET_KEY), read models (they are rebuilt), archives of
closed days, and what an outage has left in the spool (during one it is refused).`}
	addServer(cmd)
	cmd.Flags().String("out", "", "file to write, which only its owner can read; compressed when its name ends in .gz (default standard output)")
	cmd.Flags().Bool("force", false, "write over a file that is there")
	return cmd
}

func (p *Program) backup(cmd *cobra.Command, _ []string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM) // no half file stays behind
	defer stop()
	out := &parcel{Writer: p.Stdout}
	if path := flag(cmd, "out"); path != "" {
		var err error
		if out, err = openParcel(path, on(cmd, "force")); err != nil {
			return err
		}
		defer out.drop()
	}
	c, s, err := p.gateway(cmd)
	if err != nil {
		return err
	}
	m := &meter{out: p.Stderr, terminal: p.Watched, now: p.Now, patience: meterPatience}
	passing := &passing{w: out, show: m.show}
	if c != nil {
		err = c.stream(ctx, "/api/v1/backup", passing)
	} else {
		err = p.Backup(ctx, s, passing)
	}
	m.end()
	if err == nil {
		err = passing.whole()
	}
	if err == nil {
		err = out.place()
	}
	if err != nil {
		return errors.Wrap(err, "backup")
	}
	fmt.Fprintf(p.Stderr, "backup: %d positions, %d sealed credentials, %d consumer groups; head %d:%s\n",
		passing.head.Position, passing.secrets, passing.groups, passing.head.Position, passing.head.Hash)
	return nil
}

func (p *Program) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "restore FILE", Short: "Fill the empty store of a gateway that does not run from a backup", Args: cobra.ExactArgs(1), RunE: p.restore,
		Long: `Fill the empty store of a gateway that does not run from a backup (- is standard input), of whichever kind of store. The file is
checked while it is read; all of it is stored, or nothing. The credentials stay sealed: the secret key must be the one that sealed
them, as secret.key in the data folder or as PENSTOCK_SECRET_KEY. penstock serve makes the read models then.`}
	AddSettings(cmd, "data", "store")
	jsonFlag(cmd)
	headFlags(cmd)
	return cmd
}

func (p *Program) restore(cmd *cobra.Command, args []string) error {
	s, err := LoadSettings(cmd, p.Getenv)
	if err != nil {
		return err
	}
	heads, err := auditHeads(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	in, closing, err := p.input(args[0])
	if err != nil {
		return err
	}
	defer closing()
	m := &meter{out: p.Stderr, terminal: p.Watched, now: p.Now, patience: meterPatience}
	r, err := p.Restore(projections.Watch(ctx, m.show), s, heads, in)
	m.end()
	if err != nil {
		err = errors.Wrapf(err, "restore %s", args[0])
		if errors.Is(err, events.ErrInDoubt) {
			return errors.WithHint(err, "penstock audit head says whether all is there; if not, nothing is")
		}
		return errors.WithHint(err, "nothing was stored")
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []events.Restored{r})
	}
	fmt.Fprintf(p.Stdout, "restored: %d positions, %d rows in %d commits, %d sealed credentials, %d consumer groups, known heads met: %d; head %d:%s\n",
		r.Positions, r.Rows, r.Commits, r.Secrets, r.Groups, r.Heads, r.Head.Position, r.Head.Hash)
	if r.Archived > 0 {
		fmt.Fprintf(p.Stdout, "%d rows were removed by retention before: their hashes are in the chain, they themselves are not here\n", r.Archived)
	}
	fmt.Fprintln(p.Stdout, "the next start makes the read models: penstock serve")
	return nil
}

// input opens a file, or standard input for -.
func (p *Program) input(path string) (io.Reader, func(), error) {
	if path == "-" {
		return p.Stdin, func() {}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}
