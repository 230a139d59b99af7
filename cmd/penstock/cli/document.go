package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// document is one YAML document as JSON, with the lines that its fields stand on.
type document struct {
	file  string
	line  int            // of its first field
	lines map[string]int // by path, such as "breaker.failures" or "model_rules[2].value"
	json  []byte         // an object
	kind  string         // "" when it says none
	id    string         // its "id" or "name", for messages
}

// at is "file:line" of a field, or of the nearest thing around it.
func (d *document) at(field string) string {
	for path := field; path != ""; {
		if line, ok := d.lines[path]; ok {
			return d.file + ":" + strconv.Itoa(line)
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return d.file + ":" + strconv.Itoa(d.line)
}

// name is "upstream openai-main", as far as it is known.
func (d *document) name() string { return strings.TrimSpace(d.kind + " " + d.id) }

// parseDocuments reads YAML of any number of documents; empty ones are passed over. Errors name file and line.
func parseDocuments(file string, text []byte) ([]document, error) {
	var all []document
	for _, part := range split(strings.TrimPrefix(string(text), "\ufeff")) { // some editors begin files with that mark
		parsed, err := parser.ParseBytes([]byte(part.text), 0)
		if err != nil {
			return nil, syntax(file, part.above, err)
		}
		for _, doc := range parsed.Docs {
			if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
				continue
			}
			d, err := readDocument(file, part.above, doc.Body)
			if err != nil {
				return nil, err
			}
			all = append(all, *d)
		}
	}
	return all, nil
}

// part is the text of one document and how many lines stand above it.
type part struct {
	text  string
	above int
}

// split cuts a file at its document marks: in YAML a line that begins with "---" or "..." is one wherever it stands.
// The parser is not asked to do it, because it loses what follows an empty document.
func split(text string) []part {
	parts := []part{{}}
	line := 0
	for row := range strings.Lines(text) {
		mark := strings.HasPrefix(row, "---") || strings.HasPrefix(row, "...")
		if rest := row[min(3, len(row)):]; mark && strings.TrimLeft(rest[:min(1, len(rest))], " \t\r\n") == "" {
			parts = append(parts, part{above: line})
			row = "   " + rest
		}
		parts[len(parts)-1].text += row
		line++
	}
	return parts
}

// syntax is the parser's error on one line, without its drawing of the source: that may hold credentials.
func syntax(file string, above int, err error) error {
	var known yaml.Error
	if errors.As(err, &known) && known.GetToken() != nil {
		return errors.Newf("%s:%d: %s", file, above+known.GetToken().Position.Line, known.GetMessage())
	}
	return errors.Newf("%s: %s", file, err)
}

func readDocument(file string, above int, body ast.Node) (*document, error) {
	w := walker{file: file, above: above, lines: map[string]int{}, anchors: map[string]ast.Node{}}
	if err := w.value(body, ""); err != nil {
		return nil, err
	}
	d := &document{file: file, line: w.line(body), lines: w.lines, json: w.out.Bytes()}
	var head struct {
		Kind any `json:"kind"`
		ID   any `json:"id"`
		Name any `json:"name"`
	}
	if err := json.Unmarshal(d.json, &head); err != nil {
		return nil, errors.Newf("%s:%d: a document must be a list of fields such as \"kind: upstream\"", file, d.line)
	}
	for _, line := range w.lines {
		d.line = min(d.line, line)
	}
	d.kind, d.id = text(head.Kind), text(head.ID)
	if d.id == "" {
		d.id = text(head.Name)
	}
	return d, nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// depthMax bounds nesting, and so what aliases can blow up; sizeMax bounds the JSON of a document.
const (
	depthMax = 32
	sizeMax  = 8 << 20
)

// walker writes JSON and remembers lines. It reads the syntax tree rather than decoded values, so that numbers keep
// the digits they were written with.
type walker struct {
	file    string
	above   int // lines above the document
	out     bytes.Buffer
	lines   map[string]int
	anchors map[string]ast.Node
	depth   int
}

func (w *walker) fail(node ast.Node, path, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	if path != "" {
		message = path + ": " + message
	}
	return errors.Newf("%s:%d: %s", w.file, w.line(node), message)
}

func (w *walker) value(node ast.Node, path string) error {
	w.depth++
	defer func() { w.depth-- }()
	if w.depth > depthMax || w.out.Len() > sizeMax {
		return w.fail(node, path, "is too deep or too large")
	}
	switch n := node.(type) {
	case *ast.MappingNode:
		return w.mapping(n.Values, path)
	case *ast.MappingValueNode:
		return w.mapping([]*ast.MappingValueNode{n}, path)
	case *ast.SequenceNode:
		return w.sequence(n, path)
	case *ast.AnchorNode:
		w.anchors[n.Name.GetToken().Value] = n.Value
		return w.value(n.Value, path)
	case *ast.AliasNode:
		target, ok := w.anchors[n.Value.GetToken().Value]
		if !ok {
			return w.fail(node, path, "there is no anchor &%s", n.Value.GetToken().Value)
		}
		return w.value(target, path)
	case *ast.TagNode:
		return w.fail(node, path, "tags such as %s are not supported", n.Start.Value)
	}
	return w.scalar(node, path)
}

func (w *walker) scalar(node ast.Node, path string) error {
	switch n := node.(type) {
	case *ast.StringNode:
		return w.text(n.Value)
	case *ast.LiteralNode:
		return w.text(n.Value.Value)
	case *ast.BoolNode:
		w.out.WriteString(strconv.FormatBool(n.Value))
		return nil
	case *ast.NullNode:
		w.out.WriteString("null")
		return nil
	case *ast.IntegerNode:
		return w.whole(n, path)
	case *ast.FloatNode:
		return w.number(n, path)
	}
	return w.fail(node, path, "a %s is not supported", strings.ToLower(node.Type().YAMLName()))
}

// decimalDigits are those of a whole number that means the same to everybody: 010 is eight to some.
var decimalDigits = regexp.MustCompile(`^[-+]?(?:0|[1-9][0-9_]*)$`)

func (w *walker) whole(n *ast.IntegerNode, path string) error {
	if digits := n.Token.Value; !decimalDigits.MatchString(digits) {
		return w.fail(n, path, "%s is not a decimal number (a text needs quotes)", digits)
	}
	fmt.Fprintf(&w.out, "%d", n.Value)
	return nil
}

// number writes a decimal as it stands in the file, never through a float.
func (w *walker) number(n *ast.FloatNode, path string) error {
	digits := n.Token.Value
	if !json.Valid([]byte(digits)) {
		return w.fail(n, path, "%s is not a decimal number", digits)
	}
	w.out.WriteString(digits)
	return nil
}

func (w *walker) text(s string) error {
	b, err := json.Marshal(s)
	w.out.Write(b)
	return err
}

func (w *walker) mapping(values []*ast.MappingValueNode, path string) error {
	w.out.WriteByte('{')
	for i, pair := range values {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if pair.Key.IsMergeKey() {
			return w.fail(pair, path, "merge keys (<<) are not supported")
		}
		name, err := w.key(pair.Key, path)
		if err != nil {
			return err
		}
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		w.lines[inner] = w.line(pair.Key)
		if err := w.text(name); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.value(pair.Value, inner); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

func (w *walker) key(key ast.MapKeyNode, path string) (string, error) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return k.GetToken().Value, nil
	}
	return "", w.fail(key, path, "a field's name must be text")
}

func (w *walker) sequence(n *ast.SequenceNode, path string) error {
	w.out.WriteByte('[')
	for i, item := range n.Values {
		if i > 0 {
			w.out.WriteByte(',')
		}
		inner := path + "[" + strconv.Itoa(i) + "]"
		w.lines[inner] = w.line(item)
		if err := w.value(item, inner); err != nil {
			return err
		}
	}
	w.out.WriteByte(']')
	return nil
}

func (w *walker) line(node ast.Node) int { return w.above + lineOf(node) }

// lineOf is where a node begins; a mapping's own token is a colon further on.
func lineOf(node ast.Node) int {
	var t *token.Token
	switch n := node.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return lineOf(n.Values[0])
		}
		t = n.Start
	case *ast.MappingValueNode:
		t = n.Key.GetToken()
	default:
		t = node.GetToken()
	}
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}
