package admin

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/catalog"
)

// kind is one kind of resource as the API shows it.
type kind struct {
	kind  catalog.Kind
	path  string // plural, under /api/v1
	value any    // for its schema
	id    string // name of the field that holds the id
}

// kinds in the order in which one refers to the other.
var kinds = []kind{
	{catalog.KindUpstream, "upstreams", catalog.Upstream{}, "id"},
	{catalog.KindAccount, "accounts", catalog.Account{}, "id"},
	{catalog.KindGroup, "groups", catalog.Group{}, "id"},
	{catalog.KindUser, "users", catalog.User{}, "id"},
	{catalog.KindKey, "keys", catalog.Key{}, "id"},
	{catalog.KindPrice, "prices", catalog.Price{}, "id"},
	{catalog.KindRule, "rules", catalog.Rule{}, "id"},
	{catalog.KindSetting, "settings", catalog.Setting{}, "name"},
	{catalog.KindWebhook, "webhooks", catalog.Webhook{}, "id"},
}

// Plural is the path of a kind under /api/v1; "" for what is no kind.
func Plural(k catalog.Kind) string { return kindOf(k).path }

func kindOf(name catalog.Kind) kind {
	for _, k := range kinds {
		if k.kind == name {
			return k
		}
	}
	return kind{}
}

// schema describes a resource as it is written and read. Nothing but the id is required: defaults fill the rest, and
// what a kind demands beyond that is said by its errors.
func (k kind) schema(registry huma.Registry) *huma.Schema {
	ref := registry.Schema(reflect.TypeOf(k.value), true, string(k.kind))
	full := registry.SchemaFromRef(ref.Ref)
	full.Required = []string{k.id}
	if k.kind == catalog.KindPrice {
		full.Required = []string{"model"} // its id follows from it
	}
	full.Properties["kind"] = &huma.Schema{Type: huma.TypeString, Enum: []any{string(k.kind)}}
	delete(full.Properties, "secret_version") // counts credentials; nobody sets it
	for _, credential := range []string{"api_key", "secret"} {
		if field := full.Properties[credential]; field != nil {
			field.Description = "the credential; sealed on write, shown as sk-***1234"
		}
	}
	return ref
}

// schemaName keeps types of the same name from different packages apart: requestlog.Entry is RequestlogEntry. Types
// of this package keep their name.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	from := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	if t.Name() == "" || from == "" || from == "admin" || from == "v2" || from == "catalog" {
		return name
	}
	return strings.ToUpper(from[:1]) + from[1:] + name
}
