package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/domain/money"
	statement "github.com/penstock/penstock/projections/ledger"
)

func (p *Program) statementCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "statement USER | --key KEY", Short: "Show what was booked and used, by day of posting, and what that makes of the balance", RunE: p.statement,
		Long: `Show what was booked for a user, one by one, and what it has used, by day and key; or what one key has used, by day and model.
It is by day of posting, in UTC: what a later price changes stands on the day of the repricing, and changes no day before it.
penstock bill is by day of use.
A line of usage or repricing says who PAID: the balance, a subscription, or nobody yet (users and keys that need no credit). COST is what
was charged, CHANGES what that or a credit does to the BALANCE; subscriptions do not touch it.`}
	addServer(cmd)
	jsonFlag(cmd)
	const forms = ": a day (2026-01-31, UTC), a month (2026-01) or how many days ago (30d)"
	cmd.Flags().String("key", "", "of this key instead of a user")
	cmd.Flags().String("since", "", "from"+forms)
	cmd.Flags().String("until", "", "until"+forms+", exclusive")
	cmd.Flags().String("group", "day", "gather what was used by day or month")
	cmd.Flags().Bool("csv", false, "CSV, with a header")
	return cmd
}

func (p *Program) statement(cmd *cobra.Command, args []string) error {
	q := statement.Query{Key: flag(cmd, "key"), Group: flag(cmd, "group")}
	switch {
	case len(args) > 1 || len(args) == 1 && q.Key != "" || len(args) == 0 && q.Key == "":
		return usagef("statement takes USER or --key KEY")
	case len(args) == 1:
		q.User = args[0]
	}
	if on(cmd, "csv") && on(cmd, "json") {
		return usagef("--csv: cannot stand beside --json")
	}
	var err error
	if q.Since, err = p.day(cmd, "since"); err != nil {
		return err
	}
	if q.Until, err = p.day(cmd, "until"); err != nil {
		return err
	}
	if err := q.Check(); err != nil {
		return usage(err)
	}
	from, done, err := p.source(cmd)
	if err != nil {
		return err
	}
	defer done()
	s, err := from.Statement(cmd.Context(), q)
	switch {
	case err != nil:
		return err
	case on(cmd, "json"):
		return jsonLines(p.Stdout, []*statement.Statement{s})
	case on(cmd, "csv"):
		return statementCSV(p.Stdout, s)
	}
	return statementText(p.Stdout, s)
}

// day reads a flag that names a day.
func (p *Program) day(cmd *cobra.Command, name string) (time.Time, error) {
	text := flag(cmd, name)
	if n, ok := daysAgo(text); ok {
		return p.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -n), nil
	}
	day, err := statement.ParseDay(name, text)
	if err != nil {
		return day, usagef("--%s: %q is not a day (2026-01-31), a month (2026-01) or how many days ago (30d)", name, text)
	}
	return day, nil
}

// trial shows the double-entry books.
func (p *Program) trial(cmd *cobra.Command) error {
	from, done, err := p.source(cmd)
	if err != nil {
		return err
	}
	defer done()
	trial, err := from.Trial(cmd.Context(), time.Time{}, time.Time{})
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []*statement.Trial{trial})
	}
	t := newTable(p.Stdout, "ACCOUNT", "USD")
	for _, a := range trial.Accounts {
		t.row(a.Account, a.Amount.String())
	}
	t.row("all accounts together", trial.Sum.String())
	return t.end()
}

// dayText is a day in a query, "" for none.
func dayText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

func (c *client) Trial(ctx context.Context, since, until time.Time) (*statement.Trial, error) {
	var trial statement.Trial
	err := c.do(ctx, http.MethodGet, "/api/v1/ledger/trial"+query("since", dayText(since), "until", dayText(until)), nil, &trial)
	return &trial, err
}

func (c *client) Statement(ctx context.Context, q statement.Query) (*statement.Statement, error) {
	var s statement.Statement
	err := c.do(ctx, http.MethodGet, "/api/v1/statements"+query("user", q.User, "key", q.Key, "since", dayText(q.Since), "until", dayText(q.Until), "group", q.Group), nil, &s)
	var refused *problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil, errors.Newf("nothing was ever posted for %s, and it does not exist", whose(q.User, q.Key))
	}
	return &s, err
}

func (s stopped) Trial(ctx context.Context, since, until time.Time) (*statement.Trial, error) {
	return s.data.Trial(ctx, since, until)
}

func (s stopped) Statement(ctx context.Context, q statement.Query) (*statement.Statement, error) {
	return s.data.Statement(ctx, q)
}

func whose(user, key string) string {
	if key != "" {
		return "key " + key
	}
	return "user " + user
}

// amountCell is an amount in a table, "" for none.
func amountCell(a *money.Amount) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// payer is who paid, for people.
func payer(l *statement.Line) string {
	if l.Cost == nil {
		return ""
	}
	if l.PaidBy == "" {
		return "nobody yet"
	}
	return l.PaidBy
}

func statementText(w io.Writer, s *statement.Statement) error {
	title := "statement of " + plain(whose(s.User, s.Key))
	if s.Since != "" {
		title += ", from " + s.Since
	}
	if s.Until != "" {
		title += ", before " + s.Until
	}
	fmt.Fprintln(w, title+"; days are in UTC, amounts in USD")
	if s.Opening != nil {
		fmt.Fprintf(w, "balance before: %s\n", s.Opening)
	}
	if len(s.Lines) > 0 {
		if err := statementTable(w, s); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(w, "nothing was posted")
	}
	if s.Closing != nil {
		fmt.Fprintf(w, "balance after: %s\n", s.Closing)
	}
	t := &s.Totals
	fmt.Fprintf(w, "used: %s for %d requests in %d attempts\n", t.Cost, t.Requests, t.Attempts)
	for i := range t.PaidBy {
		fmt.Fprintf(w, "  paid by %s: %s\n", plain(payer(&statement.Line{PaidBy: t.PaidBy[i].PaidBy, Cost: &t.PaidBy[i].Cost})), t.PaidBy[i].Cost)
	}
	return nil
}

func statementTable(w io.Writer, s *statement.Statement) error {
	of := "KEY"
	if s.Key != "" {
		of = "MODEL"
	}
	heads := []string{"DAY", "WHAT", of, "PAID BY", "REQUESTS", "ATTEMPTS", "COST"}
	if s.Opening != nil {
		heads = append(heads, "CHANGES", "BALANCE")
	}
	t := newTable(w, append(heads, "NOTE")...)
	for i := range s.Lines {
		l := &s.Lines[i]
		what, note := string(l.Kind)+" "+l.ID, l.Note
		switch {
		case l.Kind == statement.Repricing:
			note = "of what was used " + usedOn(l.UsedFirst, l.UsedLast)
		case l.Subscription != nil:
			note = strings.TrimSuffix(limits(l)+"; "+note, "; ")
		}
		cells := []string{l.Day, strings.TrimSpace(what), l.Key + l.Model, payer(l), count(l.Requests), count(l.Attempts), amountCell(l.Cost)}
		if s.Opening != nil {
			cells = append(cells, amountCell(l.Amount), amountCell(l.Balance))
		}
		t.row(append(cells, note)...)
	}
	return t.end()
}

// limits are the windows of a granted subscription, and where and until when they hold.
func limits(l *statement.Line) string {
	var list []string
	for i, a := range []money.Amount{l.Subscription.Daily, l.Subscription.Weekly, l.Subscription.Monthly} {
		if a != 0 {
			list = append(list, windows[i].name+" "+a.String())
		}
	}
	if l.Subscription.Group != "" {
		list = append(list, "for keys of group "+l.Subscription.Group)
	}
	if !l.Subscription.Expires.IsZero() {
		list = append(list, "until "+l.Subscription.Expires.UTC().Format(time.DateTime))
	}
	return strings.Join(list, ", ")
}

func usedOn(first, last string) string {
	if first == last {
		return "on " + first
	}
	return "from " + first + " to " + last
}

// count is a number in a table, "" for 0.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// statementColumns is the header of the CSV. Columns may be added behind the last one.
var statementColumns = []string{"day", "at", "kind", "id", "key", "model", "paid_by", "used_first", "used_last", "requests", "attempts",
	"cost", "amount", "balance", "note"}

// statementCSV writes RFC 4180. Where something lives on a balance, the first row is what it was and the last one what it is.
func statementCSV(w io.Writer, s *statement.Statement) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	row := func(cells ...string) { _ = out.Write(cells) } // the writer keeps its error
	border := func(kind, day string, balance *money.Amount) {
		if balance != nil {
			row(day, "", kind, "", "", "", "", "", "", "", "", "", "", balance.String(), "")
		}
	}
	row(statementColumns...)
	border("opening", s.Since, s.Opening)
	for i := range s.Lines {
		l := &s.Lines[i]
		at := ""
		if l.At != nil {
			at = l.At.UTC().Format(time.RFC3339Nano)
		}
		row(l.Day, at, string(l.Kind), inert(l.ID), inert(l.Key), inert(l.Model), inert(l.PaidBy), l.UsedFirst, l.UsedLast, count(l.Requests),
			count(l.Attempts), amountCell(l.Cost), amountCell(l.Amount), amountCell(l.Balance), inert(l.Note))
	}
	border("closing", s.Until, s.Closing)
	out.Flush()
	return errors.Wrap(out.Error(), "write output")
}

// inert is a text that no spreadsheet takes for a formula, and that drives no terminal: one that begins like a formula gets an
// apostrophe in front.
func inert(text string) string {
	text = plain(text)
	if strings.IndexAny(strings.TrimLeft(text, " \u00a0\u3000\ufeff"), "=+-@＝＋－＠") == 0 {
		return "'" + text
	}
	return text
}
