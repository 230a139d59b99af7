package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) freeCommand() *cobra.Command {
	free := &cobra.Command{Use: "free ID REQUEST_ID", Short: "Take the slot of one request back: its attempt is cut first",
		Args: exactly("ID", "REQUEST_ID"), RunE: p.freeLease}
	addServer(free)
	jsonFlag(free)
	free.Flags().Int("attempt", 0, "only this attempt (default the one that holds a slot)")
	free.Flags().String("reason", "", "shown beside the slot while its attempt ends")
	return free
}

func (p *Program) freeLease(cmd *cobra.Command, args []string) error {
	attempt := ""
	if cmd.Flags().Changed("attempt") {
		n, _ := cmd.Flags().GetInt("attempt")
		if n < 1 {
			return usagef("--attempt: must be 1 or more")
		}
		attempt = strconv.Itoa(n)
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var freed actors.FreedLease
	path := resourcePath(catalog.KindUpstream, args[0]) + "/leases/" + url.PathEscape(args[1]) + query("attempt", attempt, "reason", flag(cmd, "reason"))
	err = c.do(cmd.Context(), http.MethodDelete, path, nil, &freed)
	var refused *problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return errors.Newf("request %s holds no slot of upstream %s", args[1], args[0])
	}
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []actors.FreedLease{freed})
	}
	what := "its slot is free"
	if !freed.Freed {
		what = "its slot is free as soon as that has ended"
	}
	_, err = fmt.Fprintf(p.Stdout, "request %s: attempt %d of key %s at account %s is cut; %s\n", freed.RequestID, freed.Attempt, freed.Key, freed.Account, what)
	return errors.Wrap(err, "write output")
}
