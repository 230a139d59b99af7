package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// release is what version shows.
type release struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *Program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Show the version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		r := release{p.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		if on(cmd, "json") {
			return jsonLines(p.Stdout, []release{r})
		}
		fmt.Fprintf(p.Stdout, "penstock %s (%s, %s)\n", r.Version, r.Go, r.Platform)
		return nil
	}}
	jsonFlag(cmd)
	return cmd
}
