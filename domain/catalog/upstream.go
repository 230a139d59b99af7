package catalog

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/dialect"
)

// The defaults of an upstream.
var (
	defaultBreaker  = Breaker{Failures: 5, Successes: 2, OpenFor: Duration(300 * time.Second), ProbeEvery: Duration(30 * time.Second)}
	defaultTimeouts = Timeouts{Connect: Duration(10 * time.Second), FirstByte: Duration(30 * time.Second), Idle: Duration(60 * time.Second)}
)

const (
	defaultWeight       = 1
	defaultQueueTimeout = Duration(30 * time.Second)
	disconnectCancel    = "cancel"
	disconnectDrain     = "drain"
)

// NewUpstream has the defaults of a resource file: active, weight 1, breaker and timeouts set.
func NewUpstream(id, baseURL string, capabilities ...dialect.Capability) *Upstream {
	return &Upstream{ID: id, BaseURL: baseURL, Capabilities: capabilities, Weight: defaultWeight, Active: true,
		Breaker: defaultBreaker, Timeouts: defaultTimeouts}
}

func (c *checker) upstream(r Upstream) Resource {
	c.id(r.ID, "")
	r.BaseURL = c.baseURL(r.BaseURL)
	r.PathPrefix = c.pathPrefix(r.PathPrefix)
	r.Capabilities = c.capabilities(r.Capabilities)
	c.between("priority", r.Priority, -1_000_000, 1_000_000, "")
	c.between("weight", r.Weight, 0, 1_000_000, "")
	r.Slots = c.slots(r.Slots)
	r.Queue = c.queue(r.Queue)
	r.Breaker = c.breaker(r.Breaker)
	if r.Timeouts == (Timeouts{}) {
		r.Timeouts = defaultTimeouts
	}
	c.duration("timeouts.connect", r.Timeouts.Connect, time.Hour)
	c.duration("timeouts.first_byte", r.Timeouts.FirstByte, 24*time.Hour)
	c.duration("timeouts.idle", r.Timeouts.Idle, 24*time.Hour)
	r.ModelRules = c.modelRules(r.ModelRules)
	for _, from := range slices.Sorted(maps.Keys(r.UpstreamModels)) {
		c.text("upstream_models", from, true)
		c.text("upstream_models."+from, r.UpstreamModels[from], true)
	}
	r.UpstreamModels = copyMap(r.UpstreamModels)
	r.Multipliers.Input = c.multiplier("multipliers.input", r.Multipliers.Input)
	r.Multipliers.Output = c.multiplier("multipliers.output", r.Multipliers.Output)
	d, err := parseDisconnect(r.OnDisconnect)
	if err != nil {
		c.fail("on_disconnect", "%v", err)
	}
	r.OnDisconnect = d.String()
	r.Headers = c.headers(r.Headers)
	r.AffinityMigration = c.migration(r.AffinityMigration)
	r.Limits = c.limits(r.Limits, false)
	c.budget(r.Budget)
	return &r
}

// baseURL is an http or https address without credentials, query and fragment; trailing slashes go.
func (c *checker) baseURL(s string) string {
	u, err := url.Parse(s)
	reason := ""
	switch {
	case s == "":
		reason = "is required"
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(s, " \t\r\n\x00"):
		reason = "must be an address such as https://api.openai.com"
	case u.User != nil:
		reason = "must not hold credentials; they belong into an account"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(s, "#"):
		reason = "must not have a query or a fragment"
	case len(s) > textMax:
		reason = "is too long"
	}
	if reason != "" {
		c.fail("base_url", "%s", reason)
	}
	return strings.TrimRight(s, "/")
}

func (c *checker) pathPrefix(p *string) *string {
	if p == nil {
		return nil
	}
	v := strings.TrimRight(*p, "/")
	if v != "" && (v[0] != '/' || strings.ContainsAny(v, "?# \t\r\n\x00")) {
		c.fail("path_prefix", "must be \"\" or a path such as /openai/v1")
	}
	return &v
}

func (c *checker) capabilities(list []dialect.Capability) []dialect.Capability {
	if len(list) == 0 {
		c.fail("capabilities", "is required: one or more of %s", dialect.Capabilities())
	}
	out := make([]dialect.Capability, 0, len(list))
	for i, given := range list {
		v := dialect.NormalizeCapability(string(given)) // C5
		switch {
		case !v.Valid():
			c.fail(indexed("capabilities", i), "%q is none of %s", given, dialect.Capabilities())
		case !slices.Contains(out, v):
			out = append(out, v)
		}
	}
	return out
}

func (c *checker) modelRules(list []ModelRule) []ModelRule {
	if !c.atMost("model_rules", len(list), listMax) {
		return nil
	}
	_, faults := compileRules(list)
	for i, r := range list {
		at := indexed("model_rules", i)
		c.text(at+".value", r.Value, true)
		switch {
		case r.Type != "exact" && r.Type != "regex" && r.Type != "alias":
			c.fail(at+".type", "must be exact, regex or alias")
			continue
		case r.Type == "alias":
			c.text(at+".target", r.Target, true)
		case r.Target != "":
			c.fail(at+".target", "only for an alias")
		}
		if reason, bad := faults[i]; bad {
			c.fail(at+".value", "%s", reason)
		}
	}
	return emptyIsNil(slices.Clone(list))
}

// refusedHeaders cannot be set by an upstream: credentials would lie open in events, the rest belongs to the connection.
var refusedHeaders = map[string]string{
	"authorization": "holds a credential; it belongs into an account", "x-api-key": "holds a credential; it belongs into an account",
	"x-goog-api-key": "holds a credential; it belongs into an account", "api-key": "holds a credential; it belongs into an account",
	"cookie": "holds a credential; it belongs into an account", "proxy-authorization": "holds a credential; it belongs into an account",
	"host": "is set by the gateway", "connection": "is set by the gateway", "content-length": "is set by the gateway",
	"transfer-encoding": "is set by the gateway", "accept-encoding": "is set by the gateway", "te": "is set by the gateway",
	"trailer": "is set by the gateway", "upgrade": "is set by the gateway", "keep-alive": "is set by the gateway",
}

func (c *checker) headers(given map[string]string) map[string]string {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field := "headers." + name
		if seen[strings.ToLower(name)] {
			c.fail(field, "is named twice")
		}
		seen[strings.ToLower(name)] = true
		if reason, bad := refusedHeaders[strings.ToLower(name)]; bad {
			c.fail(field, "%s", reason)
		}
		if !isToken(name) {
			c.fail(field, "is not a header name")
		}
		c.text(field, given[name], false)
	}
	return copyMap(given)
}

// isToken is RFC 9110's token.
func isToken(s string) bool {
	for i := range len(s) {
		b := s[i]
		if b <= ' ' || b >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, b) >= 0 {
			return false
		}
	}
	return s != ""
}

// Disconnect says what happens to a running call when its client has gone. The zero value cancels it.
type Disconnect struct {
	Drain bool          // read on for the usage
	For   time.Duration // at most so long; 0: to the end
}

// String is the form of resource files: cancel, drain, drain_up_to:10s.
func (d Disconnect) String() string {
	switch {
	case !d.Drain:
		return disconnectCancel
	case d.For == 0:
		return disconnectDrain
	}
	return "drain_up_to:" + Duration(d.For).String()
}

func parseDisconnect(s string) (Disconnect, error) {
	switch s {
	case "", disconnectCancel:
		return Disconnect{}, nil
	case disconnectDrain:
		return Disconnect{Drain: true}, nil
	}
	text, isUpTo := strings.CutPrefix(s, "drain_up_to:")
	if !isUpTo {
		return Disconnect{}, errors.New("must be cancel, drain or drain_up_to:10s")
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > 24*time.Hour {
		return Disconnect{}, fmt.Errorf("drain_up_to needs a duration of 1ms..24h, not %q", text)
	}
	return Disconnect{Drain: true, For: d}, nil
}
