package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Extras is what a resource file holds beside the resource.
type Extras struct {
	// Credential is that of a Sealed resource in plain text, to be sealed at once; never in the resource.
	Credential string
	// CredentialUnchanged: the file shows the masked form, the credential stays what it is.
	CredentialUnchanged bool
	// RevokedUnsaid: the file says nothing about the revocation of its key, see Apply: one that was written before the key was
	// revoked must not bring it back to life. "revoked: false" does.
	RevokedUnsaid bool
}

// fields are the spellings of resource files by kind: "path type" per line. Types: s string, i whole number, b boolean,
// d duration, D one above zero (which would be taken for none given), t time, n decimal (in quotes or not), v any scalar as
// text, o object, {} object of strings, [] in front for a list, {o} object of objects whose fields stand under "*".
var fields = map[Kind]string{
	KindUpstream: `base_url s|path_prefix s|capabilities []s|priority i|weight i|slots i
		queue o|queue.enabled b|queue.timeout D|queue.max_length i|queue.discipline s|queue.age_every D|queue.fail_fast b
		breaker o|breaker.failures i|breaker.successes i|breaker.open_for d|breaker.probe_every d
		breaker.open_growth n|breaker.open_max D|breaker.per s
		timeouts o|timeouts.connect D|timeouts.first_byte D|timeouts.idle D
		model_rules []o|model_rules.type s|model_rules.value s|model_rules.target s
		upstream_models {}|multipliers o|multipliers.input n|multipliers.output n|on_disconnect s|headers {}|active b
		affinity_migration o|affinity_migration.enabled b|affinity_migration.metric s|affinity_migration.threshold i|affinity_migration.direction s` + moneyFields,
	KindAccount: `upstream s|api_key s|slots i|active b|priority i|expires_at t`,
	KindGroup:   `upstreams []s|accounts []s|multiplier n|strategy s|affinity s|clients []s` + moneyFields,
	KindUser:    `name s|slots i|disabled b|overdraft n|limits.rpm i|limits.tpm i` + moneyFields,
	KindKey: `hash s|prefix s|user s|group s|access s|upstreams []s|models []s|multiplier n|slots i|priority s|weight i|expires_at t|revoked b|limits.rpm i|limits.tpm i` + moneyFields + `
		ips o|ips.allow []s|ips.deny []s|max_ips i|ip_window d|curfew o|curfew.from s|curfew.to s|curfew.zone s`,
	KindPrice: `model s|upstream s|effective_from t|max_input_tokens i|max_output_tokens i|source s|origin s|` + rateFields("") +
		`|tiers []o|tiers.above_input_tokens i|tiers.inclusive b|` + rateFields("tiers.") +
		`|service_tiers {o}|` + rateFields("service_tiers.*.") +
		`|service_tiers.*.tiers []o|service_tiers.*.tiers.above_input_tokens i|service_tiers.*.tiers.inclusive b|` + rateFields("service_tiers.*.tiers."),
	KindRule: `upstream s|priority i|match o|match.status []i|match.error_type s|match.body_pattern s|match.header s
		action o|action.failover b|action.count_breaker b|action.block_for d`,
	KindSetting: `name s|value v`,
	KindWebhook: `url s|events []s|secret s|active b`,
}

// moneyFields are the limits of money of every kind that has some.
const moneyFields = `|limits o|limits.spending []o|limits.spending.period s|limits.spending.hours i|limits.spending.zone s
	limits.spending.limit n|limits.budget n|budget s`

// schema is the table of one kind, taken apart.
func schema(kind Kind) map[string]string {
	types := map[string]string{"kind": "s"}
	if kind != KindSetting {
		types["id"] = "s"
	}
	for _, f := range strings.FieldsFunc(fields[kind], func(r rune) bool { return r == '|' || r == '\n' }) {
		path, typ, _ := strings.Cut(strings.TrimSpace(f), " ")
		types[path] = typ
	}
	return types
}

// DecodeResource reads one resource in the form of resource files, as JSON. The kind may be "" when the text names it.
// Unknown and doubled fields and wrong types are errors that name the field; all of them are
// reported at once. Defaults that depend on a field being absent are set; Decide does the rest.
func DecodeResource(kind Kind, text []byte) (Resource, Extras, error) {
	var head struct {
		Kind Kind   `json:"kind"`
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	if !json.Valid(text) {
		return nil, Extras{}, &InvalidError{Ref: Ref{Kind: kind}, Reason: "is not valid JSON"}
	}
	_ = json.Unmarshal(text, &head) // wrong types are found, and named, below
	if kind == "" {
		kind = head.Kind
	}
	if kind == KindSetting {
		head.ID = head.Name
	}
	w := &walker{checker: checker{ref: Ref{kind, head.ID}}, types: schema(kind)}
	switch {
	case !kind.Valid():
		w.fail("kind", "must be one of %s", kinds)
	case head.Kind != "" && head.Kind != kind:
		w.fail("kind", "is %s, not %s", head.Kind, kind)
	}
	if len(w.faults) > 0 {
		return nil, Extras{}, errors.Join(w.faults...)
	}
	w.dec = json.NewDecoder(bytes.NewReader(text))
	w.dec.UseNumber()
	tree, isObject := w.value("", "", "o").(map[string]any)
	if !isObject && len(w.faults) == 0 {
		w.fail("", "must be an object")
	}
	if len(w.faults) > 0 {
		return nil, Extras{}, errors.Join(w.faults...)
	}
	return build(w.ref, tree)
}

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
	if !given || isMasked(plain) {
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
