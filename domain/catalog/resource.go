// Package catalog is the configuration as facts: upstreams, accounts, groups, users, keys, prices, rules, settings and
// webhooks.
// Commands become facts (Decide), facts become state (Evolve), and the hot path reads an immutable Snapshot.
package catalog

import (
	"time"

	"github.com/penstock/penstock/domain/dialect"
)

// Kind names a kind of resource; it is the word in resource files, streams and paths.
type Kind string

// The kinds of resource.
const (
	KindUpstream Kind = "upstream"
	KindAccount  Kind = "account"
	KindGroup    Kind = "group"
	KindUser     Kind = "user"
	KindKey      Kind = "key"
	KindPrice    Kind = "price"
	KindRule     Kind = "rule"
	KindSetting  Kind = "setting"
	KindWebhook  Kind = "webhook"
)

// Resource is one of *Upstream, *Account, *Group, *User, *Key, *Price, *Rule, *Setting, *Webhook.
type Resource interface {
	Kind() Kind
	Ident() string
}

// Upstream is one provider endpoint.
type Upstream struct {
	ID             string               `json:"id"`
	BaseURL        string               `json:"base_url"`              // the API root; /v1/... is appended, a trailing /v1 or /v1beta is not doubled
	PathPrefix     *string              `json:"path_prefix,omitempty"` // replaces the /v1 or /v1beta of the canonical path
	Capabilities   []dialect.Capability `json:"capabilities"`
	Priority       int                  `json:"priority"`        // smaller is tried first; equal priorities are one tier
	Weight         int                  `json:"weight"`          // share within the tier, default 1
	Slots          *int                 `json:"slots,omitempty"` // nil: unlimited
	Queue          *Queue               `json:"queue,omitempty"` // nil: no queue
	Breaker        Breaker              `json:"breaker"`
	Timeouts       Timeouts             `json:"timeouts"`
	ModelRules     []ModelRule          `json:"model_rules,omitempty"`
	UpstreamModels map[string]string    `json:"upstream_models,omitempty"` // requested or resolved model → model in the body
	Multipliers    Multipliers          `json:"multipliers"`
	OnDisconnect   string               `json:"on_disconnect,omitempty"` // "cancel" (default), "drain", "drain_up_to:10s"
	Headers        map[string]string    `json:"headers,omitempty"`       // set on every call
	Active         bool                 `json:"active"`
}

// Queue is the waiting room of an upstream.
type Queue struct {
	Enabled    bool     `json:"enabled"`
	Timeout    Duration `json:"timeout"`              // default 30s
	MaxLength  *int     `json:"max_length,omitempty"` // nil: unlimited
	Discipline string   `json:"discipline"`           // "fifo"
}

// Breaker sets when an upstream is taken out of service and how it comes back.
type Breaker struct {
	Failures   int      `json:"failures"`    // consecutive, 1..1,000,000; default 5
	Successes  int      `json:"successes"`   // in half-open; default 2
	OpenFor    Duration `json:"open_for"`    // default 300s
	ProbeEvery Duration `json:"probe_every"` // after a failed probe; default 30s
}

// Timeouts of one call.
type Timeouts struct {
	Connect   Duration `json:"connect"`    // default 10s
	FirstByte Duration `json:"first_byte"` // to the response headers; default 30s
	Idle      Duration `json:"idle"`       // between two reads of the body; default 60s
}

// ModelRule says which models an upstream takes. It filters, logs and prices; it never rewrites the body.
type ModelRule struct {
	Type   string `json:"type"`             // exact, regex, alias
	Value  string `json:"value"`            // the model's name, or the expression
	Target string `json:"target,omitempty"` // alias only
}

// Multipliers scale prices; decimals with at most 4 places, "" is 1.
type Multipliers struct {
	Input  string `json:"input,omitempty"`
	Output string `json:"output,omitempty"`
}

// Account is one credential at an upstream. The credential itself is sealed and referred to by its version.
type Account struct {
	ID            string `json:"id"`
	Upstream      string `json:"upstream"`
	SecretVersion int64  `json:"secret_version"`
	Masked        string `json:"api_key"`         // sk-***1234, for people
	Slots         *int   `json:"slots,omitempty"` // nil: unlimited
	Active        bool   `json:"active"`
}

// Group bundles upstreams or accounts that its keys may use.
type Group struct {
	ID         string   `json:"id"`
	Upstreams  []string `json:"upstreams,omitempty"`
	Accounts   []string `json:"accounts,omitempty"`
	Multiplier string   `json:"multiplier,omitempty"` // on what callers of the group pay; "" is 1
}

// User owns keys; its slots bound all of them together.
type User struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Slots    *int   `json:"slots,omitempty"` // requests at once over all keys; nil: unlimited
	Disabled bool   `json:"disabled"`
}

// Key is an API key. Only its hash is known.
type Key struct {
	ID        string     `json:"id"`
	Hash      string     `json:"hash"`             // "sha256:<hex>" or a bcrypt hash
	Prefix    string     `json:"prefix,omitempty"` // first characters of the secret, for people and for finding bcrypt keys
	User      string     `json:"user,omitempty"`
	Group     string     `json:"group,omitempty"`
	Access    string     `json:"access"` // "restricted": only Upstreams; "unrestricted": all
	Upstreams []string   `json:"upstreams,omitempty"`
	Models    []string   `json:"models,omitempty"` // exact names or globs; empty: all
	Slots     *int       `json:"slots,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Revoked   bool       `json:"revoked"`
}

// Price is what a model costs, in USD per 1M tokens as decimal strings with at most 6 places.
type Price struct {
	ID            string     `json:"id"`    // default: model, or upstream/model
	Model         string     `json:"model"` // exact name or glob
	Upstream      string     `json:"upstream,omitempty"`
	EffectiveFrom *time.Time `json:"effective_from,omitempty"`
	Input         string     `json:"input"`
	Output        string     `json:"output"`
	CachedInput   string     `json:"cached_input,omitempty"`   // "" is the input price
	CacheWrite5m  string     `json:"cache_write_5m,omitempty"` // "" is the input price
	CacheWrite1h  string     `json:"cache_write_1h,omitempty"` // "" is the 5m price
	PerRequest    string     `json:"per_request,omitempty"`    // USD per attempt
}

// Rule is an operator's addition to the failure table.
type Rule struct {
	ID       string     `json:"id"`
	Upstream string     `json:"upstream,omitempty"` // "": all
	Priority int        `json:"priority"`
	Match    RuleMatch  `json:"match"`
	Action   RuleAction `json:"action"`
}

// RuleMatch holds conditions that must all be met; at least one is set.
type RuleMatch struct {
	Status      []int  `json:"status,omitempty"`
	ErrorType   string `json:"error_type,omitempty"`
	BodyPattern string `json:"body_pattern,omitempty"` // regular expression on the first 64 KiB
	Header      string `json:"header,omitempty"`       // "name: pattern"
}

// RuleAction says what a match does.
type RuleAction struct {
	Failover     *bool    `json:"failover,omitempty"`
	CountBreaker bool     `json:"count_breaker"` // a matched rule suppresses counting unless it asks for it
	BlockFor     Duration `json:"block_for,omitempty"`
}

// Setting is one named value, see Settings.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kind and Ident make the structs Resources.
func (*Upstream) Kind() Kind { return KindUpstream }

// Kind of an account.
func (*Account) Kind() Kind { return KindAccount }

// Kind of a group.
func (*Group) Kind() Kind { return KindGroup }

// Kind of a user.
func (*User) Kind() Kind { return KindUser }

// Kind of a key.
func (*Key) Kind() Kind { return KindKey }

// Kind of a price.
func (*Price) Kind() Kind { return KindPrice }

// Kind of a rule.
func (*Rule) Kind() Kind { return KindRule }

// Kind of a setting.
func (*Setting) Kind() Kind { return KindSetting }

// Ident is the id within the kind.
func (r *Upstream) Ident() string { return r.ID }

// Ident is the id within the kind.
func (r *Account) Ident() string { return r.ID }

// Ident is the id within the kind.
func (r *Group) Ident() string { return r.ID }

// Ident is the id within the kind.
func (r *User) Ident() string { return r.ID }

// Ident is the id within the kind.
func (r *Key) Ident() string { return r.ID }

// Ident is the id within the kind.
func (r *Price) Ident() string { return r.ID }

// Ident is the id within the kind.
func (r *Rule) Ident() string { return r.ID }

// Ident is the name.
func (r *Setting) Ident() string { return r.Name }
