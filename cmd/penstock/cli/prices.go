package cli

import (
	"bufio"
	"bytes"
	_ "embed" // the starter book
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricelist"
)

// starterBook is the price book that ships with the program: the models of the large providers at the prices of a day,
// each with its source and date in the field origin. It is data: nothing is priced by it until an operator imports it.
//
//go:embed starter.json
var starterBook []byte

func (p *Program) pricesCommand() *cobra.Command {
	load := &cobra.Command{
		Use: "import [FILE]", Short: "Bring synced prices to what a list says, after showing what changes",
		Long: `Read a list of prices and show what it would change: LiteLLM's model_prices_and_context_window.json, a price book
(a JSON array of price resources), or with --starter the book that ships with this program. What is stored are prices
with source: synced; prices that you set yourself always come first. A price that differs gets a new value that holds
from now on (or --from), so that what was used before keeps its price. Models that the list has no more stay unless
--prune is given.`,
		RunE: p.importPrices,
		Args: cobra.MaximumNArgs(1),
	}
	addServer(load)
	jsonFlag(load)
	load.Flags().Bool("starter", false, "the price book that ships with this program")
	load.Flags().Bool("dry-run", false, "show what would change, change nothing")
	load.Flags().Bool("yes", false, "do not ask")
	load.Flags().Bool("prune", false, "remove the synced prices of models that the list has no more")
	load.Flags().String("from", "", "when changed prices begin, such as 2026-01-31T00:00:00Z (default now)")
	load.Flags().StringArray("upstream", nil, "PROVIDER=ID: bind the prices of a provider of LiteLLM's list to an upstream; resellers such as azure or groq are read only so")
	return group("prices", "Price lists", load)
}

func (p *Program) importPrices(cmd *cobra.Command, args []string) error {
	list, o, err := p.priceList(cmd, args)
	if err != nil {
		return err
	}
	from := p.Now()
	if at := flag(cmd, "from"); at != "" {
		if from, err = time.Parse(time.RFC3339, at); err != nil {
			return usagef("--from: %q is no time such as 2026-01-31T00:00:00Z", at)
		}
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	current, err := c.prices(cmd)
	if err != nil {
		return err
	}
	changes := pricelist.Compare(current, list, from, o)
	prune := on(cmd, "prune")
	out := p.Stdout
	if on(cmd, "json") {
		if err := jsonLines(p.Stdout, priceChanges(changes, prune)); err != nil {
			return err
		}
		out = p.Stderr
	} else {
		printPrices(out, changes, prune)
	}
	printReport(out, list.Report)
	work := !changes.IsEmpty() || prune && len(changes.Removed) > 0
	switch {
	case on(cmd, "dry-run"):
		printPriceSums(out, changes, prune, " (dry run: nothing was stored)")
		return nil
	case work && p.Terminal && !on(cmd, "yes"):
		fmt.Fprint(p.Stderr, "Store these prices? [y/N] ")
		answer, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			return errors.New("nothing was changed")
		}
	}
	if err := c.storePrices(cmd, changes, prune); err != nil {
		return err
	}
	printPriceSums(out, changes, prune, "")
	return nil
}

// priceList reads the list that the command line names.
func (p *Program) priceList(cmd *cobra.Command, args []string) (pricelist.List, pricelist.Options, error) {
	o := pricelist.Options{Upstreams: map[string]string{}}
	bound, _ := cmd.Flags().GetStringArray("upstream")
	for _, b := range bound {
		provider, id, ok := strings.Cut(b, "=")
		if !ok || provider == "" || id == "" {
			return pricelist.List{}, o, usagef("--upstream: %q is not PROVIDER=ID", b)
		}
		o.Upstreams[provider] = id
	}
	starter := on(cmd, "starter")
	if starter == (len(args) == 1) {
		return pricelist.List{}, o, usagef("prices import takes FILE or --starter")
	}
	if starter {
		list, err := pricelist.ReadBook(starterBook)
		return list, o, errors.Wrap(err, "starter book")
	}
	text, name, err := p.readFile(args[0])
	if err != nil {
		return pricelist.List{}, o, err
	}
	read := func() (pricelist.List, error) { return pricelist.ReadLiteLLM(text, o) }
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		read = func() (pricelist.List, error) { return pricelist.ReadBook(text) }
	}
	list, err := read()
	return list, o, errors.Wrap(err, name)
}

// prices are those of the catalogue.
func (c *client) prices(cmd *cobra.Command) ([]*catalog.Price, error) {
	all, err := c.list(cmd.Context(), catalog.KindPrice)
	if err != nil {
		return nil, err
	}
	list := make([]*catalog.Price, len(all))
	for i, text := range all {
		list[i] = new(catalog.Price)
		if err := json.Unmarshal(text, list[i]); err != nil {
			return nil, errors.Wrap(err, "read the prices of the catalogue")
		}
	}
	return list, nil
}

// priceBatch is how many prices are stored at a time: all of one batch or none.
const priceBatch = 500

func (c *client) storePrices(cmd *cobra.Command, changes pricelist.Changes, prune bool) error {
	for batch := range slices.Chunk(slices.Concat(changes.Added, changes.Changed), priceBatch) {
		var ask admin.ApplyRequest
		for _, change := range batch {
			b, err := json.Marshal(catalog.Public(change.Price))
			if err != nil {
				return errors.Wrap(err, "write price")
			}
			ask.Resources = append(ask.Resources, b)
		}
		if err := c.do(cmd.Context(), http.MethodPost, "/api/v1/apply", ask, nil); err != nil {
			return err
		}
	}
	if !prune {
		return nil
	}
	for _, change := range changes.Removed {
		for _, id := range change.Gone {
			if err := c.do(cmd.Context(), http.MethodDelete, resourcePath(catalog.KindPrice, id), nil, nil); err != nil {
				return errors.Wrapf(err, "price %s", id)
			}
		}
	}
	return nil
}

// priceChange is a line of --json.
type priceChange struct {
	Change   string           `json:"change"` // added, changed, removed, missing
	Model    string           `json:"model"`
	Upstream string           `json:"upstream,omitempty"`
	Price    any              `json:"price,omitempty"`
	Fields   []priceDifferent `json:"fields,omitempty"`
}

type priceDifferent struct {
	Field string `json:"field"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

func priceChanges(c pricelist.Changes, prune bool) []priceChange {
	list := []priceChange{}
	add := func(what string, changes []pricelist.Change) {
		for _, change := range changes {
			line := priceChange{Change: what, Model: change.Model, Upstream: change.Upstream}
			if change.Price != nil {
				line.Price = catalog.Public(change.Price)
			}
			for _, f := range change.Fields {
				line.Fields = append(line.Fields, priceDifferent{f.Path, f.Was, f.Is})
			}
			list = append(list, line)
		}
	}
	add("added", c.Added)
	add("changed", c.Changed)
	add(goneWord(prune), c.Removed)
	return list
}

func goneWord(prune bool) string {
	if prune {
		return "removed"
	}
	return "missing"
}

func printPrices(w io.Writer, c pricelist.Changes, prune bool) {
	for _, change := range c.Added {
		fmt.Fprintf(w, "+ %s: %s\n", modelOf(change), pricelist.Line(change.Price))
	}
	for _, change := range c.Changed {
		parts := make([]string, len(change.Fields))
		for i, f := range change.Fields {
			parts[i] = fmt.Sprintf("%s %s -> %s", f.Path, orNone(f.Was), orNone(f.Is))
		}
		since := ""
		if at := change.Price.EffectiveFrom; at != nil {
			since = " (from " + at.Format(time.RFC3339) + ")"
		}
		fmt.Fprintf(w, "~ %s: %s%s\n", modelOf(change), strings.Join(parts, ", "), since)
	}
	for _, change := range c.Removed {
		if prune {
			fmt.Fprintf(w, "- %s\n", modelOf(change))
		} else {
			fmt.Fprintf(w, "? %s: not in the list, stays (--prune removes it)\n", modelOf(change))
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func modelOf(c pricelist.Change) string {
	if c.Upstream == "" {
		return c.Model
	}
	return c.Model + " at " + c.Upstream
}

// shownMax is how many lines of one kind a report shows.
const shownMax = 10

// printReport says what was left out of a list.
func printReport(w io.Writer, r pricelist.Report) {
	var skipped []string
	for _, s := range r.Skipped {
		skipped = append(skipped, s.Key+" "+s.Reason)
	}
	for _, part := range []struct {
		what  string
		lines []string
	}{
		{"without a price", skipped},
		{"of providers that are read only with --upstream PROVIDER=ID", counted(r.Providers)},
		{"costs that are not metered, by field", counted(r.Unmetered)},
		{"fields that are not known", counted(r.Unknown)},
		{"costs rounded to six decimals per 1M tokens", r.Rounded},
		{"costs left out as they cannot be right", r.Dropped},
	} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintf(w, "! %d %s:\n", len(part.lines), part.what)
		for i, line := range part.lines {
			if i == shownMax {
				fmt.Fprintf(w, "    and %d more\n", len(part.lines)-shownMax)
				break
			}
			fmt.Fprintf(w, "    %s\n", plain(line))
		}
	}
}

func counted(m map[string]int) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s (%d)", name, m[name]))
	}
	return lines
}

func printPriceSums(w io.Writer, c pricelist.Changes, prune bool, suffix string) {
	fmt.Fprintf(w, "%d added, %d changed, %d unchanged, %d %s%s\n", len(c.Added), len(c.Changed), c.Unchanged, len(c.Removed), goneWord(prune), suffix)
	if c.Shadowed > 0 {
		fmt.Fprintf(w, "%d of these models have a price that you set: it comes first\n", c.Shadowed)
	}
}
