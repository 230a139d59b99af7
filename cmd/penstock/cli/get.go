package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get KIND [ID]", Short: "Show resources as YAML", RunE: p.get,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("get takes KIND [ID]")
			}
			_, err := kindNamed(args[0])
			return err
		}}
	addServer(cmd)
	jsonFlag(cmd)
	return cmd
}

func (p *Program) exportCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "export", Short: "Write the whole catalogue as YAML that apply takes back", Args: cobra.NoArgs, RunE: p.export}
	addServer(cmd)
	jsonFlag(cmd)
	return cmd
}

// kindNamed reads a kind in the singular or the plural.
func kindNamed(word string) (catalog.Kind, error) {
	var names []string
	for _, kind := range catalog.Kinds() {
		if word = strings.ToLower(word); word == string(kind) || word == admin.Plural(kind) {
			return kind, nil
		}
		names = append(names, string(kind))
	}
	return "", usagef("there is no kind %q; there are %s", word, strings.Join(names, ", "))
}

func (p *Program) get(cmd *cobra.Command, args []string) error {
	kind, err := kindNamed(args[0])
	if err != nil {
		return err
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var all []json.RawMessage
	if len(args) == 1 {
		all, err = c.list(cmd.Context(), kind)
	} else {
		all = make([]json.RawMessage, 1)
		err = c.doWith(cmd.Context(), http.MethodGet, kind, args[1], "", nil, &all[0])
	}
	if err != nil {
		return err
	}
	return p.writeResources(cmd, all)
}

func (p *Program) export(cmd *cobra.Command, _ []string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var all []json.RawMessage
	for _, kind := range catalog.Kinds() {
		found, err := c.list(cmd.Context(), kind)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	return p.writeResources(cmd, all)
}

func (p *Program) writeResources(cmd *cobra.Command, all []json.RawMessage) error {
	if on(cmd, "json") {
		return jsonLines(p.Stdout, all)
	}
	var out bytes.Buffer
	for i, resource := range all {
		if i > 0 {
			out.WriteString("---\n")
		}
		b, err := resourceYAML(resource)
		if err != nil {
			return err
		}
		out.Write(b)
	}
	_, err := fmt.Fprint(p.Stdout, out.String())
	return errors.Wrap(err, "write output")
}

func resourcePath(kind catalog.Kind, id string) string {
	return "/api/v1/" + admin.Plural(kind) + "/" + url.PathEscape(id)
}

// list follows the pages of a kind.
func (c *client) list(ctx context.Context, kind catalog.Kind) ([]json.RawMessage, error) {
	var all []json.RawMessage
	after := ""
	for {
		var page resources
		if err := c.do(ctx, http.MethodGet, "/api/v1/"+admin.Plural(kind)+query("limit", "1000", "after", after), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if after = page.Next; after == "" {
			return all, nil
		}
	}
}
