package catalog

import (
	"cmp"
	"slices"
	"time"
)

// Public is a resource in the form of resource files, ready for JSON: with its kind first, secrets masked, and such
// that applying it again changes nothing.
func Public(r Resource) any {
	switch r := r.(type) {
	case *Upstream:
		v := *r
		v.Multipliers.Input = cmp.Or(v.Multipliers.Input, "1")
		v.Multipliers.Output = cmp.Or(v.Multipliers.Output, "1")
		v.OnDisconnect = cmp.Or(v.OnDisconnect, disconnectCancel)
		v.Breaker = v.Breaker.whole()
		v.Headers, v.UpstreamModels = copyMap(v.Headers), copyMap(v.UpstreamModels)
		v.Capabilities, v.ModelRules = slices.Clone(v.Capabilities), slices.Clone(v.ModelRules)
		v.AffinityMigration = v.AffinityMigration.clone()
		return struct {
			Kind Kind `json:"kind"`
			Upstream
		}{KindUpstream, v}
	case *Account:
		return struct {
			Kind     Kind   `json:"kind"`
			ID       string `json:"id"`
			Upstream string `json:"upstream"`
			APIKey   string `json:"api_key"`
			Slots    *int   `json:"slots,omitempty"`
			Active   bool   `json:"active"`

			Priority  int        `json:"priority,omitempty"`
			ExpiresAt *time.Time `json:"expires_at,omitempty"`
		}{KindAccount, r.ID, r.Upstream, r.Masked, r.Slots, r.Active, r.Priority, r.ExpiresAt}
	case *Group:
		v := *r
		v.Multiplier = cmp.Or(v.Multiplier, "1")
		return struct {
			Kind Kind `json:"kind"`
			Group
		}{KindGroup, v}
	case *User:
		return struct {
			Kind Kind `json:"kind"`
			User
		}{KindUser, *r}
	case *Key:
		return struct {
			Kind Kind `json:"kind"`
			Key
		}{KindKey, *r}
	case *Price:
		return struct {
			Kind Kind `json:"kind"`
			Price
		}{KindPrice, r.clone()}
	case *Rule:
		return struct {
			Kind Kind `json:"kind"`
			Rule
		}{KindRule, *r}
	case *Setting:
		return struct {
			Kind Kind `json:"kind"`
			Setting
		}{KindSetting, *r}
	case *Webhook:
		return struct {
			Kind   Kind     `json:"kind"`
			ID     string   `json:"id"`
			URL    string   `json:"url"`
			Events []string `json:"events"`
			Secret string   `json:"secret"`
			Active bool     `json:"active"`
		}{KindWebhook, r.ID, r.URL, slices.Clone(r.Events), r.Masked, r.Active}
	}
	return nil
}
