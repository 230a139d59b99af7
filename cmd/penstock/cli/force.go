package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
)

// What an operator does by hand to breakers and blocks. All of it is in force for the next request, and its facts say
// that it was the operator.

func (p *Program) upstreamSwitches() []*cobra.Command {
	open := &cobra.Command{Use: "open ID", Short: "Take an upstream out of service; its breaker then lets single probes through",
		Args: exactly("ID"), RunE: func(cmd *cobra.Command, args []string) error { return p.force(cmd, args[0], "open") }}
	spanAhead(open, "until the first probe (default as long as the upstream's open_for says)")
	shut := &cobra.Command{Use: "close ID", Short: "Put an upstream back into service and forget its failures, with all its breakers",
		Args: exactly("ID"), RunE: func(cmd *cobra.Command, args []string) error { return p.force(cmd, args[0], "close") }}
	for _, cmd := range []*cobra.Command{open, shut} {
		addServer(cmd)
		jsonFlag(cmd)
		cmd.Flags().String("account", "", "only the breaker of this account, with --model (where breaker.per is account_model)")
		cmd.Flags().String("model", "", "only the breaker of this model, with --account")
	}
	return []*cobra.Command{open, shut}
}

func (p *Program) accountCommand() *cobra.Command {
	block := &cobra.Command{Use: "block ID", Short: "Take an account out of service for a while", Args: exactly("ID"), RunE: p.blockAccount}
	spanAhead(block, "of the block")
	unblock := &cobra.Command{Use: "unblock ID", Short: "End all blocks of an account", Args: exactly("ID"), RunE: p.unblockAccount}
	addServer(block)
	addServer(unblock)
	return group("account", "Block and unblock accounts", block, unblock)
}

// spanAhead are --for and --until.
func spanAhead(cmd *cobra.Command, what string) {
	cmd.Flags().Duration("for", 0, "time "+what+", such as 10m")
	cmd.Flags().String("until", "", "the end, such as 2026-01-02T15:04:05Z")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
}

// endOfSpan reads them; nil: neither was given.
func (p *Program) endOfSpan(cmd *cobra.Command) (*time.Time, error) {
	if cmd.Flags().Lookup("for") == nil {
		return nil, nil
	}
	if cmd.Flags().Changed("for") {
		d, _ := cmd.Flags().GetDuration("for")
		if d <= 0 {
			return nil, usagef("--for: must be positive")
		}
		at := p.Now().Add(d).UTC()
		return &at, nil
	}
	if !cmd.Flags().Changed("until") {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, flag(cmd, "until"))
	if err != nil {
		return nil, usagef("--until: %q is not a time such as 2026-01-02T15:04:05Z", flag(cmd, "until"))
	}
	if !at.After(p.Now()) {
		return nil, usagef("--until: %s is over", flag(cmd, "until"))
	}
	return &at, nil
}

func (p *Program) force(cmd *cobra.Command, id, action string) error {
	until, err := p.endOfSpan(cmd)
	if err != nil {
		return err
	}
	wish := admin.BreakerRequest{Action: action, Until: until, Account: flag(cmd, "account"), Model: flag(cmd, "model")}
	if (wish.Account == "") != (wish.Model == "") {
		return usagef("--account and --model go together")
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var status actors.UpstreamStatus
	if err := c.doWith(cmd.Context(), http.MethodPost, catalog.KindUpstream, id, "/breaker", wish, &status); err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []actors.UpstreamStatus{status})
	}
	b := &status.Breaker
	for i := range status.Breakers {
		if is := &status.Breakers[i]; wish.Account != "" && is.Account == wish.Account && is.Model == wish.Model {
			b = is
		}
	}
	_, err = fmt.Fprintln(p.Stdout, breakerName(id, b)+" is "+breakerState(b))
	return errors.Wrap(err, "write output")
}

func (p *Program) blockAccount(cmd *cobra.Command, args []string) error {
	until, err := p.endOfSpan(cmd)
	if err != nil {
		return err
	}
	if until == nil {
		return errors.WithHint(usagef("account block takes --for 10m or --until TIME"),
			"to take an account out of service for good, apply it with active: false")
	}
	if err := p.setBlock(cmd, args[0], until); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "account %s is blocked until %s\n", args[0], until.Format(time.RFC3339))
	return errors.Wrap(err, "write output")
}

func (p *Program) unblockAccount(cmd *cobra.Command, args []string) error {
	if err := p.setBlock(cmd, args[0], nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.Stdout, "account %s is not blocked\n", args[0])
	return errors.Wrap(err, "write output")
}

func (p *Program) setBlock(cmd *cobra.Command, id string, until *time.Time) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	wish := map[string]*time.Time{"until": until}
	return c.doWith(cmd.Context(), http.MethodPost, catalog.KindAccount, id, "/block", wish, nil)
}

func breakerName(upstream string, b *actors.BreakerStatus) string {
	if b.Account == "" && b.Model == "" {
		return "breaker of " + upstream
	}
	return fmt.Sprintf("breaker of %s at %s of %s", cmp.Or(b.Model, "no model"), b.Account, upstream)
}

func breakerState(b *actors.BreakerStatus) string {
	s := b.State.String()
	if b.Until != nil {
		s += " until " + clock(*b.Until)
	}
	return s
}
