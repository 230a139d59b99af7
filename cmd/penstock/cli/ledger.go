package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) creditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "credit USER AMOUNT", Short: "Put money on a user's balance, or correct it", RunE: p.credit,
		Long: `Put money on a user's balance: credit ann 50
Correct it, either way:          credit ann --adjust=-5.00 --note "billed twice"
From the first credit on, the user lives on its balance: when that is used up, its requests are refused. A user whose budget is set
(strict or postpaid) does from the start.
A booking has an id and is booked once, however often the command is repeated with the same --id.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch adjusts := cmd.Flags().Changed("adjust"); {
			case adjusts && len(args) == 2:
				return usagef("--adjust: says the amount already")
			case adjusts && len(args) == 1, len(args) == 2:
				return given(args, "USER", "AMOUNT")
			}
			return usagef("credit takes USER AMOUNT, or USER --adjust=AMOUNT --note WHY")
		}}
	addServer(cmd)
	jsonFlag(cmd)
	cmd.Flags().String("adjust", "", "correct the balance by so many USD instead, such as -5.00")
	cmd.Flags().String("id", "", "id of the booking (default a new one)")
	cmd.Flags().String("note", "", "what for; a correction needs one")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usage(errors.WithHint(err, "to take money away: penstock credit USER --adjust=-5.00 --note WHY"))
	})
	return cmd
}

func (p *Program) credit(cmd *cobra.Command, args []string) error {
	kind, verb, name, amount := "adjustments", "adjusted by", "--adjust", flag(cmd, "adjust")
	if !cmd.Flags().Changed("adjust") {
		kind, verb, name, amount = "credits", "credited", "amount", args[1]
	}
	booking := admin.Booking{ID: flag(cmd, "id"), Amount: amount, Note: flag(cmd, "note")}
	if err := amountFlag(name, amount); err != nil {
		return err
	}
	if booking.ID == "" {
		booking.ID = uuid.Must(uuid.NewV7()).String()
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var done admin.Booked
	if err := c.doWith(cmd.Context(), http.MethodPost, catalog.KindUser, args[0], "/"+kind, booking, &done); err != nil {
		return repeatable(err, booking.ID)
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []admin.Booked{done})
	}
	how := fmt.Sprintf("booking %s, position %d", done.ID, done.Position)
	if done.Again {
		how += "; it was booked before: nothing was booked now"
	}
	fmt.Fprintf(p.Stdout, "user %s: %s %s USD (%s)\n", done.User, verb, done.Amount, how)
	account, err := c.balanceOf(cmd.Context(), args[0])
	if err != nil {
		return errors.Wrap(err, "it is booked, but the balance can not be shown")
	}
	_, err = fmt.Fprintf(p.Stdout, "balance  %s USD\n", account.Credited-account.Spent)
	return errors.Wrap(err, "write output")
}

// repeatable says how to repeat a booking of which nobody knows whether it was booked.
func repeatable(err error, id string) error {
	var refused *problem
	if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
		return err
	}
	var nobody *unreachableError
	if errors.As(err, &nobody) || refused != nil {
		return errors.WithHint(err, "it may be booked all the same; repeat the command with --id "+id+", which books it once")
	}
	return err
}

func (c *client) balanceOf(ctx context.Context, user string) (account actors.AccountView, err error) {
	err = c.doWith(ctx, http.MethodGet, catalog.KindUser, user, "/balance", nil, &account)
	return account, err
}

// balances follows the pages.
func (c *client) balances(ctx context.Context) (all []actors.AccountView, err error) {
	for after := ""; ; {
		var page admin.BalancePage
		if err := c.do(ctx, http.MethodGet, "/api/v1/balances"+query("limit", "1000", "after", after), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}

func (p *Program) balanceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "balance [USER]", Short: "Show what users were given, have spent and have left", RunE: p.balance,
		Long: `Show what users were given (credits and adjustments), have spent of it, and have left for the next request: what is not spent, less
what is set aside for requests that are running, plus the overdraft.
With --books: the sums of all accounts that anything was ever posted to, also of a stopped gateway. Above zero is what users have
(balance/USER), what upstreams are owed (payable/UPSTREAM) and what callers were charged (revenue); below zero is where that came
from: credits and adjustments, what upstreams cost (cost/UPSTREAM), what subscriptions have paid (subscription/USER/ID), and what callers
without either owe (owed/USER, owed/key/KEY).
Every posting has two sides, so that all accounts together are 0.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && on(cmd, "books") {
				return usagef("balance takes [USER], or --books")
			}
			return given(args, "USER")
		}}
	addServer(cmd)
	jsonFlag(cmd)
	cmd.Flags().Bool("books", false, "show every account of the double-entry books, and that they sum to zero")
	return cmd
}

func (p *Program) balance(cmd *cobra.Command, args []string) error {
	if on(cmd, "books") {
		return p.trial(cmd)
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	all := make([]actors.AccountView, 1)
	if len(args) == 1 {
		all[0], err = c.balanceOf(cmd.Context(), args[0])
	} else {
		all, err = c.balances(cmd.Context())
	}
	switch {
	case err != nil:
		return err
	case on(cmd, "json"):
		return jsonLines(p.Stdout, all)
	case len(args) == 1:
		return p.printAccount(&all[0])
	}
	t := newTable(p.Stdout, "USER", "BALANCE", "CREDITED", "SPENT", "SET ASIDE", "OVERDRAFT", "LEFT", "SUBSCRIPTIONS")
	for i := range all {
		a := &all[i]
		var subscriptions []string
		for _, s := range a.Subscriptions {
			subscriptions = append(subscriptions, s.ID)
		}
		cells := []string{a.User, "none", "", "", "", "", "", strings.Join(subscriptions, ", ")}
		if a.OnBalance {
			cells = []string{a.User, (a.Credited - a.Spent).String(), a.Credited.String(), a.Spent.String(), a.Reserved.String(),
				a.Overdraft.String(), a.Left.String(), strings.Join(subscriptions, ", ")}
		}
		t.row(cells...)
	}
	return t.end()
}

func (p *Program) printAccount(a *actors.AccountView) error {
	w := p.Stdout
	fmt.Fprintf(w, "user %s, %d requests running, money is kept %s\n", plain(a.User), a.Running, plain(a.Budget))
	if a.OnBalance {
		fmt.Fprintf(w, "balance  %s USD: %s credited and adjusted, %s spent\n", a.Credited-a.Spent, a.Credited, a.Spent)
		fmt.Fprintf(w, "left     %s USD for the next request: %s set aside for those that run, %s of overdraft\n", a.Left, a.Reserved, a.Overdraft)
	} else {
		fmt.Fprintln(w, "balance  none: it does not live on one; the first penstock credit changes that")
	}
	for i := range a.Subscriptions {
		p.printSubscription(&a.Subscriptions[i])
	}
	return nil
}
