package cli

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
)

func (p *Program) repriceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "reprice", Short: "Price ended requests anew", Args: cobra.NoArgs, RunE: p.reprice,
		Long: `Compare what requests are booked at with what they cost by the prices in force now, with the multipliers of then: after a
price was wrong or missing, set the right one with an effective date in the past, and see here what that comes to.
Without --apply nothing is changed. With it, the difference is booked, and balances, bills and limits follow.
Days that are closed stay as they are.
WAS is what is booked, IS what it costs by the prices of now; the DIFFERENCE is what callers are charged more, or with a minus less,
and the UPSTREAM DIFFERENCE the same of what is owed to upstreams. WERE UNPRICED counts attempts that find their price only now.
What is cut short is gone on with by the next run; one that follows changes nothing.`}
	addServer(cmd)
	timeFlags(cmd)
	jsonFlag(cmd)
	cmd.Flags().String("model", "", "name or glob, as it was resolved or asked for")
	cmd.Flags().String("upstream", "", "attempts there only")
	cmd.Flags().String("key", "", "id of an API key")
	cmd.Flags().Bool("unpriced", false, "attempts without a price only")
	cmd.Flags().Bool("apply", false, "book the difference")
	cmd.Flags().String("prices", "", "with --apply: only if the prices are those of the preview that named this")
	cmd.Flags().String("difference", "", "with --apply: only if the callers' difference is this, in USD")
	return cmd
}

func (p *Program) reprice(cmd *cobra.Command, _ []string) error {
	since, until, err := p.span(cmd)
	if err != nil {
		return err
	}
	ask := admin.RepriceRequest{Since: since, Until: until, Model: flag(cmd, "model"), Upstream: flag(cmd, "upstream"), Key: flag(cmd, "key"),
		Unpriced: on(cmd, "unpriced"), Apply: on(cmd, "apply")}
	expect := admin.RepriceExpect{Prices: flag(cmd, "prices"), Difference: flag(cmd, "difference")}
	if expect.Difference != "" {
		if err := amountFlag("--difference", expect.Difference); err != nil {
			return err
		}
	}
	if expect != (admin.RepriceExpect{}) {
		if !ask.Apply {
			return usagef("--prices and --difference: stand beside --apply")
		}
		ask.Expect = &expect
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	ctx, finish := p.watch(cmd.Context(), c)
	defer finish()
	out, err := c.Reprice(ctx, ask)
	finish()
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []*actors.Repricing{out})
	}
	return p.repricing(out, &ask)
}

// Reprice asks the gateway.
func (c *client) Reprice(ctx context.Context, ask admin.RepriceRequest) (*actors.Repricing, error) {
	var out actors.Repricing
	err := c.do(ctx, http.MethodPost, "/api/v1/reprice", ask, &out)
	return &out, err
}

// repricing prints what changes, and how to have it so.
func (p *Program) repricing(out *actors.Repricing, ask *admin.RepriceRequest) error {
	if err := p.repricedLines(out); err != nil {
		return err
	}
	for _, d := range out.Refused {
		fmt.Fprintf(p.Stdout, "not changed: %s%s\n", d.Reason, stays(&d.RepriceSums))
	}
	for _, m := range out.Missing {
		fmt.Fprintf(p.Stdout, "no price for %s at %s: %d attempts stay as they are\n", plain(m.Model), plain(m.Upstream), m.Attempts)
	}
	if out.ClosedThrough != "" {
		fmt.Fprintf(p.Stdout, "days up to %s are closed and were not looked at; --since shows what they would come to\n", out.ClosedThrough)
	}
	if out.Unreadable > 0 {
		fmt.Fprintf(p.Stdout, "%d requests stay as they are because they could not be read or booked; the log of the gateway says why\n", out.Unreadable)
	}
	fmt.Fprintf(p.Stdout, "%d requests read in %.1fs (%d/s), %d still open\n", out.Read, out.Seconds, out.PerSecond, out.Open)
	switch {
	case out.Applied && out.Requests == 0:
		fmt.Fprintln(p.Stdout, "there was nothing to book")
	case out.Applied:
		fmt.Fprintf(p.Stdout, "booked as run %s\n", out.Run)
	case out.Requests == 0:
		fmt.Fprintln(p.Stdout, "there is nothing to book")
	default:
		fmt.Fprintf(p.Stdout, "nothing was changed; to book it: penstock reprice%s --apply --prices %s\n", scopeFlags(ask), out.Prices)
	}
	return nil
}

func stays(s *actors.RepriceSums) string {
	if s.Requests == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d requests, which would cost %s USD more, and %s more at their upstreams)", s.Requests, s.Difference, s.UpstreamDifference)
}

func (p *Program) repricedLines(out *actors.Repricing) error {
	t := newTable(p.Stdout, "KEY", "MODEL", "REQUESTS", "ATTEMPTS", "WAS USD", "IS USD", "DIFFERENCE", "UPSTREAM DIFFERENCE", "WERE UNPRICED")
	row := func(key, model string, s *actors.RepriceSums) {
		t.row(key, model, strconv.FormatInt(s.Requests, 10), strconv.FormatInt(s.Attempts, 10), s.Was.String(), s.Is.String(),
			signed(s.Difference), signed(s.UpstreamDifference), strconv.FormatInt(s.Resolved, 10))
	}
	for i := range out.Lines {
		row(out.Lines[i].Key, out.Lines[i].Model, &out.Lines[i].RepriceSums)
	}
	row("total", "", &out.RepriceSums)
	if out.More > 0 {
		defer fmt.Fprintf(p.Stdout, "%d changes more are in the total only\n", out.More)
	}
	return t.end()
}

// signed is a difference with its sign.
func signed(a money.Amount) string {
	if a > 0 {
		return "+" + a.String()
	}
	return a.String()
}

// scopeFlags are the flags that say the same once more.
func scopeFlags(ask *admin.RepriceRequest) string {
	var b strings.Builder
	for _, f := range []struct{ name, value string }{
		{"since", stamp(ask.Since)}, {"until", stamp(ask.Until)}, {"model", ask.Model}, {"upstream", ask.Upstream}, {"key", ask.Key},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " --%s %s", f.name, quoted(f.value))
		}
	}
	if ask.Unpriced {
		b.WriteString(" --unpriced")
	}
	return b.String()
}

// quoted is a value as a shell takes it.
func quoted(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("-_./:@%+,=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// sayRepriced is a repricing in the story of a request.
func sayRepriced(f *request.Repriced) string {
	parts := []string{"by run " + f.Reprice}
	for _, c := range f.Changes {
		if c.Is == c.Was { // told because nothing is unpriced any more
			continue
		}
		who := fmt.Sprintf("attempt %d", c.N)
		if c.N == 0 {
			who = "the end"
		}
		owed := ""
		if c.Is.UpstreamCost != c.Is.Cost || c.Was.UpstreamCost != c.Was.Cost {
			owed = fmt.Sprintf(" (owed to the upstream: %s, now %s)", c.Was.UpstreamCost, c.Is.UpstreamCost)
		}
		parts = append(parts, fmt.Sprintf("%s of %s was %s, is %s USD by price %s%s", who, c.At.UTC().Format(time.DateTime+" UTC"),
			chargeText(c.Was), c.Is.Cost, version(c.Is.PriceVersion, c.Is.PriceOrigin), owed))
	}
	return strings.Join(parts, "; ")
}

func chargeText(c request.Charge) string {
	if c.Unpriced {
		return "unpriced"
	}
	return c.Cost.String() + " USD" + prefixed(" by price ", version(c.PriceVersion, c.PriceOrigin))
}
