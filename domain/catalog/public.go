package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// build makes the resource of a checked document.
func build(ref Ref, tree map[string]any) (Resource, Extras, error) {
	var extras Extras
	var r Resource
	switch ref.Kind {
	case KindUpstream:
		u := NewUpstream("", "")
		if tree["queue"] != nil {
			u.Queue = &Queue{Enabled: true} // unless the document says otherwise
		}
		if tree["affinity_migration"] != nil {
			u.AffinityMigration = &Migration{Enabled: true}
		}
		r = u
	case KindAccount:
		r = &Account{Active: true}
	case KindGroup:
		r = &Group{}
	case KindUser:
		r = &User{}
	case KindKey:
		r = &Key{}
		extras.RevokedUnsaid = tree["revoked"] == nil
	case KindPrice:
		r = &Price{}
	case KindRule:
		r = &Rule{}
	case KindSetting:
		r = &Setting{}
	case KindWebhook:
		r = &Webhook{Active: true}
	}
	if s, ok := r.(Sealed); ok {
		if fault := takeCredential(tree, s, &extras); fault != "" {
			return nil, Extras{}, &InvalidError{Ref: ref, Field: s.secretField(), Reason: fault}
		}
	}
	text, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil { // the walk has checked every type: not expected, but not to be lost either
		return nil, Extras{}, &InvalidError{Ref: ref, Reason: err.Error()}
	}
	if p, ok := r.(*Price); ok {
		p.ID = p.defaultID()
	}
	return r, extras, nil
}

// takeCredential moves the credential of a document to extras and leaves its masked form. The fault is what is wrong
// with it, "" for nothing.
func takeCredential(tree map[string]any, r Sealed, extras *Extras) (fault string) {
	field := r.secretField()
	plain, given := tree[field].(string)
	if !given || IsMasked(plain) {
		extras.CredentialUnchanged = given
		return ""
	}
	if r.Kind() == KindWebhook && len(plain) < webhookSecretMin && plain != "" {
		return fmt.Sprintf("is shorter than %d bytes", webhookSecretMin)
	}
	// It would cut the header that it is sent in, or lose its ends there.
	if r.Kind() == KindAccount && (strings.TrimSpace(plain) != plain || strings.ContainsFunc(plain, isControl)) {
		return "has control characters, such as the end of a line, or spaces around it"
	}
	extras.Credential, tree[field] = plain, Mask(plain)
	return ""
}

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

// Faults takes an error of this package apart, for answers that list every field that is wrong.
func Faults(err error) []*InvalidError {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var list []*InvalidError
		for _, e := range many.Unwrap() {
			list = append(list, Faults(e)...)
		}
		return list
	}
	var one *InvalidError
	if errors.As(err, &one) {
		return []*InvalidError{one}
	}
	return nil
}
