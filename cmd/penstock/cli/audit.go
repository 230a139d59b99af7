package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
)

func (p *Program) auditCommand() *cobra.Command {
	verify := &cobra.Command{Use: "verify", Short: "Check that the events are what was stored; exit 1 when not", Args: cobra.NoArgs, RunE: p.auditVerify}
	addServer(verify)
	jsonFlag(verify)
	headFlags(verify)
	verify.Flags().String("file", "", "check an export or a backup instead, compressed or not; - is standard input")
	export := &cobra.Command{Use: "export", Short: "Write events with their chain as JSON lines, to be checked anywhere", Args: cobra.NoArgs, RunE: p.auditExport}
	addServer(export)
	timeFlags(export)
	head := &cobra.Command{Use: "head", Short: "Print the end of the chain, signed", Args: cobra.NoArgs, RunE: p.auditHead}
	addServer(head)
	jsonFlag(head) // it is JSON anyway
	head.Flags().Bool("public-key", false, "print the key that signs, and nothing else")
	return group("audit", "Prove what the events were", verify, export, head)
}

func headFlags(cmd *cobra.Command) {
	cmd.Flags().StringArray("head", nil, "end of the chain that is known from elsewhere: what audit head printed, POSITION:HASH, or @FILE with such lines; may be repeated")
	cmd.Flags().String("key", "", "public key that must have signed these heads, in hex")
}

func (p *Program) booksCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "close", Short: "Close the books of every day up to the given one", Args: cobra.NoArgs, RunE: p.booksClose}
	addServer(cmd)
	jsonFlag(cmd)
	cmd.Flags().String("until", "", "the last day to close, YYYY-MM-DD in UTC (default yesterday)")
	return group("books", "Close the books", cmd)
}

// ledger is what these commands speak with: a running gateway or the data of a stopped one.
type ledger interface {
	admin.Audit
	admin.Books
}

func (p *Program) ledger(cmd *cobra.Command) (ledger, func(), error) {
	from, done, err := p.source(cmd)
	if err != nil {
		return nil, nil, err
	}
	if s, ok := from.(stopped); ok {
		return s.data, done, nil
	}
	return from.(*client), done, nil
}

func (p *Program) auditVerify(cmd *cobra.Command, _ []string) error {
	heads, err := auditHeads(cmd)
	if err != nil {
		return err
	}
	var report events.Report
	if file := flag(cmd, "file"); file != "" {
		report, err = p.verifyFile(cmd.Context(), file, heads)
	} else {
		report, err = p.verifyStore(cmd, heads)
	}
	if err != nil {
		return err
	}
	if on(cmd, "json") {
		err = jsonLines(p.Stdout, []events.Report{report})
	} else {
		fmt.Fprintln(p.Stdout, auditVerdict(&report))
	}
	if err == nil && !report.Equal {
		return &silentError{}
	}
	return err
}

func auditVerdict(r *events.Report) string {
	var b strings.Builder
	if r.Equal {
		fmt.Fprintf(&b, "intact: %d positions, %d rows in %d commits, known heads met: %d", r.Positions, r.Rows, r.Commits, r.Heads)
	} else {
		fmt.Fprintf(&b, "NOT INTACT: %s at position %d: %s; what is before it holds", r.Fault, *r.FirstBroken, plain(r.Detail))
	}
	if r.Archived > 0 {
		fmt.Fprintf(&b, "; %d rows are archived: their hashes are in the chain, they themselves are not here", r.Archived)
	}
	return b.String()
}

// auditHeads reads the heads of the command line and checks their signatures.
func auditHeads(cmd *cobra.Command) ([]events.Head, error) {
	var by events.Sum
	if key := flag(cmd, "key"); key != "" {
		if err := by.UnmarshalText([]byte(key)); err != nil {
			return nil, usage(errors.Wrap(err, "--key"))
		}
	}
	given, err := cmd.Flags().GetStringArray("head")
	if err != nil {
		return nil, usage(err)
	}
	var all []events.Head
	for _, text := range given {
		lines := []byte(text)
		if path, isFile := strings.CutPrefix(text, "@"); isFile {
			if lines, err = os.ReadFile(path); err != nil {
				return nil, usage(errors.Wrap(err, "--head"))
			}
		}
		heads, err := events.ParseHeads(lines)
		if err == nil && len(heads) == 0 {
			err = errors.New("there is none in it")
		}
		if err != nil {
			return nil, usage(errors.Wrap(err, "--head"))
		}
		for i := range heads {
			if err := heads[i].Check(by); err != nil {
				return nil, errors.Wrap(err, "--head")
			}
		}
		all = append(all, heads...)
	}
	return all, nil
}

func (p *Program) verifyStore(cmd *cobra.Command, heads []events.Head) (events.Report, error) {
	from, done, err := p.ledger(cmd)
	if err != nil {
		return events.Report{}, err
	}
	defer done()
	return from.AuditVerify(cmd.Context(), heads)
}

func (p *Program) verifyFile(ctx context.Context, path string, heads []events.Head) (events.Report, error) {
	in, closing, err := p.input(path)
	if err != nil {
		return events.Report{}, errors.Wrap(err, "--file")
	}
	defer closing()
	export, err := events.ReadExport(in)
	if err != nil {
		return events.Report{}, errors.Wrap(err, path)
	}
	report, err := events.VerifyExport(ctx, export, heads)
	return report, errors.Wrap(err, path)
}

func (p *Program) auditExport(cmd *cobra.Command, _ []string) error {
	since, until, err := p.span(cmd)
	if err != nil {
		return err
	}
	from, done, err := p.ledger(cmd)
	if err != nil {
		return err
	}
	defer done()
	return from.AuditExport(cmd.Context(), since, until, p.Stdout)
}

func (p *Program) auditHead(cmd *cobra.Command, _ []string) error {
	from, done, err := p.ledger(cmd)
	if err != nil {
		return err
	}
	defer done()
	head, err := from.AuditHead(cmd.Context())
	if err != nil {
		return err
	}
	if on(cmd, "public-key") {
		_, err = fmt.Fprintln(p.Stdout, head.Key)
		return errors.Wrap(err, "write output")
	}
	return jsonLines(p.Stdout, []events.Head{head})
}

func (p *Program) booksClose(cmd *cobra.Command, _ []string) error {
	until := flag(cmd, "until")
	if until == "" {
		until = books.DayOf(p.Now().UTC().AddDate(0, 0, -1))
	}
	if _, err := books.ParseDay(until); err != nil {
		return usage(errors.Wrap(err, "--until"))
	}
	from, done, err := p.ledger(cmd)
	if err != nil {
		return err
	}
	defer done()
	ctx, finish := p.watch(cmd.Context(), from)
	defer finish()
	closed, err := from.CloseBooks(ctx, until)
	finish()
	if on(cmd, "json") {
		return errors.CombineErrors(err, jsonLines(p.Stdout, closed))
	}
	for i := range closed {
		c := &closed[i]
		fmt.Fprintf(p.Stdout, "%s: closed: %d requests, %d events, positions %d to %d", c.Day, c.Requests, c.Facts, c.First, c.Through)
		if c.Archive != nil {
			fmt.Fprintf(p.Stdout, ", archive %s (sha256 %s)", c.Archive.File, c.Archive.SHA256)
		}
		fmt.Fprintln(p.Stdout)
	}
	if len(closed) == 0 && err == nil {
		fmt.Fprintln(p.Stdout, "nothing to close")
	}
	return err
}

// AuditHead implements admin.Audit.
func (c *client) AuditHead(ctx context.Context) (events.Head, error) {
	var head events.Head
	err := c.do(ctx, http.MethodGet, "/api/v1/audit/head", nil, &head)
	return head, err
}

// AuditVerify implements admin.Audit.
func (c *client) AuditVerify(ctx context.Context, heads []events.Head) (events.Report, error) {
	var report events.Report
	err := c.do(ctx, http.MethodPost, "/api/v1/audit/verify", admin.AuditRequest{Heads: heads}, &report)
	return report, err
}

// AuditExport implements admin.Audit.
func (c *client) AuditExport(ctx context.Context, since, until time.Time, w io.Writer) error {
	return c.stream(ctx, "/api/v1/audit/export"+query("since", stamp(since), "until", stamp(until)), w)
}

// stream hands on what comes, without a bound.
func (c *client) stream(ctx context.Context, path string, w io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return usage(errors.Wrap(err, "server"))
	}
	r.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	answer, err := c.http.Do(r)
	if err != nil {
		return &unreachableError{c.base, err}
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= 400 {
		b, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20)) // what it says of itself is enough
		return c.refusal(answer, b)
	}
	_, err = io.Copy(w, answer.Body)
	return errors.Wrapf(err, "hand on the answer of %s", c.base)
}

// CloseBooks implements admin.Books.
func (c *client) CloseBooks(ctx context.Context, until string) ([]books.Closed, error) {
	var answer admin.CloseAnswer
	err := c.do(ctx, http.MethodPost, "/api/v1/books/close", admin.CloseRequest{Until: until}, &answer)
	return answer.Items, err
}
