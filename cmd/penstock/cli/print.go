package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/domain/money"
)

// jsonLines writes one line per value.
func jsonLines[T any](w io.Writer, values []T) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for i := range values {
		if err := encoder.Encode(values[i]); err != nil {
			return errors.Wrap(err, "write output")
		}
	}
	return nil
}

// table writes aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.row(heads...)
	return t
}

// row writes one line; empty cells show as "-", and what would break the table is taken out.
func (t table) row(cells ...string) {
	for i, cell := range cells {
		cell = plain(cell)
		if cell == "" {
			cell = "-"
		}
		cells[i] = cell
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t table) end() error { return errors.Wrap(t.w.Flush(), "write output") }

// plain takes control characters out: texts of clients must not drive the terminal of an operator.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// millis is a duration in milliseconds, "" when it was not measured.
func millis(ms *int64) string {
	if ms == nil {
		return ""
	}
	return strconv.FormatInt(*ms, 10) + "ms"
}

// took is a duration of facts, in microseconds, as people read it.
func took(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.String()
}

// clock is a time in a table: local, whole seconds.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// timeFlags are --since and --until.
func timeFlags(cmd *cobra.Command) {
	const forms = ": a time (2026-01-31T12:00:00Z), a day (2026-01-31, UTC) or how long ago (90m, 24h, 7d)"
	cmd.Flags().String("since", "", "from"+forms)
	cmd.Flags().String("until", "", "until"+forms+", exclusive")
}

// span reads --since and --until.
func (p *Program) span(cmd *cobra.Command) (since, until time.Time, err error) {
	for name, into := range map[string]*time.Time{"since": &since, "until": &until} {
		text, _ := cmd.Flags().GetString(name)
		if *into, err = when(text, p.Now()); err != nil {
			return since, until, usagef("--%s: %v", name, err)
		}
	}
	if !since.IsZero() && !until.IsZero() && !until.After(since) {
		return since, until, usagef("--until: is not after --since")
	}
	return since, until, nil
}

// daysMax is how many days ago can be asked for: the year keeps its four digits.
const daysMax = 365 * 1000

// daysAgo reads a number of days such as 30d.
func daysAgo(text string) (n int, ok bool) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(days)
	return n, err == nil && n >= 0 && n <= daysMax
}

// when reads a time as timeFlags describes it; "" is the zero time.
func when(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if n, ok := daysAgo(text); ok {
		return now.AddDate(0, 0, -n), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, errors.Newf("%q is not a time, a day or how long ago", text)
}

// limitFlag is --limit.
func limitFlag(cmd *cobra.Command, what string) {
	cmd.Flags().Int("limit", 100, "at most so many "+what)
}

func limit(cmd *cobra.Command) (int, error) {
	n, err := cmd.Flags().GetInt("limit")
	if err == nil && n < 1 {
		return 0, usagef("--limit: must be at least 1")
	}
	return n, usage(err)
}

func jsonFlag(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "JSON, one object per line") }

// flag is the value of a string flag that the command has.
func flag(cmd *cobra.Command, name string) string {
	value, _ := cmd.Flags().GetString(name)
	return value
}

// on is the value of a boolean flag that the command has.
func on(cmd *cobra.Command, name string) bool {
	value, _ := cmd.Flags().GetBool(name)
	return value
}

// exactly is cobra.ExactArgs with an error that names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("%s takes %s", nameOf(cmd), strings.Join(names, " "))
		}
		return given(args, names...)
	}
}

// nameOf is a command without the program's name, which stands in front of every error.
func nameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// amountFlag refuses what is no amount of USD; name says whose it is.
func amountFlag(name, text string) error {
	if _, err := money.Parse(text); err != nil {
		return usagef("%s: %q is not an amount of USD such as 12.50, with at most ten decimals", name, text)
	}
	return nil
}

// given refuses an argument that is empty, such as that of a variable which a script has not set.
func given(args []string, names ...string) error {
	for i, arg := range args {
		if arg == "" {
			return usagef("%s is empty", names[i])
		}
	}
	return nil
}
