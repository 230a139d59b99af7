package cli

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) upstreamCommand() *cobra.Command {
	status := &cobra.Command{Use: "status ID", Short: "Show slots, holders, waiters, breaker and accounts of one upstream",
		Args: exactly("ID"), RunE: p.upstreamStatus}
	addServer(status)
	jsonFlag(status)
	return group("upstream", "Look at upstreams, open and close their breakers, and free their slots", append(p.upstreamSwitches(), p.freeCommand(), status)...)
}

func (p *Program) upstreamStatus(cmd *cobra.Command, args []string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var status actors.UpstreamStatus
	if err := c.doWith(cmd.Context(), http.MethodGet, catalog.KindUpstream, args[0], "/status", nil, &status); err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []actors.UpstreamStatus{status})
	}
	return printStatus(p.Stdout, &status, p.Now())
}

// slotCount shows held slots out of those that there are.
func slotCount(held int, slots *int) string {
	if slots == nil {
		return strconv.Itoa(held) + " of unlimited"
	}
	return fmt.Sprintf("%d of %d", held, *slots)
}

func printStatus(w io.Writer, s *actors.UpstreamStatus, now time.Time) error {
	fmt.Fprintf(w, "upstream %s\n", s.ID)
	fmt.Fprintf(w, "slots    %s held, %d waiting\n", slotCount(len(s.Held), s.Slots), len(s.Waiting))
	printBreaker(w, "breaker", &s.Breaker)
	for i := range s.Breakers {
		printBreaker(w, s.Breakers[i].Account+" "+s.Breakers[i].Model, &s.Breakers[i])
	}
	printWaits(w, s)

	if err := printAccounts(w, s.Accounts); err != nil {
		return err
	}
	for _, t := range [...]*table{shares(w, s), held(w, s.Held, now), waiting(w, s.Waiting, now)} {
		if t == nil {
			continue
		}
		fmt.Fprintln(w)
		if err := t.end(); err != nil {
			return err
		}
	}
	return nil
}
