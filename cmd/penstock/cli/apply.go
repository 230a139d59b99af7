package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) applyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "apply -f FILE", Short: "Bring the catalogue to what resource files say", Args: cobra.NoArgs, RunE: p.apply}
	addServer(cmd)
	jsonFlag(cmd)
	cmd.Flags().StringArrayP("file", "f", nil, "YAML of resources, - for standard input; may be given several times")
	cmd.Flags().Bool("dry-run", false, "show what would change, change nothing")
	cmd.Flags().Bool("prune", false, "remove every resource that the files do not name")
	cmd.Flags().Bool("yes", false, "do not ask before removing")
	return cmd
}

func (p *Program) apply(cmd *cobra.Command, _ []string) error {
	files, _ := cmd.Flags().GetStringArray("file")
	if len(files) == 0 {
		return usagef("apply takes -f FILE")
	}
	docs, err := p.readFiles(files)
	if err != nil {
		return err
	}
	ask := admin.ApplyRequest{DryRun: on(cmd, "dry-run"), Prune: on(cmd, "prune")}
	for _, d := range docs {
		ask.Resources = append(ask.Resources, d.json)
	}
	if len(docs) == 0 {
		return errors.Newf("%s: there are no resources in it", strings.Join(files, ", "))
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	if ask.Prune && !ask.DryRun && !on(cmd, "yes") && p.Terminal {
		if err := p.agree(cmd, c, ask, docs); err != nil {
			return err
		}
	}
	var answer admin.ApplyAnswer
	if err := c.do(cmd.Context(), http.MethodPost, "/api/v1/apply", ask, &answer); err != nil {
		return inFile(err, docs)
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, answer.Resources)
	}
	printDone(p.Stdout, answer)
	return nil
}

func (p *Program) readFiles(files []string) ([]document, error) {
	var docs []document
	for _, file := range files {
		text, name, err := p.readFile(file)
		if err != nil {
			return nil, err
		}
		more, err := parseDocuments(name, text)
		if err != nil {
			return nil, err
		}
		for _, d := range more {
			if d.kind == "" {
				return nil, errors.Newf("%s: kind: is missing", d.at("kind"))
			}
		}
		docs = append(docs, more...)
	}
	return docs, nil
}

func (p *Program) readFile(file string) (text []byte, name string, err error) {
	if file == "-" {
		text, err = io.ReadAll(p.Stdin)
		return text, "standard input", errors.Wrap(err, "read standard input")
	}
	text, err = os.ReadFile(file)
	return text, file, errors.Wrap(err, "read resource file")
}

// agree shows what would be removed and asks; nothing to remove needs no answer.
func (p *Program) agree(cmd *cobra.Command, c *client, ask admin.ApplyRequest, docs []document) error {
	ask.DryRun = true
	var preview admin.ApplyAnswer
	if err := c.do(cmd.Context(), http.MethodPost, "/api/v1/apply", ask, &preview); err != nil {
		return inFile(err, docs)
	}
	var removed []string
	for _, r := range preview.Resources {
		if r.Result == admin.Removed {
			removed = append(removed, "  - "+string(r.Kind)+" "+r.ID)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	fmt.Fprintf(p.Stderr, "This removes:\n%s\nGo on? [y/N] ", strings.Join(removed, "\n"))
	answer, _ := bufio.NewReader(p.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// signs of what became of a resource.
var signs = map[admin.Result]string{admin.Created: "+", admin.Changed: "~", admin.Removed: "-", admin.Unchanged: "="}

func printDone(w io.Writer, answer admin.ApplyAnswer) {
	counts := map[admin.Result]int{}
	for _, r := range answer.Resources {
		counts[r.Result]++
		text := fmt.Sprintf("%s %s %s", signs[r.Result], r.Kind, r.ID)
		if len(r.Fields) > 0 {
			text += ": " + strings.Join(asWritten(r.Kind, r.Fields), ", ")
		}
		fmt.Fprintln(w, text)
	}
	suffix := ""
	if answer.DryRun {
		suffix = " (dry run: nothing was stored)"
	}
	fmt.Fprintf(w, "%d created, %d changed, %d unchanged, %d removed%s\n",
		counts[admin.Created], counts[admin.Changed], counts[admin.Unchanged], counts[admin.Removed], suffix)
}

// asWritten are the fields as files know them: a new credential is a new version inside, and outside "api_key" or, of a
// webhook, "secret".
func asWritten(kind catalog.Kind, fields []string) []string {
	credential := "api_key"
	if kind == catalog.KindWebhook {
		credential = "secret"
	}
	var names []string
	for _, name := range fields {
		if name == "secret_version" {
			name = credential
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// placeOf finds the document and the field that a location of the API means.
var placeOf = regexp.MustCompile(`^body\.resources\[(\d+)\]\.?(.*)$`)

// inFile turns a refusal of the API into one with files and lines.
func inFile(err error, docs []document) error {
	var refused *problem
	if !errors.As(err, &refused) || len(refused.Details) == 0 {
		return err
	}
	lines := make([]string, len(refused.Details))
	for i, d := range refused.Details {
		lines[i] = d.Message
		parts := placeOf.FindStringSubmatch(d.Location)
		if parts == nil {
			continue
		}
		if n, err := strconv.Atoi(parts[1]); err == nil && n < len(docs) {
			lines[i] = strings.Join(filled(docs[n].at(parts[2]), docs[n].name(), parts[2], d.Message), ": ")
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// resources are a page of the API, each as it came.
type resources struct {
	Items []json.RawMessage `json:"items"`
	Next  string            `json:"next"`
}
