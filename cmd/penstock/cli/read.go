package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
)

func (p *Program) logsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "logs", Short: "Show the request log, newest first", Args: cobra.NoArgs, RunE: p.logs}
	addServer(cmd)
	timeFlags(cmd)
	limitFlag(cmd, "requests")
	jsonFlag(cmd)
	cmd.Flags().String("key", "", "id of an API key")
	cmd.Flags().String("outcome", "", "completed, failed, rejected, cancelled or abandoned")
	cmd.Flags().String("model", "", "as asked for or as resolved")
	cmd.Flags().String("upstream", "", "of the last attempt")
	return cmd
}

func (p *Program) logs(cmd *cobra.Command, _ []string) error {
	since, until, err := p.span(cmd)
	if err != nil {
		return err
	}
	n, err := limit(cmd)
	if err != nil {
		return err
	}
	q := requestlog.Query{Since: since, Until: until, Key: flag(cmd, "key"), Outcome: flag(cmd, "outcome"),
		Model: flag(cmd, "model"), Upstream: flag(cmd, "upstream")}
	if err := q.Check(); err != nil {
		return usage(err)
	}
	q.Limit = n
	from, done, err := p.source(cmd)
	if err != nil {
		return err
	}
	defer done()
	entries, err := from.Logs(cmd.Context(), q)
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, entries)
	}
	t := newTable(p.Stdout, "AT", "REQUEST", "KEY", "MODEL", "UPSTREAM", "STATUS", "OUTCOME", "TRIES", "TTFT", "TOOK", "IN", "OUT", "USD")
	for i := range entries {
		t.row(logCells(&entries[i])...)
	}
	return t.end()
}

func logCells(e *requestlog.Entry) []string {
	outcome, status := e.Outcome, ""
	if e.State == requestlog.InProgress {
		outcome = string(e.State)
	} else if e.Status != 0 { // a process that died answered nobody
		status = strconv.Itoa(e.Status)
	}
	if e.Code != "" {
		outcome += " " + e.Code
	}
	cost := e.Cost.String()
	if e.Unpriced {
		cost = "unpriced"
	}
	return []string{clock(e.At), e.RequestID, e.Key, cmp.Or(e.ResolvedModel, e.Model), e.Upstream, status, outcome,
		strconv.Itoa(len(e.Attempts)), millis(e.TTFTMS), millis(e.DurationMS),
		strconv.FormatInt(e.Usage.InputTotal(), 10), strconv.FormatInt(e.Usage.OutputTotal(), 10), cost}
}

func (p *Program) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "events", Short: "Show facts of the event store", Args: cobra.NoArgs, RunE: p.events}
	addServer(cmd)
	timeFlags(cmd)
	limitFlag(cmd, "appends, whose facts stay together")
	jsonFlag(cmd)
	cmd.Flags().String("type", "", "name of a fact, such as request.settled; with --follow also globs, several with commas")
	cmd.Flags().String("stream", "", "such as request/ID or catalog/key/ID")
	cmd.Flags().String("request", "", "id of a request")
	cmd.Flags().String("key", "", "id of an API key")
	cmd.Flags().String("upstream", "", "id of an upstream")
	cmd.Flags().String("text", "", "part of the JSON of a fact, such as a code or an id; it is searched for, within the other filters")
	cmd.Flags().Int64("after", 0, "only after this position")
	cmd.Flags().Bool("newest", false, "newest first")
	cmd.Flags().Bool("follow", false, "show what is stored from now on, or from --since or --after on, and wait for more")
	return cmd
}

func (p *Program) events(cmd *cobra.Command, _ []string) error {
	if on(cmd, "follow") {
		return p.follow(cmd)
	}
	since, until, err := p.span(cmd)
	if err != nil {
		return err
	}
	n, err := limit(cmd)
	if err != nil {
		return err
	}
	after, _ := cmd.Flags().GetInt64("after")
	q := events.Query{Stream: flag(cmd, "stream"), Request: flag(cmd, "request"), Key: flag(cmd, "key"),
		Upstream: flag(cmd, "upstream"), Type: flag(cmd, "type"), Text: flag(cmd, "text"), Since: since, Until: until,
		After: events.Position(after), Newest: on(cmd, "newest"), Limit: n}
	if q.Type != "" && !known(events.Names(), q.Type) {
		return usagef("--type: there is no event %q; there are %s", q.Type, strings.Join(events.Names(), ", "))
	}
	if err := admin.CheckText(q.Text); err != nil {
		return usagef("--text: %v", err)
	}
	from, done, err := p.source(cmd)
	if err != nil {
		return err
	}
	defer done()
	found, removed, err := from.Events(cmd.Context(), q)
	if err != nil {
		return err
	}
	p.mention(removed)
	if on(cmd, "json") {
		return jsonLines(p.Stdout, found)
	}
	t := newTable(p.Stdout, "POSITION", "AT", "TYPE", "STREAM", "DATA")
	for _, e := range found {
		t.row(strconv.FormatInt(int64(e.Position), 10), clock(e.At), e.Type, e.Stream, string(e.Data))
	}
	return t.end()
}

// mention says beside what is shown that more was there once.
func (p *Program) mention(removed *admin.Absent) {
	if removed == nil {
		return
	}
	days := removed.FirstDay
	if removed.LastDay != days {
		days += " to " + removed.LastDay
	}
	fmt.Fprintf(p.Stderr, "penstock: retention has removed events of requests of %s, up to position %d; they are in the archive of their day, if one was asked for\n",
		days, removed.Through)
}

func known(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func (p *Program) billCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bill", Short: "Sum up what was billed, by day of use", Args: cobra.NoArgs, RunE: p.bill}
	addServer(cmd)
	timeFlags(cmd)
	jsonFlag(cmd)
	cmd.Flags().StringSlice("by", nil, "group by "+strings.Join(billing.Dimensions, ", ")+"; several with commas")
	cmd.Flags().String("as-of", "", "the books as they stood then: a position, or a time as for --since")
	return cmd
}

func (p *Program) bill(cmd *cobra.Command, _ []string) error {
	since, until, err := p.span(cmd)
	if err != nil {
		return err
	}
	by, _ := cmd.Flags().GetStringSlice("by")
	q := billing.Query{By: by, Since: since, Until: until}
	if err := p.moment(cmd, "as-of", &q); err != nil {
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
	lines, err := from.Bill(cmd.Context(), q)
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, lines)
	}
	return p.billTable(lines, by)
}

// moment reads a flag that says which books are meant.
func (p *Program) moment(cmd *cobra.Command, name string, q *billing.Query) (err error) {
	text := flag(cmd, name)
	if q.ParseAsOf(text) == nil {
		return nil
	}
	if q.AsOfTime, err = when(text, p.Now()); err != nil || text == "0" { // no position, and not the books of now either
		return usagef("--%s: %q is neither a position nor a time", name, text)
	}
	return nil
}

func (p *Program) billTable(lines []billing.Line, by []string) error {
	var heads []string
	for _, dimension := range by {
		heads = append(heads, strings.ToUpper(dimension))
	}
	var total pricing.Usage
	for i := range lines {
		total = total.Plus(lines[i].Usage)
	}
	heads = append(heads, "REQUESTS", "ATTEMPTS", "IN", "CACHED", "OUT")
	var shown []int // of the classes that few bills have
	for i, c := range classes(&total) {
		if c.n > 0 {
			heads, shown = append(heads, strings.ToUpper(c.name)), append(shown, i)
		}
	}
	t := newTable(p.Stdout, append(heads, "USD", "UPSTREAM USD", "UNPRICED")...)
	for i := range lines {
		t.row(billCells(&lines[i], by, shown)...)
	}
	return t.end()
}

func billCells(l *billing.Line, by []string, shown []int) []string {
	fields := map[string]*string{"day": l.Day, "key": l.Key, "user": l.User, "group": l.Group, "model": l.Model,
		"upstream": l.Upstream, "account": l.Account, "price_version": l.PriceVersion, "price_origin": l.PriceOrigin, "paid_by": l.PaidBy}
	var cells []string
	for _, dimension := range by {
		cell := ""
		if value := fields[dimension]; value != nil {
			cell = *value
		}
		cells = append(cells, cell)
	}
	cells = append(cells, strconv.FormatInt(l.Requests, 10), strconv.FormatInt(l.Attempts, 10),
		strconv.FormatInt(l.Usage.InputTotal(), 10), strconv.FormatInt(l.Usage.CachedInput, 10), strconv.FormatInt(l.Usage.OutputTotal(), 10))
	all := classes(&l.Usage)
	for _, i := range shown {
		cells = append(cells, strconv.FormatInt(all[i].n, 10))
	}
	return append(cells, l.Cost.String(), l.UpstreamCost.String(), strconv.FormatInt(l.UnpricedRequests, 10))
}
