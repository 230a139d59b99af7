package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// resourceYAML writes a resource of the API as a document that apply takes back, its fields in the order of the JSON. It is
// written here because the library's encoder leaves texts plain that read back as something else: ".inf", "? a", a tab.
func resourceYAML(resource []byte) ([]byte, error) {
	w := yamlWriter{in: jsontext.NewDecoder(bytes.NewReader(resource))}
	if w.in.PeekKind() != '{' {
		return nil, errors.New("write resource: it is no object")
	}
	err := w.block(0)
	return bytes.TrimPrefix(w.out, []byte("\n")), errors.Wrap(err, "write resource")
}

// yamlWriter turns JSON into YAML in blocks.
type yamlWriter struct {
	in  *jsontext.Decoder
	out []byte
}

const yamlIndent = 2

// block writes the next value behind what it belongs to: on the same line, or on lines below with so many spaces before them.
func (w *yamlWriter) block(indent int) error {
	open, err := w.in.ReadToken()
	if err != nil {
		return err
	}
	switch open.Kind() {
	case '{', '[':
	case '"':
		w.out = append(append(append(w.out, ' '), yamlText(open.String())...), '\n')
		return nil
	default:
		w.out = append(append(append(w.out, ' '), open.String()...), '\n')
		return nil
	}
	list := open.Kind() == '['
	if next := w.in.PeekKind(); next == ']' || next == '}' {
		w.out = append(append(append(append(w.out, ' '), open.String()...), next.String()...), '\n')
		_, err = w.in.ReadToken()
		return err
	}
	w.out = append(w.out, '\n')
	for k := w.in.PeekKind(); k != ']' && k != '}'; k = w.in.PeekKind() {
		w.out = append(w.out, strings.Repeat(" ", indent)...)
		if err := w.entry(list, indent); err != nil {
			return err
		}
	}
	_, err = w.in.ReadToken()
	return err
}

// entry writes one entry of a list or of an object, of which the first line has its spaces already.
func (w *yamlWriter) entry(list bool, indent int) error {
	if !list {
		name, err := w.in.ReadToken()
		if err != nil {
			return err
		}
		w.out = append(append(w.out, yamlText(name.String())...), ':')
		return w.block(indent + yamlIndent)
	}
	w.out = append(w.out, '-')
	from := len(w.out)
	if err := w.block(indent + yamlIndent); err != nil {
		return err
	}
	if w.out[from] == '\n' { // the first line of what is within stands behind the dash
		w.out = slices.Delete(w.out, from, from+indent+yamlIndent)
		w.out[from] = ' '
	}
	return nil
}

var (
	// plainText needs no quotes, unless it is one of plainNot, in any spelling: ids, addresses, durations and times.
	plainText = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9_./@+*-]*(?::[A-Za-z0-9_./@+*-]+)*|(?:[0-9]+(?:ns|us|ms|s|m|h))+|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z)$`)
	// plainNot is what one reader of YAML or another takes for no text.
	plainNot = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity"}
)

// yamlText is a text, in quotes where it could be read as anything else.
func yamlText(s string) string {
	if plainText.MatchString(s) && !slices.Contains(plainNot, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !unicode.IsPrint(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
