package cli

import (
	"fmt"
	"net/http"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
)

func (p *Program) keyCommand() *cobra.Command {
	create := &cobra.Command{Use: "create --id ID", Short: "Make an API key; its secret is shown once, alone on standard output",
		Args: cobra.NoArgs, RunE: p.createKey}
	addServer(create)
	jsonFlag(create)
	create.Flags().String("id", "", "id of the key")
	create.Flags().String("user", "", "its user")
	create.Flags().String("group", "", "its group")
	create.Flags().StringSlice("upstreams", nil, "only these upstreams, with commas between")
	create.Flags().StringSlice("models", nil, "only these models: names or globs, with commas between")
	create.Flags().Int("slots", 0, "requests at once (default unlimited)")
	create.Flags().String("priority", "", "how urgently its requests wait: high, normal or low (default normal)")
	create.Flags().Int("weight", 0, "its share in fair queues, 1 to 1000 (default 1)")
	create.Flags().Duration("expires", 0, "valid for so long, such as 720h (default for ever)")
	for _, later := range keyFlagsLater {
		create.Flags().String(later.flag, "", later.field+" ("+notYet+")")
	}
	revoke := &cobra.Command{Use: "revoke ID", Short: "Revoke an API key; its next request is refused", Args: exactly("ID"), RunE: p.revokeKey}
	addServer(revoke)
	return group("key", "Make and revoke API keys", create, revoke)
}

// keyFlagsLater are known by the field that they will set.
var keyFlagsLater = []struct{ flag, field string }{
	{"rpm", "limits.rpm"}, {"tpm", "limits.tpm"}, {"spending", "limits.spending"}, {"budget", "limits.budget"},
	{"ips", "ips"}, {"max-ips", "max_ips"},
}

func (p *Program) createKey(cmd *cobra.Command, _ []string) error {
	document, err := p.keyDocument(cmd)
	if err != nil {
		return err
	}
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var made admin.KeyMade
	if err := c.do(cmd.Context(), http.MethodPost, "/api/v1/keys", document, &made); err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []admin.KeyMade{made})
	}
	fmt.Fprintln(p.Stderr, "key "+made.ID+" is in force; its secret is not shown again:")
	_, err = fmt.Fprintln(p.Stdout, made.Secret)
	return errors.Wrap(err, "write secret")
}

// keyDocument is what the flags ask for. A key without a list of upstreams may use all (of its group).
func (p *Program) keyDocument(cmd *cobra.Command) (map[string]any, error) {
	for _, later := range keyFlagsLater {
		if cmd.Flags().Changed(later.flag) {
			return nil, usagef("%s: %s", later.field, notYet)
		}
	}
	id := flag(cmd, "id")
	if id == "" {
		return nil, usagef("key create takes --id ID")
	}
	document := map[string]any{"id": id, "access": "unrestricted"}
	for _, name := range []string{"user", "group"} {
		if value := flag(cmd, name); value != "" {
			document[name] = value
		}
	}
	if models, _ := cmd.Flags().GetStringSlice("models"); len(models) > 0 {
		document["models"] = models
	}
	if upstreams, _ := cmd.Flags().GetStringSlice("upstreams"); len(upstreams) > 0 {
		document["upstreams"], document["access"] = upstreams, "restricted"
	}
	if priority := flag(cmd, "priority"); priority != "" {
		document["priority"] = priority
	}
	for _, name := range []string{"slots", "weight"} {
		if cmd.Flags().Changed(name) {
			document[name], _ = cmd.Flags().GetInt(name)
		}
	}
	if cmd.Flags().Changed("expires") {
		valid, _ := cmd.Flags().GetDuration("expires")
		if valid <= 0 {
			return nil, usagef("--expires: must be positive")
		}
		document["expires_at"] = p.Now().Add(valid).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	return document, nil
}

func (p *Program) revokeKey(cmd *cobra.Command, args []string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	err = c.do(cmd.Context(), http.MethodPost, resourcePath(catalog.KindKey, args[0])+"/revoke", nil, nil)
	var refused *problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return errors.Newf("there is no key %s", args[0])
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout, "key "+args[0]+" is revoked")
	return nil
}
