package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

func (p *Program) explainCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "explain REQUEST_ID", Short: "Tell the whole story of one request",
		Args: exactly("REQUEST_ID"), RunE: p.explain}
	addServer(cmd)
	jsonFlag(cmd)
	return cmd
}

func (p *Program) explain(cmd *cobra.Command, args []string) error {
	from, done, err := p.source(cmd)
	if err != nil {
		return err
	}
	defer done()
	story, err := from.Explain(cmd.Context(), args[0])
	var refused *problem
	if errors.Is(err, admin.ErrNotFound) || errors.As(err, &refused) && refused.Status == 404 {
		return errors.Newf("there is no request %s", args[0])
	}
	if err != nil {
		return err
	}
	p.mention(story.Removed)
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []*admin.Story{story})
	}
	return tell(p.Stdout, story)
}

// tell writes a story as a timeline: one line per fact, with the time since the first.
func tell(w io.Writer, story *admin.Story) error {
	if e := story.Request; e != nil {
		fmt.Fprintf(w, "request %s\n", e.RequestID)
		line(w, "at", e.At.Format(time.RFC3339Nano))
		line(w, "asked", strings.Join(filled(e.Method, e.Path, e.Model, "("+e.Dialect+")"), " "))
		line(w, "by", strings.Join(filled(labelled("key", e.Key), labelled("user", e.User), labelled("group", e.Group), labelled("client", e.Client)), ", "))
	}
	var start time.Time
	for i, e := range story.Events {
		if i == 0 {
			start = e.At
		}
		what, err := sentence(e)
		if err != nil {
			return err
		}
		name := e.Type[strings.LastIndexByte(e.Type, '.')+1:]
		fmt.Fprintf(w, "  %9s  %-10s  %s\n", "+"+took(e.At.Sub(start).Microseconds()), name, plain(what))
	}
	if e := story.Request; e != nil && e.DurationMS != nil {
		fmt.Fprintf(w, "  total: %s, %d in, %d out%s, %s USD", millis(e.DurationMS), e.Usage.InputTotal(), e.Usage.OutputTotal(), besides(e.Usage), e.Cost)
		if e.Unpriced {
			fmt.Fprint(w, " (unpriced)")
		}
		fmt.Fprintln(w)
	}
	return nil
}

func line(w io.Writer, name, value string) {
	if value != "" {
		fmt.Fprintf(w, "  %-6s %s\n", name, plain(value))
	}
}

// filled leaves out what is empty.
func filled(parts ...string) []string {
	var all []string
	for _, part := range parts {
		if part != "" && part != "()" {
			all = append(all, part)
		}
	}
	return all
}

func labelled(label, value string) string {
	if value == "" {
		return ""
	}
	return label + " " + value
}

// sentence says what one fact says. A fact that this version has no words for is shown as it is.
func sentence(e admin.Event) (string, error) {
	payload := append(append([]byte{'['}, e.Data...), ']')
	types := e.Type
	if e.Schema > 1 {
		types = fmt.Sprintf("%s@%d", e.Type, e.Schema)
	}
	facts, err := events.Decode(types, payload)
	if err != nil {
		if json.Valid(e.Data) {
			return string(e.Data), nil
		}
		return "", errors.Wrapf(err, "read event at position %d", e.Position)
	}
	switch f := facts[0].(type) {
	case *request.Rejected:
		return sayRejected(f), nil
	case *request.Admitted:
		return sayAdmitted(f), nil
	case *request.Queued:
		return fmt.Sprintf("waits at %s, place %d, ticket %d, until %s", strings.Join(f.Upstreams, ", "), f.Position, f.Ticket,
			f.Deadline.UTC().Format("15:04:05 UTC")), nil
	case *request.Resumed:
		return fmt.Sprintf("%s has a free slot after %s", f.Upstream, took(f.WaitedUS)), nil
	case *request.Dispatched:
		return sayDispatched(f), nil
	case *request.Failed:
		return sayFailed(f), nil
	case *request.Progressed:
		return fmt.Sprintf("attempt %d goes on: %s (%s)", f.N, tokens(f.Usage), f.UsageSource), nil
	case *request.Settled:
		return saySettled(f), nil
	case *request.Repriced:
		return sayRepriced(f), nil
	}
	return string(e.Data), nil
}

func sayRejected(f *request.Rejected) string {
	return strings.Join(filled(fmt.Sprintf("%d %s at %s", f.Status, f.Code, f.Stage), f.Reason, leftOut(f.Excluded)), "; ")
}

func sayAdmitted(f *request.Admitted) string {
	var plan []string
	for _, c := range f.Plan {
		plan = append(plan, strings.Join(filled(c.Upstream, fmt.Sprintf("(tier %d%s)", c.Tier, prefixed(", ", c.Why))), " "))
	}
	return strings.Join(filled("plan: "+strings.Join(plan, ", then "), leftOut(f.Excluded), labelled("session:", f.Affinity), prefixed("paid by ", f.PaidBy)), "; ")
}

func leftOut(excluded []request.Exclusion) string {
	var all []string
	for _, x := range excluded {
		who, until := x.Upstream, ""
		if x.Account != "" {
			who += "/" + x.Account
		}
		if !x.Until.IsZero() {
			until = " until " + x.Until.UTC().Format("15:04:05 UTC")
		}
		all = append(all, who+" ("+x.Reason+until+")")
	}
	return labelled("left out:", strings.Join(all, ", "))
}

func sayDispatched(f *request.Dispatched) string {
	probe := ""
	if f.Probe {
		probe = "probe of a half-open breaker"
	}
	return strings.Join(filled(fmt.Sprintf("attempt %d to %s", f.N, f.Upstream)+prefixed(" with ", f.Account), f.Why,
		labelled("resolved model", f.ResolvedModel), labelled("sent as", f.UpstreamModel), probe), ", ")
}

func sayFailed(f *request.Failed) string {
	status, counted := "", ""
	if f.UpstreamStatus != 0 {
		status = fmt.Sprintf("status %d", f.UpstreamStatus)
	}
	if f.Counted {
		counted = "counted by the breaker"
	}
	return strings.Join(filled(fmt.Sprintf("attempt %d: %s after %s", f.N, f.Class, took(f.TookUS)), status,
		labelled("next:", f.Next), counted, spent(f.Usage, f.Cost, f.UpstreamCost)+prefixed(" by price ", version(f.PriceVersion, f.PriceOrigin)),
		odd(f.ServiceTier, f.Inherited, f.Clamped), unpriced(f.Unpriced, f.UnpricedReason), f.Evidence), ", ")
}

func saySettled(f *request.Settled) string {
	gone := ""
	if f.ClientGone {
		gone = "the client had gone" + prefixed(", policy ", f.OnDisconnect)
	}
	ttft := ""
	if f.TTFTUS > 0 {
		ttft = "first content after " + took(f.TTFTUS)
	}
	status, reason := "", f.Reason
	if f.Status != 0 { // nobody was answered by a process that had died
		status = fmt.Sprintf(" with %d", f.Status)
	}
	if reason == f.Code {
		reason = ""
	}
	return strings.Join(filled(fmt.Sprintf("%s%s after %s", f.Outcome, status, took(f.DurationUS)),
		strings.Join(filled(f.Code, reason, labelled("at", f.Stage)), " "), f.Class, ttft,
		spent(f.Usage, f.Cost, f.UpstreamCost)+prefixed(" by price ", version(f.PriceVersion, f.PriceOrigin)),
		odd(f.ServiceTier, f.Inherited, f.Clamped), prefixed("usage ", string(f.UsageSource)), unpriced(f.Unpriced, f.UnpricedReason), gone), ", ")
}

// spent is what an attempt used and cost; "" for nothing. What the upstream is owed is told when the caller pays another sum.
func spent(u pricing.Usage, cost, owed money.Amount) string {
	if u.IsZero() && cost == 0 && owed == 0 {
		return ""
	}
	said := tokens(u) + ", " + cost.String() + " USD"
	if owed != cost && owed != 0 {
		said += " (" + owed.String() + " owed to the upstream)"
	}
	return said
}

// version is a price and who set it.
func version(price string, origin pricing.Origin) string {
	if price == "" || origin == "" {
		return price
	}
	return price + " (" + string(origin) + ")"
}

// odd is what else there is to say about how an attempt was priced.
func odd(tier string, inherited, clamped bool) string {
	none, more := "", ""
	if inherited {
		none = "which has no price of its own"
	}
	if clamped {
		more = "the upstream reported more than can be"
	}
	return strings.Join(filled(labelled("service tier", tier), none, more), ", ")
}

func unpriced(is bool, reason string) string {
	if !is {
		return ""
	}
	return "unpriced" + prefixed(": ", reason)
}

func tokens(u pricing.Usage) string {
	return fmt.Sprintf("%d in (%d cached), %d out", u.InputTotal(), u.CachedInput, u.OutputTotal()) + besides(u)
}

// besides are the classes of a usage that few requests have.
func besides(u pricing.Usage) (said string) {
	for _, c := range classes(&u) {
		if c.n > 0 {
			said += fmt.Sprintf(", %d %s", c.n, c.name)
		}
	}
	return said
}

// class is a count of a usage beside the totals of its tokens.
type class struct {
	name string
	n    int64
}

// classes are those that few requests have.
func classes(u *pricing.Usage) []class {
	return []class{
		{"cache write 5m", u.CacheWrite5m}, {"cache write 1h", u.CacheWrite1h}, {"reasoning", u.Reasoning},
		{"audio in", u.AudioInput}, {"audio out", u.AudioOutput}, {"image in", u.ImageInput}, {"image out", u.ImageOutput},
		{"images", u.Images}, {"web searches", u.WebSearches}, {"file searches", u.FileSearches},
	}
}

func prefixed(prefix, value string) string {
	if value == "" {
		return ""
	}
	return prefix + value
}
