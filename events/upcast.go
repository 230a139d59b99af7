package events

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// settledMultipliers leads from schema 1 of request.settled to 2. Schema 1 had three members beside the others, which were
// "", "1" or "1.00" for what is not multiplied; schema 2 has one object of those that are not 1, or none.
func settledMultipliers(object []byte) ([]byte, error) {
	if !bytes.Contains(object, []byte(`_multiplier"`)) && !bytes.Contains(object, []byte(`\u`)) {
		return object, nil
	}
	places := map[string]int{"input_multiplier": 0, "output_multiplier": 1, "group_multiplier": 2}
	names := [3]string{"input", "output", "group"}
	var values [3]string
	at := 0 // where the object of multipliers goes: the place of the first one
	out, err := eachMember(object, func(out []byte, name string, value jsontext.Value) ([]byte, error) {
		i, is := places[name]
		if !is {
			return appendMember(out, name, value), nil
		}
		if at == 0 {
			at = len(out)
		}
		text, err := jsontext.AppendUnquote(nil, value)
		values[i] = string(text)
		return out, err
	})
	if err != nil || at == 0 {
		return out, err
	}
	inner := []byte("{")
	for i, v := range values {
		if !one(v) {
			quoted, _ := jsontext.AppendQuote(nil, v) // the error tells of invalid UTF-8, which is replaced
			inner = appendMember(inner, names[i], quoted)
		}
	}
	if len(inner) == 1 {
		return out, nil
	}
	var member []byte
	if at > 1 {
		member = append(member, ',')
	}
	member = append(append(member, `"multipliers":`...), append(inner, '}')...)
	if at == 1 && out[1] != '}' {
		member = append(member, ',')
	}
	return append(append(append([]byte(nil), out[:at]...), member...), out[at:]...), nil
}

// one says that a decimal is 1, or is not said.
func one(decimal string) bool {
	whole, places, _ := bytes.Cut([]byte(decimal), []byte("."))
	return decimal == "" || string(whole) == "1" && len(bytes.Trim(places, "0")) == 0
}

// eachMember makes a new object of the members of another one, in order; each appends what becomes of it.
func eachMember(object []byte, each func(out []byte, name string, value jsontext.Value) ([]byte, error)) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil { // the brace
		return nil, err
	}
	out := make([]byte, 0, len(object))
	out = append(out, '{')
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if out, err = each(out, key, value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendMember appends a member behind an open brace or another member.
func appendMember(out []byte, name string, value jsontext.Value) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	out, _ = jsontext.AppendQuote(out, name) // the error tells of invalid UTF-8, which is replaced
	return append(append(out, ':'), value...)
}
