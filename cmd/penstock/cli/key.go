package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/penstock/penstock/actors"
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
	create.Flags().Int64("rpm", 0, "requests in any 60 seconds (default unlimited)")
	create.Flags().Int64("tpm", 0, "tokens in any 60 seconds (default unlimited)")
	create.Flags().StringSlice("spending", nil, "USD per period, such as daily=5, monthly=100 or 24h=5 (rolling), with commas between")
	create.Flags().String("budget", "", "USD over all time")
	create.Flags().String("budget-mode", "", "strict sets the worst case of each request aside, postpaid counts what was spent (default postpaid)")
	create.Flags().String("multiplier", "", "factor on what its requests cost, beside the group's, such as 1.2 (default 1)")
	create.Flags().StringSlice("ips", nil, "only from these addresses and ranges, with commas between")
	create.Flags().Int("max-ips", 0, "addresses from which it may be used (default unlimited)")
	revoke := &cobra.Command{Use: "revoke ID", Short: "Revoke an API key; its next request is refused", Args: exactly("ID"), RunE: p.revokeKey}
	addServer(revoke)
	status := &cobra.Command{Use: "status ID", Short: "Show what an API key has used of its limits, when they open again, and what its user has left", Args: exactly("ID"), RunE: p.keyStatus}
	addServer(status)
	jsonFlag(status)
	return group("key", "Make, show and revoke API keys", create, status, revoke)
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
	id := flag(cmd, "id")
	if id == "" {
		return nil, usagef("key create takes --id ID")
	}
	document := map[string]any{"id": id, "access": "unrestricted"}
	for _, name := range []string{"user", "group", "multiplier"} {
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
	return document, keyLimits(cmd, document)
}

// keyLimits adds what the flags say of limits and addresses; the gateway checks the values.
func keyLimits(cmd *cobra.Command, document map[string]any) error {
	limits := map[string]any{}
	for _, name := range []string{"rpm", "tpm"} {
		if cmd.Flags().Changed(name) {
			limits[name], _ = cmd.Flags().GetInt64(name)
		}
	}
	if spending, _ := cmd.Flags().GetStringSlice("spending"); len(spending) > 0 {
		var rules []map[string]any
		for _, text := range spending {
			rule, err := spendingRule(text)
			if err != nil {
				return err
			}
			rules = append(rules, rule)
		}
		limits["spending"] = rules
	}
	if budget := flag(cmd, "budget"); budget != "" {
		limits["budget"] = budget
	}
	if len(limits) > 0 {
		document["limits"] = limits
	}
	if mode := flag(cmd, "budget-mode"); mode != "" {
		document["budget"] = mode
	}
	if ips, _ := cmd.Flags().GetStringSlice("ips"); len(ips) > 0 {
		document["ips"] = map[string]any{"allow": ips}
	}
	if cmd.Flags().Changed("max-ips") {
		document["max_ips"], _ = cmd.Flags().GetInt("max-ips")
	}
	return nil
}

// spendingRule reads daily=5, monthly=100, or 24h=5.
func spendingRule(text string) (map[string]any, error) {
	period, limit, ok := strings.Cut(text, "=")
	if !ok || limit == "" {
		return nil, usagef("--spending: %q is none of daily=USD, monthly=USD, 24h=USD", text)
	}
	if period == "daily" || period == "monthly" {
		return map[string]any{"period": period, "limit": limit}, nil
	}
	hours, err := strconv.Atoi(strings.TrimSuffix(period, "h"))
	if err != nil || !strings.HasSuffix(period, "h") {
		return nil, usagef("--spending: %q is none of daily=USD, monthly=USD, 24h=USD", text)
	}
	return map[string]any{"period": "rolling", "hours": hours, "limit": limit}, nil
}

func (p *Program) keyStatus(cmd *cobra.Command, args []string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	var st actors.KeyStatus
	if err := c.doWith(cmd.Context(), http.MethodGet, catalog.KindKey, args[0], "/status", nil, &st); err != nil {
		return err
	}
	if on(cmd, "json") {
		return jsonLines(p.Stdout, []actors.KeyStatus{st})
	}
	fmt.Fprintf(p.Stdout, "key %s, %d running\n", st.ID, st.Running)
	p.printLimits("key", st.RPM, st.TPM, st.Spending)
	if st.User != nil {
		p.printLimits("user", st.User.RPM, st.User.TPM, st.User.Spending)
		if b := st.User.Balance; b != nil {
			fmt.Fprintf(p.Stdout, "user balance: %s USD left, %s set aside, %s of overdraft\n", b.Left, b.Reserved, b.Overdraft)
		}
		for i := range st.User.Subscriptions {
			p.printSubscription(&st.User.Subscriptions[i])
		}
	}
	for _, a := range st.Addresses {
		fmt.Fprintf(p.Stdout, "address %s, last used %s\n", a.Address, a.UsedAt.Format(time.RFC3339))
	}
	return nil
}

func (p *Program) printLimits(whose string, rpm, tpm *actors.WindowStatus, spending []actors.SpentStatus) {
	opens := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return ", opens at " + at.Format("2006-01-02T15:04:05.000Z07:00")
	}
	for _, w := range [...]struct {
		name string
		*actors.WindowStatus
	}{{"rpm", rpm}, {"tpm", tpm}} {
		if w.WindowStatus != nil {
			fmt.Fprintf(p.Stdout, "%s %s: %d of %d%s\n", whose, w.name, w.Used, w.Limit, opens(w.Reopens))
		}
	}
	for _, s := range spending {
		fmt.Fprintf(p.Stdout, "%s %s, %s: %s of %s USD spent, %s set aside%s\n", whose, strings.ToLower(s.Period), s.Mode, s.Spent, s.Limit, s.Reserved, opens(s.Recovers))
	}
}

func (p *Program) revokeKey(cmd *cobra.Command, args []string) error {
	c, err := p.server(cmd)
	if err != nil {
		return err
	}
	if err := c.doWith(cmd.Context(), http.MethodPost, catalog.KindKey, args[0], "/revoke", nil, nil); err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout, "key "+args[0]+" is revoked")
	return nil
}
