package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const twoDocuments = `# comment
kind: upstream
id: openai-main
base_url: http://127.0.0.1:9001          # the API root
capabilities: [openai_chat_compatible, openai_responses]
priority: 0
slots: null
queue: {enabled: true, timeout: 30s, max_length: 100}
model_rules:
  - {type: exact, value: gpt-5}
  - type: regex
    value: "^gpt-"
multipliers: {input: "1", output: "1.50"}
headers:
  x-team: a
  1: b
note: |
  two
  lines
ratio: 1.50
active: true
---
---
kind: key
id: team-a
expires_at: 2027-01-02T03:04:05Z
`

func TestYAMLBecomesJSONWithTheDigitsItWasWrittenWith(t *testing.T) {
	all, err := parseDocuments("f.yaml", []byte(twoDocuments))
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, `{"kind":"upstream","id":"openai-main","base_url":"http://127.0.0.1:9001",`+
		`"capabilities":["openai_chat_compatible","openai_responses"],"priority":0,"slots":null,`+
		`"queue":{"enabled":true,"timeout":"30s","max_length":100},`+
		`"model_rules":[{"type":"exact","value":"gpt-5"},{"type":"regex","value":"^gpt-"}],`+
		`"multipliers":{"input":"1","output":"1.50"},"headers":{"x-team":"a","1":"b"},`+
		`"note":"two\nlines\n","ratio":1.50,"active":true}`, string(all[0].json))
	require.Equal(t, `{"kind":"key","id":"team-a","expires_at":"2027-01-02T03:04:05Z"}`, string(all[1].json))
	require.Equal(t, "key team-a", all[1].name())
}

func TestFieldsAreFoundByLine(t *testing.T) {
	all, err := parseDocuments("f.yaml", []byte(twoDocuments))
	require.NoError(t, err)
	for field, want := range map[string]string{
		"priority": "f.yaml:6", "queue.timeout": "f.yaml:8", "model_rules[1].value": "f.yaml:12",
		"model_rules[0]": "f.yaml:10", "headers.x-team": "f.yaml:15", "queue.nothing": "f.yaml:8",
		"nothing.at.all": "f.yaml:2", "": "f.yaml:2",
	} {
		require.Equal(t, want, all[0].at(field), field)
	}
	require.Equal(t, "f.yaml:26", all[1].at("expires_at"))
	require.Equal(t, "f.yaml:24", all[1].at("hash"))
}

func TestBrokenYAMLIsNamedByFileAndLine(t *testing.T) {
	for name, c := range map[string]struct{ yaml, want string }{
		"a tab":           {"kind: key\n\tid: x\n", "f.yaml:2: "},
		"an open list":    {"kind: key\n---\nkind: key\nmodels: [a, b\n", "f.yaml:4: "},
		"a field twice":   {"kind: key\nid: a\nid: b\n", "f.yaml:3: "},
		"no fields":       {"just text\n", "f.yaml:1: a document must be a list of fields"},
		"a list":          {"- kind: key\n", "f.yaml:1: a document must be a list of fields"},
		"a tag":           {"kind: key\nid: !!str x\n", "f.yaml:2: id: tags such as !!str are not supported"},
		"a merge":         {"a: &a {b: c}\nd:\n  <<: *a\n", "f.yaml:3: d: merge keys (<<) are not supported"},
		"not a number":    {"kind: key\nslots: .nan\n", "f.yaml:2: slots: "},
		"an octal":        {"kind: user\nlimits:\n  budget: 010\n", "f.yaml:3: limits.budget: 010 is not a decimal number"},
		"hex digits":      {"kind: key\nslots: 0x10\n", "f.yaml:2: slots: 0x10 is not a decimal number"},
		"binary digits":   {"kind: key\nslots: 0b11\n", "f.yaml:2: slots: 0b11 is not a decimal number"},
		"unknown anchor":  {"kind: key\nid: *x\n", "f.yaml:2: "},
		"aliases in laps": {strings.Repeat("[", 200) + strings.Repeat("]", 200), "f.yaml:1: "},
	} {
		_, err := parseDocuments("f.yaml", []byte(c.yaml))
		require.Error(t, err, name)
		require.True(t, strings.HasPrefix(err.Error(), c.want), "%s: %s", name, err)
		require.NotContains(t, err.Error(), "\n", name)
	}
}

func TestWholeNumbersAndTheMarkOfAnEditorAreRead(t *testing.T) {
	all, err := parseDocuments("f.yaml", []byte("\ufeffkind: key\na: 0\nb: -12\nc: 1_000\n"))
	require.NoError(t, err)
	require.Equal(t, `{"kind":"key","a":0,"b":-12,"c":1000}`, string(all[0].json))
	require.Equal(t, "key", all[0].kind)
}

func TestAliasesRepeatWhatTheirAnchorSays(t *testing.T) {
	all, err := parseDocuments("f.yaml", []byte("kind: group\nid: g\nupstreams: &list [a, b]\naccounts: *list\n"))
	require.NoError(t, err)
	require.Equal(t, `{"kind":"group","id":"g","upstreams":["a","b"],"accounts":["a","b"]}`, string(all[0].json))
}

func TestResourcesAreWrittenAsYAMLThatReadsBackTheSame(t *testing.T) {
	resource := `{"kind":"price","id":"x","input":"1.50","flag":"true","none":"null","count":"0012","time":"2027-01-02T03:04:05Z",` +
		`"text":"a: b # c","long":"one\ntwo","slots":5,"list":["a","1"],"deep":{"z":"1","a":[{"type":"regex","value":"^gpt-[0-9]+$"}]},"empty":[],"on":false}`
	b, err := resourceYAML([]byte(resource))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(b), "kind: price\nid: x\n"), string(b))
	all, err := parseDocuments("out.yaml", b)
	require.NoError(t, err)
	require.Equal(t, resource, string(all[0].json), string(b))
}

// Whatever a text holds, an export gives it back: as a value, as a name, in a list and in an object of a list.
func TestEveryTextReadsBackTheSame(t *testing.T) {
	parts := []string{"", "a", "on", "Yes", "null", "~", "true", "y", "1", "0x1F", "010", "1e3", ".5", ".inf", "-.inf", ".nan", "Infinity", "1_000",
		"30s", "1h30m", "2027-01-01", "2027-01-02T03:04:05Z", "12:30", "-", "---", "...", "- a", ":", "a: b", "a:b", "a:", "#", "a #b", "'", "\"", "it's",
		"\\", "\\n", "\n", "a\nb", "a\n", "\na", " a", "a ", "\t", "a\tb", "\r\n", "a\rb", "\x01", "\x7f", "é", "\u0085", "\u00a0", "\u2028", "\ufeff",
		"😀", "<<", "&a", "*a", "a*", "!x", "%", "@", "`", "|", "|-", ">", "{}", "[]", "a, b", "?", "? a", "=", "${X}", "^gpt-[0-9]+$", "sk-***1234", "http://127.0.0.1:1/v1"}
	for _, a := range parts {
		for _, b := range parts {
			both := a + b
			quoted, err := json.Marshal(both)
			require.NoError(t, err)
			q := string(quoted)
			want := `{"v":` + q + `,"w":{"` + "n" + q[1:] + `:1,"o":{"x":[]}},"l":[` + q + `,[` + q + `,{}],{"z":` + q + `,"n":null}],` + q + `:"k"}`
			y, err := resourceYAML([]byte(want))
			require.NoError(t, err, want)
			all, err := parseDocuments("out.yaml", y)
			require.NoError(t, err, string(y))
			require.Len(t, all, 1, string(y))
			require.JSONEq(t, want, string(all[0].json), string(y))
		}
	}
}
