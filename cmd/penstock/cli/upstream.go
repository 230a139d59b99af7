package cli

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) upstreamCommand() *cobra.Command {
	status := &cobra.Command{Use: "status ID", Short: "Show slots, holders, waiters, breaker and accounts of one upstream",
		Args: exactly("ID"), RunE: p.upstreamStatus}
	addServer(status)
	jsonFlag(status)
	return group("upstream", "Look at upstreams", status)
}

func (p *Program) upstreamStatus(cmd *cobra.Command, args []string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var status actors.UpstreamStatus
	err = c.do(cmd.Context(), http.MethodGet, resourcePath(catalog.KindUpstream, args[0])+"/status", nil, &status)
	var refused *problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return errors.Newf("there is no upstream %s", args[0])
	}
	if err != nil {
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
	fmt.Fprintf(w, "breaker  %s", s.Breaker.State)
	if s.Breaker.Until != nil {
		fmt.Fprintf(w, " until %s", clock(*s.Breaker.Until))
	}
	fmt.Fprintf(w, ", %d failures in a row\n", s.Breaker.Failures)
	for _, e := range s.Breaker.Last {
		fmt.Fprintf(w, "         %s %s %d\n", clock(e.At), plain(e.Class), e.Status)
	}
	fmt.Fprintf(w, "totals   %d queued, %d granted, %d timed out, %d aborted\n\n",
		s.Totals.Queued, s.Totals.Granted, s.Totals.TimedOut, s.Totals.Aborted)

	t := newTable(w, "ACCOUNT", "STATE", "SLOTS", "REASON", "UNTIL")
	for _, a := range s.Accounts {
		until := ""
		if a.Until != nil {
			until = clock(*a.Until)
		}
		t.row(a.ID, a.State, slotCount(a.Held, a.Slots), a.Reason, until)
	}
	if err := t.end(); err != nil {
		return err
	}
	if len(s.Held) > 0 {
		fmt.Fprintln(w)
		t = newTable(w, "HELD BY", "TRY", "KEY", "ACCOUNT", "PHASE", "FOR")
		for _, h := range s.Held {
			t.row(h.RequestID, strconv.Itoa(h.Attempt), h.Key, h.Account, h.Phase, took(now.Sub(h.Since).Microseconds()))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if len(s.Waiting) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t = newTable(w, "PLACE", "WAITING", "KEY", "FOR", "AT MOST UNTIL")
	for _, q := range s.Waiting {
		t.row(strconv.Itoa(q.Position), q.RequestID, q.Key, took(now.Sub(q.Since).Microseconds()), clock(q.Deadline))
	}
	return t.end()
}
