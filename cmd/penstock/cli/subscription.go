package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) subscriptionCommand() *cobra.Command {
	grant := &cobra.Command{Use: "grant USER --id ID", Short: "Give a user a subscription, or change the one of that id",
		Long: `Give a user a subscription that pays for its requests, within at least one of --daily, --weekly and --monthly.
Granted once more under the same id it is changed to what is said then: a window, group or end that is left out is gone, only --starts
stays; what was spent in windows that stay is kept.`,
		Args: exactly("USER"), RunE: p.grant}
	addServer(grant)
	jsonFlag(grant)
	grant.Flags().String("id", "", "id of the subscription")
	grant.Flags().String("group", "", "only for keys of this group")
	for _, window := range windows {
		grant.Flags().String(window.name, "", "USD in each window of "+window.length)
	}
	grant.Flags().String("starts", "", "when its windows begin: a time (2026-01-31T12:00:00Z) or a day (2026-01-31, UTC); default as it is, or now")
	grant.Flags().String("expires", "", "when it ends: such a time, or so long from now (720h); default never")
	grant.Flags().Bool("overflow", false, "the balance pays what it has no room for")
	grant.Flags().String("note", "", "what for")
	revoke := &cobra.Command{Use: "revoke USER ID", Short: "End a subscription; the next request lives without it", Args: exactly("USER", "ID"), RunE: p.revoke}
	addServer(revoke)
	jsonFlag(revoke)
	revoke.Flags().String("note", "", "what for")
	return group("subscription", "Give subscriptions to users, and end them; penstock balance USER shows them", grant, revoke)
}

// windows are those of a subscription.
var windows = [...]struct{ name, length string }{{"daily", "24 hours"}, {"weekly", "7 days"}, {"monthly", "30 days"}}

func (p *Program) grant(cmd *cobra.Command, args []string) error {
	id := flag(cmd, "id")
	if id == "" {
		return usagef("subscription grant takes USER --id ID")
	}
	wanted := admin.Granting{Group: flag(cmd, "group"), Daily: flag(cmd, "daily"), Weekly: flag(cmd, "weekly"), Monthly: flag(cmd, "monthly"),
		Overflow: on(cmd, "overflow"), Note: flag(cmd, "note")}
	for _, window := range windows {
		if text := flag(cmd, window.name); text != "" {
			if err := amountFlag("--"+window.name, text); err != nil {
				return err
			}
		}
	}
	var err error
	if wanted.Starts, err = timeOf(flag(cmd, "starts"), time.Time{}); err != nil {
		return usagef("--starts: %v", err)
	}
	if wanted.Expires, err = timeOf(flag(cmd, "expires"), p.Now()); err != nil {
		return usagef("--expires: %v", err)
	}
	return p.subscribe(cmd, http.MethodPut, args[0], id, "", wanted, "is in force")
}

// timeOf is a time, a day, or a time after now unless that is zero; "" is the zero time.
func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 && !now.IsZero() {
		return now.Add(d).UTC().Truncate(time.Second), nil
	}
	if now.IsZero() {
		return time.Time{}, errors.Newf("%q is neither a time nor a day", text)
	}
	return time.Time{}, errors.Newf("%q is not a time, a day or how long from now", text)
}

func (p *Program) revoke(cmd *cobra.Command, args []string) error {
	return p.subscribe(cmd, http.MethodDelete, args[0], args[1], query("note", flag(cmd, "note")), nil, "has ended")
}

func (p *Program) subscribe(cmd *cobra.Command, method, user, id, more string, wanted any, verdict string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var done admin.Granted
	path := resourcePath(catalog.KindUser, user) + "/subscriptions/" + url.PathEscape(id) + more
	if err := c.do(cmd.Context(), method, path, wanted, &done); err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []admin.Granted{done})
	}
	if done.Again {
		verdict += "; it was so before: nothing was booked now"
	}
	fmt.Fprintf(p.Stdout, "user %s: subscription %s %s (position %d)\n", done.User, done.ID, verdict, done.Position)
	if done.Subscription != nil {
		p.printSubscription(done.Subscription)
	}
	return nil
}

func (p *Program) printSubscription(s *actors.SubscriptionStatus) {
	w := p.Stdout
	notes := []string{"not in force"}
	if s.InForce {
		notes[0] = "in force"
	}
	if s.Group != "" {
		notes = append(notes, "for keys of group "+plain(s.Group))
	}
	notes = append(notes, "from "+clock(s.Starts))
	if !s.Expires.IsZero() {
		notes = append(notes, "until "+clock(s.Expires))
	}
	if s.Overflow {
		notes = append(notes, "the balance pays what it has no room for")
	}
	fmt.Fprintf(w, "subscription %s: %s\n", plain(s.ID), strings.Join(notes, ", "))
	for i := range s.Windows {
		x := &s.Windows[i]
		reset := ""
		if !x.ResetsAt.IsZero() {
			reset = ", begins anew at " + clock(x.ResetsAt)
		}
		fmt.Fprintf(w, "  %-8s %s of %s USD spent, %s set aside%s\n", strings.ToLower(x.Period), x.Spent, x.Limit, x.Reserved, reset)
	}
}
