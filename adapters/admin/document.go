package admin

import (
	stdjson "encoding/json"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/domain/catalog"
)

// fields is a resource document by field. A name that stands twice is an error: parsers differ on which one counts.
type fields map[string]jsontext.Value

// parseFields reads a body.
func parseFields(body []byte) (fields, error) {
	if jsontext.Value(body).Kind() != '{' {
		return nil, invalid("body", "must be a JSON object")
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, invalid("body", "is not a JSON object: "+err.Error())
	}
	return f, nil
}

// readBody reads a body into what an operation takes. A field that stands twice, in whatever spelling, is an error: the standard
// library takes the last one, so that a dry run could be none. Documents of resources are looked at by who reads them.
func readBody(body []byte, into any) error {
	if _, document := into.(*stdjson.RawMessage); !document {
		var f fields
		if err := json.Unmarshal(body, &f); errors.Is(err, jsontext.ErrDuplicateName) {
			return errors.New("a field is given twice")
		}
		seen := map[string]bool{}
		for name := range f {
			if seen[strings.ToLower(name)] {
				return errors.Newf("%s is given twice", strings.ToLower(name))
			}
			seen[strings.ToLower(name)] = true
		}
	}
	return stdjson.Unmarshal(body, into)
}

// text is a field that holds a string; "" when it is absent.
func (f fields) text(name string) (string, error) {
	value, ok := f[name]
	if !ok {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", invalid("body."+name, "must be a string")
	}
	return s, nil
}

func (f fields) document() ([]byte, error) { return json.Marshal(f, json.Deterministic(true)) }

// withIdent is a document whose id is the one of the path. It may say its kind and id, if they are the same.
func withIdent(k kind, id string, document []byte) ([]byte, error) {
	f, err := parseFields(document)
	if err != nil {
		return nil, err
	}
	if err := f.dropKind(k.kind); err != nil {
		return nil, err
	}
	own, err := f.text(k.id)
	if err != nil {
		return nil, err
	}
	if own != "" && own != id {
		return nil, invalid("body."+k.id, "is "+strconv.Quote(own)+", the path says "+strconv.Quote(id))
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return nil, invalid("path.id", "is not valid text")
	}
	f[k.id] = quoted
	return f.document()
}

func (f fields) dropKind(want catalog.Kind) error {
	name, err := f.text("kind")
	if err != nil {
		return err
	}
	if name != "" && catalog.Kind(name) != want {
		return invalid("body.kind", "is "+strconv.Quote(name)+", the path is for "+string(want))
	}
	delete(f, "kind")
	return nil
}

// merge lays a merge patch (RFC 7396) over the top-level fields and, where both are objects, over those within.
func (f fields) merge(patch fields) error {
	for name, value := range patch {
		switch {
		case value.Kind() == 'n':
			delete(f, name)
		case value.Kind() == '{' && f[name].Kind() == '{':
			var into, from fields
			if err := json.Unmarshal(f[name], &into); err != nil {
				return err
			}
			if err := json.Unmarshal(value, &from); err != nil {
				return err
			}
			if err := into.merge(from); err != nil {
				return err
			}
			merged, err := into.document()
			if err != nil {
				return err
			}
			f[name] = merged
		default:
			f[name] = value
		}
	}
	return nil
}
