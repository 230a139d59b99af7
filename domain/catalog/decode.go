package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
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

// walker checks a document against the table and returns it with decimals and scalars as text.
type walker struct {
	checker
	types map[string]string
	dec   *json.Decoder
}

// value reads one value. shown is the path for people, path the one of the table.
func (w *walker) value(shown, path, typ string) any {
	tok, err := w.dec.Token()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			w.fail(shown, "cannot be read")
		}
		return nil
	}
	switch v := tok.(type) {
	case json.Delim:
		return w.nested(v, shown, path, typ)
	case nil:
		return nil // the same as absent
	case string:
		w.scalar(shown, typ, "string", v)
		return v
	case json.Number:
		w.scalar(shown, typ, "number", v.String())
		if typ == "n" || typ == "v" {
			return v.String()
		}
		return v
	case bool:
		w.scalar(shown, typ, "bool", "")
		if typ == "v" {
			return fmt.Sprint(v)
		}
		return v
	}
	return nil
}

// nested reads an object or a list, checking only what belongs there.
func (w *walker) nested(open json.Delim, shown, path, typ string) any {
	if open == '[' {
		entry, isList := strings.CutPrefix(typ, "[]")
		if !isList && typ != "?" {
			w.wrong(shown, typ)
			entry = "?"
		}
		list := []any{}
		for i := 0; w.dec.More(); i++ {
			v := w.value(indexed(shown, i), path, entry)
			if v == nil && entry != "?" {
				w.fail(indexed(shown, i), "must not be null")
			}
			list = append(list, v)
		}
		_, _ = w.dec.Token()
		return list
	}
	if typ != "o" && typ != "o-" && typ != "{}" && typ != "{o}" && typ != "?" {
		w.wrong(shown, typ)
		typ = "?"
	}
	object := map[string]any{}
	for w.dec.More() {
		tok, _ := w.dec.Token()
		name, _ := tok.(string)
		if _, twice := object[name]; twice {
			w.fail(dotted(shown, name), "is given twice")
		}
		under := dotted(path, name)
		if typ == "{o}" {
			under = dotted(path, "*")
		}
		object[name] = w.field(dotted(shown, name), under, typ)
	}
	_, _ = w.dec.Token()
	return object
}

// field reads the value of one field of an object of the given type.
func (w *walker) field(shown, path, parent string) any {
	switch parent {
	case "{}":
		return w.value(shown, path, "s")
	case "{o}":
		return w.value(shown, path, "o")
	case "?":
		return w.value(shown, path, "?")
	}
	typ, known := w.types[path]
	switch {
	case !known && path == "secret" && w.ref.Kind == KindKey:
		w.fail(shown, "is not accepted; give its hash")
	case !known:
		w.fail(shown, "unknown field")
	default:
		return w.value(shown, path, typ)
	}
	return w.value(shown, path, "?")
}

func dotted(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// expected says what each type is.
var expected = map[string]string{
	"s": "must be a string", "i": "must be a whole number", "b": "must be true or false",
	"d": `must be a duration such as "30s"`, "D": `must be a duration above zero, such as "30s"`, "t": `must be a time such as "2026-01-31T00:00:00Z"`,
	"n": `must be a decimal such as "2.5"`, "v": "must be a single value", "o": "must be an object", "{}": "must be an object of strings", "{o}": "must be an object of objects",
}

func (w *walker) wrong(shown, typ string) {
	if strings.HasPrefix(typ, "[]") {
		w.fail(shown, "must be a list")
		return
	}
	reason, known := expected[typ]
	if !known {
		reason = "is not of the right type"
	}
	w.fail(shown, "%s", reason)
}

// scalar checks a string, number or boolean.
func (w *walker) scalar(shown, typ, is, text string) {
	ok := false
	switch typ {
	case "?", "v":
		ok = true
	case "o-":
		ok = true // named as not supported by later
	case "s":
		ok = is == "string"
	case "b":
		ok = is == "bool"
	case "n":
		ok = is != "bool"
	case "i":
		var n int
		ok = is == "number" && json.Unmarshal([]byte(text), &n) == nil
	case "d", "D":
		var d Duration
		ok = is == "string" && d.UnmarshalText([]byte(text)) == nil && (d > 0 || typ == "d")
	case "t":
		var t time.Time
		ok = is == "string" && t.UnmarshalText([]byte(text)) == nil
	}
	if !ok {
		w.wrong(shown, typ)
	}
}
