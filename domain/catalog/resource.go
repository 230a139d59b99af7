// Package catalog is the configuration as facts: upstreams, accounts, groups, users, keys, prices, rules, settings and
// webhooks. Commands become facts (Decide), facts become state (Evolve), and the hot path reads an immutable Snapshot.
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

	AffinityMigration *Migration `json:"affinity_migration,omitempty"` // nil: no session moves here from a lower tier

	Limits *Limits `json:"limits,omitempty"` // of what is spent here, at the upstream's prices; no rates
	Budget string  `json:"budget,omitempty"` // how they are kept: "" is postpaid, "strict"
}

// Migration says which sessions that are bound to an upstream of a lower tier move up to this one (C26, C58).
type Migration struct {
	Enabled   bool   `json:"enabled"`
	Metric    string `json:"metric"`    // "tokens": input of the session so far; "length": bytes of the request; default tokens
	Threshold int64  `json:"threshold"` // 1..10,000,000
	Direction string `json:"direction"` // "below": what is smaller moves, larger ones keep their cache (default); "at_or_above"
}

// Queue is the waiting room of an upstream.
type Queue struct {
	Enabled    bool     `json:"enabled"`
	Timeout    Duration `json:"timeout"`              // default 30s
	MaxLength  *int     `json:"max_length,omitempty"` // nil: unlimited
	Discipline string   `json:"discipline"`           // "fifo" (default), "fair": the keys take turns by their weights
	AgeEvery   Duration `json:"age_every,omitempty"`  // so much waiting lifts a waiter by one priority; 0: a third of timeout
	FailFast   bool     `json:"fail_fast,omitempty"`  // refuse at once who is expected to wait beyond its deadline
}

// Breaker sets when an upstream is taken out of service and how it comes back.
type Breaker struct {
	Failures   int      `json:"failures"`    // consecutive, 1..1,000,000; default 5
	Successes  int      `json:"successes"`   // in half-open; default 2
	OpenFor    Duration `json:"open_for"`    // default 300s
	ProbeEvery Duration `json:"probe_every"` // after a failed probe; default 30s

	OpenGrowth string   `json:"open_growth,omitempty"` // what each further failed probe multiplies that by, 1..10; "" is 2
	OpenMax    Duration `json:"open_max,omitempty"`    // cap of what grows; 0 is 5m, or probe_every where that is longer
	Per        string   `json:"per,omitempty"`         // what it guards: "" the upstream, "account_model" each account and model
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

	Priority  int        `json:"priority,omitempty"`   // among the accounts of its upstream; smaller is tried first
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // from then on it serves nothing; nil: never
}

// Group bundles upstreams or accounts that its keys may use.
type Group struct {
	ID         string   `json:"id"`
	Upstreams  []string `json:"upstreams,omitempty"`
	Accounts   []string `json:"accounts,omitempty"`
	Multiplier string   `json:"multiplier,omitempty"` // on what callers of the group pay; "" is 1
	Strategy   string   `json:"strategy,omitempty"`   // as the setting scheduling.strategy; "": the setting
	Affinity   string   `json:"affinity,omitempty"`   // as the setting affinity.mode; "": the setting

	Clients []string `json:"clients,omitempty"` // programs that it serves, such as codex or "claude_code >= 1.0.80"; empty: all
	Limits  *Limits  `json:"limits,omitempty"`  // of what its keys spend together; no rates
	Budget  string   `json:"budget,omitempty"`  // how they are kept: "" is postpaid, "strict"
}

// User owns keys; its slots bound all of them together.
type User struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Slots    *int   `json:"slots,omitempty"` // requests at once over all keys; nil: unlimited
	Disabled bool   `json:"disabled"`

	Limits    *Limits `json:"limits,omitempty"`    // over all keys
	Budget    string  `json:"budget,omitempty"`    // how money is kept, and that nothing is served without credit: "strict", "postpaid"; "": no credit is needed
	Overdraft string  `json:"overdraft,omitempty"` // USD by which the balance may be below zero; "" is none
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
	Priority  string     `json:"priority,omitempty"` // where its requests wait: "high", "" is normal, "low"
	Weight    *int       `json:"weight,omitempty"`   // share of a fair queue, 1..1,000; nil is 1
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Revoked   bool       `json:"revoked"`

	Multiplier string `json:"multiplier,omitempty"` // on what its caller pays, beside the group's; "" is 1

	Limits   *Limits  `json:"limits,omitempty"`
	Budget   string   `json:"budget,omitempty"` // how its limits of money are kept: "" as its user's, "strict", "postpaid"
	IPs      *IPs     `json:"ips,omitempty"`
	MaxIPs   *int     `json:"max_ips,omitempty"`   // from how many addresses it may be used; nil: any number
	IPWindow Duration `json:"ip_window,omitempty"` // an address counts for so long after its last use; 0: for ever
	Curfew   *Curfew  `json:"curfew,omitempty"`    // hours in which it may not be used
}

// Price is what a model costs, in USD per 1M tokens as decimal strings with at most 6 places. What a price does not
// say falls back as each field tells.
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
	Reasoning     string     `json:"reasoning,omitempty"`      // "" is the output price
	AudioInput    string     `json:"audio_input,omitempty"`    // "" is the input price
	AudioOutput   string     `json:"audio_output,omitempty"`   // "" is the output price
	ImageInput    string     `json:"image_input,omitempty"`    // "" is the input price
	ImageOutput   string     `json:"image_output,omitempty"`   // "" is the output price
	PerRequest    string     `json:"per_request,omitempty"`    // USD per attempt
	PerImage      string     `json:"per_image,omitempty"`      // USD per picture that was made
	PerWebSearch  string     `json:"per_web_search,omitempty"` // USD per search that the provider ran
	PerFileSearch string     `json:"per_file_search,omitempty"`

	Tiers        []PriceTier             `json:"tiers,omitempty"`         // of long inputs, by threshold
	ServiceTiers map[string]ServicePrice `json:"service_tiers,omitempty"` // flex, priority, batch … as the upstream reports them

	MaxInputTokens  int64  `json:"max_input_tokens,omitempty"` // that the model takes; 0: unknown
	MaxOutputTokens int64  `json:"max_output_tokens,omitempty"`
	Source          string `json:"source,omitempty"` // "" is set by people; "synced" came from a list and never overrides them
	Origin          string `json:"origin,omitempty"` // where it was read, for people
}

// PriceRates are prices that replace those of a Price where they are set; "" inherits.
type PriceRates struct {
	Input         string `json:"input,omitempty"`
	Output        string `json:"output,omitempty"`
	CachedInput   string `json:"cached_input,omitempty"`
	CacheWrite5m  string `json:"cache_write_5m,omitempty"`
	CacheWrite1h  string `json:"cache_write_1h,omitempty"`
	Reasoning     string `json:"reasoning,omitempty"`
	AudioInput    string `json:"audio_input,omitempty"`
	AudioOutput   string `json:"audio_output,omitempty"`
	ImageInput    string `json:"image_input,omitempty"`
	ImageOutput   string `json:"image_output,omitempty"`
	PerRequest    string `json:"per_request,omitempty"`
	PerImage      string `json:"per_image,omitempty"`
	PerWebSearch  string `json:"per_web_search,omitempty"`
	PerFileSearch string `json:"per_file_search,omitempty"`
}

// PriceTier is the price of the whole request once its input is long.
type PriceTier struct {
	AboveInputTokens int64 `json:"above_input_tokens"`  // of every class together
	Inclusive        bool  `json:"inclusive,omitempty"` // exactly so many are above already
	PriceRates
}

// ServicePrice is the price of one service tier. Its own Tiers come before those of the Price.
type ServicePrice struct {
	PriceRates
	Tiers []PriceTier `json:"tiers,omitempty"`
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
