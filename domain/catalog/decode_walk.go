package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

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
	if typ != "o" && typ != "{}" && typ != "{o}" && typ != "?" {
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
