package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

func (p *Program) replayCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "replay", Short: "Rebuild read models from events", Args: cobra.NoArgs, RunE: p.replay,
		Long: `Rebuild read models from events, beside the live ones, which give way to them in the end.
What was interrupted is gone on with by the next replay.`}
	addServer(cmd)
	jsonFlag(cmd)
	cmd.Flags().String("projection", "", "only this one (default all)")
	cmd.Flags().Bool("verify", false, "rebuild beside the live one and compare; exit 1 on a difference")
	cmd.Flags().String("until", "", "leave the live ones alone and show the books as they stood then: a position, a time (2026-01-31T12:00:00Z), a day or how long ago (24h)")
	return cmd
}

func (p *Program) replay(cmd *cobra.Command, _ []string) error {
	verify, past := on(cmd, "verify"), cmd.Flags().Changed("until")
	if verify && past {
		return usagef("--until: there is nothing to verify about the past")
	}
	var q billing.Query
	if err := p.moment(cmd, "until", &q); err != nil {
		return err
	}
	if past && !q.Stood() {
		return usagef("--until: must be a position or a time")
	}
	from, done, err := p.source(cmd)
	if err != nil {
		return err
	}
	defer done()
	ctx, finish := p.watch(cmd.Context(), from)
	defer finish()
	if past {
		standings, err := from.Until(ctx, flag(cmd, "projection"), q)
		finish()
		if err != nil {
			return err
		}
		return p.standings(standings, on(cmd, "json"))
	}
	reports, err := from.Replay(ctx, flag(cmd, "projection"), verify)
	finish()
	if errors.Is(err, context.Canceled) && !verify {
		err = errors.WithHint(err, "what was folded is kept: the next replay goes on from there")
	}
	if err != nil {
		return err
	}
	return p.reports(reports, verify, on(cmd, "json"))
}

// watch shows on standard error how far replays of the context are, or other work that takes long, in this process or in
// the gateway (a *client), until finish is called. finish may be called again.
func (p *Program) watch(ctx context.Context, from any) (_ context.Context, finish func()) {
	m := &meter{out: p.Stderr, terminal: p.Watched, now: p.Now}
	c, remote := from.(*client)
	if !remote {
		return projections.Watch(ctx, m.show), m.end
	}
	polling, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.poll(polling, m.show)
	}()
	return ctx, func() {
		stop()
		<-stopped
		m.end()
	}
}

// pollEvery is how often a gateway is asked how far its replays are.
const pollEvery = 500 * time.Millisecond

// poll shows the replay of the gateway that began last, until the context ends or the gateway knows of no such thing.
func (c *client) poll(ctx context.Context, show func(projections.Progress)) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		states, err := c.Replays(ctx)
		if err != nil {
			return
		}
		if n := len(states); n > 0 && states[n-1].To > 0 {
			r := &states[n-1]
			show(projections.Progress{Projection: r.Projection, Part: r.Part, Unit: r.Unit, From: r.From, Position: r.Position, To: r.To})
		}
	}
}

// reports prints what was rebuilt or compared.
func (p *Program) reports(reports []projections.Report, verify, json bool) error {
	different := false
	for _, r := range reports {
		different = different || verify && !r.Equal
	}
	var err error
	if json {
		err = jsonLines(p.Stdout, reports)
	} else {
		for _, r := range reports {
			verdict := "rebuilt"
			if verify {
				verdict = map[bool]string{true: "equal", false: fmt.Sprintf("DIFFERENT in %d rows", r.DifferingRows)}[r.Equal]
			}
			if r.ResumedFrom > 0 {
				verdict += fmt.Sprintf(", going on from position %d", r.ResumedFrom)
			}
			if r.Undecodable > 0 {
				verdict += fmt.Sprintf(", %d rows of events could not be decoded and were passed over", r.Undecodable)
			}
			fmt.Fprintf(p.Stdout, "%s: %s: %d events, %d rows, %.2fs (%d events/s)\n", r.Projection, verdict, r.Events, r.Rows, r.Seconds, r.EventsPerSecond)
			for _, line := range r.Differences {
				fmt.Fprintln(p.Stdout, "  "+line)
			}
		}
	}
	if err == nil && different {
		return &silentError{}
	}
	return err
}

// standings prints what the books were.
func (p *Program) standings(list []admin.Standing, json bool) error {
	if json {
		return jsonLines(p.Stdout, list)
	}
	for i := range list {
		s := &list[i]
		var tables []string
		for _, name := range slices.Sorted(maps.Keys(s.Tables)) {
			tables = append(tables, fmt.Sprintf("%s %d", name, s.Tables[name]))
		}
		fmt.Fprintf(p.Stdout, "%s at position %d: %d events, %d rows (%s)\n", s.Projection, s.Until, s.Events, s.Rows, strings.Join(tables, ", "))
		if len(s.Lines) == 0 {
			continue
		}
		if err := p.billTable(s.Lines, []string{"key", "model"}); err != nil {
			return err
		}
	}
	return nil
}
