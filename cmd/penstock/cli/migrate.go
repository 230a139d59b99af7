package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/projections"
)

// migrated is a line of migrate --json.
type migrated struct {
	Migration string `json:"migration"`
	Applied   bool   `json:"applied"`
}

func (p *Program) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the schema of a stopped gateway's event store up to date; serve does it, too",
		Args: cobra.NoArgs, RunE: p.migrate}
	AddSettings(cmd, "data", "store")
	cmd.Flags().Bool("dry-run", false, "only name what would be applied")
	jsonFlag(cmd)
	return cmd
}

func (p *Program) migrate(cmd *cobra.Command, _ []string) error {
	s, err := LoadSettings(cmd, p.Getenv)
	if err != nil {
		return err
	}
	dry := on(cmd, "dry-run")
	m := &meter{out: p.Stderr, terminal: p.Watched, now: p.Now}
	names, err := p.Migrate(projections.Watch(cmd.Context(), func(at projections.Progress) {
		if at.Position == at.From {
			fmt.Fprintf(p.Stderr, "%s: %d\n", at.Projection, at.To-at.From)
		}
		m.show(at)
	}), s, dry)
	m.end()
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		lines := make([]migrated, len(names))
		for i, name := range names {
			lines[i] = migrated{name, !dry}
		}
		return jsonLines(p.Stdout, lines)
	}
	verb := "applied"
	if dry {
		verb = "pending"
	}
	for _, name := range names {
		fmt.Fprintf(p.Stdout, "%s: %s\n", verb, name)
	}
	if len(names) == 0 {
		fmt.Fprintln(p.Stdout, "the schema is up to date")
	}
	return nil
}
