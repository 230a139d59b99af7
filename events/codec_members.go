package events

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/domain/money"
)

// members walks the members of a JSON object in the order of its struct, writing or reading them, so that one list of
// fields (codec_hot.go) is encoder and decoder at once. Reading understands only the exact form that writing
// gives: on anything else (another order, white space, an unknown or repeated member) it turns bad and the caller
// asks the generic decoder. Texts that were read share the memory of the payload's string.
type members struct {
	out     []byte // writing; see scratch
	from    int    // where the payload begins that is being written
	tags    []byte // of its facts
	rest    string // reading
	reading bool
	bad     bool
	before  byte // reading: what stands before the next member, '{' or ','
}

// object walks the members of v between braces. Each member brings the comma before it; that of the first one becomes
// the brace.
func object[T any](m *members, v *T, walk func(*members, *T)) {
	if m.reading {
		m.before = '{'
		if walk(m, v); m.before == '{' { // there was no member
			m.mark('{')
			m.before = ','
		}
		m.mark('}')
		return
	}
	start := len(m.out)
	if walk(m, v); len(m.out) == start {
		m.out = append(m.out, '{')
	}
	m.out[start] = '{'
	m.out = append(m.out, '}')
}

// mark writes or expects one byte.
func (m *members) mark(c byte) {
	switch {
	case !m.reading:
		m.out = append(m.out, c)
	case len(m.rest) > 0 && m.rest[0] == c:
		m.rest = m.rest[1:]
	default:
		m.bad = true
	}
}

// name writes a member's name, given as in `,"name":`, or says whether it comes next and passes it.
func (m *members) name(quoted string) bool {
	if !m.reading {
		m.out = append(m.out, quoted...)
		return true
	}
	n := len(quoted)
	if len(m.rest) <= n || m.rest[0] != m.before || m.rest[1:n] != quoted[1:] {
		return false
	}
	m.rest, m.before = m.rest[n:], ','
	return true
}

// must is name for a member that is always there.
func (m *members) must(quoted string) bool {
	ok := m.name(quoted)
	m.bad = m.bad || !ok
	return ok
}

func (m *members) text(quoted string, v *string) {
	if !m.reading {
		m.writeText(quoted, *v)
	} else if m.must(quoted) {
		m.textValue(v)
	}
}

// What is left out when it is empty is mostly empty: that is seen where the member is listed, without a call.

func (m *members) textIfAny(quoted string, v *string) {
	if m.reading || *v != "" {
		m.someText(quoted, v)
	}
}

func (m *members) someText(quoted string, v *string) {
	if !m.reading {
		m.writeText(quoted, *v)
	} else if m.name(quoted) {
		m.textValue(v)
	}
}

func (m *members) integer(quoted string, v *int64) {
	if !m.reading {
		m.writeInteger(quoted, *v)
	} else if m.must(quoted) {
		m.integerValue(v)
	}
}

func (m *members) integerIfAny(quoted string, v *int64) {
	if m.reading || *v != 0 {
		m.someInteger(quoted, v)
	}
}

func (m *members) someInteger(quoted string, v *int64) {
	if !m.reading {
		m.writeInteger(quoted, *v)
	} else if m.name(quoted) {
		m.integerValue(v)
	}
}

func (m *members) count(quoted string, v *int) {
	if !m.reading {
		m.writeInteger(quoted, int64(*v))
	} else if m.must(quoted) {
		m.countValue(v)
	}
}

func (m *members) countIfAny(quoted string, v *int) {
	if m.reading || *v != 0 {
		m.someCount(quoted, v)
	}
}

func (m *members) someCount(quoted string, v *int) {
	if !m.reading {
		m.writeInteger(quoted, int64(*v))
	} else if m.name(quoted) {
		m.countValue(v)
	}
}

func (m *members) unsigned(quoted string, v *uint64) {
	if !m.reading {
		m.out = strconv.AppendUint(append(m.out, quoted...), *v, 10)
	} else if m.must(quoted) {
		n, err := strconv.ParseUint(m.digits(), 10, 64)
		m.bad = m.bad || err != nil
		*v = n
	}
}

func (m *members) flag(quoted string, v *bool) {
	if !m.reading {
		m.out = strconv.AppendBool(append(m.out, quoted...), *v)
	} else if m.must(quoted) {
		m.flagValue(v)
	}
}

func (m *members) flagIfAny(quoted string, v *bool) {
	if m.reading || *v {
		m.someFlag(quoted, v)
	}
}

func (m *members) someFlag(quoted string, v *bool) {
	if !m.reading {
		m.flag(quoted, v)
	} else if m.name(quoted) {
		m.flagValue(v)
	}
}

func (m *members) amountIfAny(quoted string, v *money.Amount) {
	if m.reading || *v != 0 {
		m.someAmount(quoted, v)
	}
}

func (m *members) someAmount(quoted string, v *money.Amount) {
	if !m.reading {
		m.out = v.AppendText(append(append(m.out, quoted...), '"'))
		m.out = append(m.out, '"')
	} else if m.name(quoted) {
		var s string
		m.textValue(&s)
		a, err := money.Parse(s)
		m.bad = m.bad || err != nil
		*v = a
	}
}

func (m *members) time(quoted string, v *time.Time) {
	if !m.reading {
		m.out = append(append(m.out, quoted...), '"')
		m.out = v.UTC().AppendFormat(m.out, timeLayout)
		m.out = append(m.out, '"')
	} else if m.must(quoted) {
		m.timeValue(v)
	}
}

func (m *members) timeIfAny(quoted string, v *time.Time) {
	if m.reading && m.name(quoted) {
		m.timeValue(v)
	} else if !m.reading && !v.IsZero() {
		m.time(quoted, v)
	}
}

func (m *members) timeValue(v *time.Time) {
	var s string
	m.textValue(&s)
	t, err := time.Parse(timeLayout, s)
	m.bad = m.bad || err != nil
	*v = t
}

// listIfAny is list for a member that is left out when empty.
func listIfAny[T any](m *members, quoted string, v *[]T, element func(*members, *T)) {
	if (m.reading || len(*v) > 0) && m.name(quoted) {
		listValue(m, v, element)
	}
}

// list writes or reads an array; an empty one is [] and read as an empty slice, not nil.
func list[T any](m *members, quoted string, v *[]T, element func(*members, *T)) {
	if m.must(quoted) {
		listValue(m, v, element)
	}
}

func listValue[T any](m *members, v *[]T, element func(*members, *T)) {
	m.mark('[')
	if m.reading {
		readElements(m, v, element)
	} else {
		for i := range *v {
			if i > 0 {
				m.out = append(m.out, ',')
			}
			element(m, &(*v)[i])
		}
	}
	m.mark(']')
}

func readElements[T any](m *members, v *[]T, element func(*members, *T)) {
	*v = []T{}
	for !m.bad && !strings.HasPrefix(m.rest, "]") {
		if len(*v) > 0 {
			m.mark(',')
		}
		var e T
		element(m, &e)
		*v = append(*v, e)
	}
}

// textOf writes or reads a text that is an element.
func textOf(m *members, v *string) {
	if m.reading {
		m.textValue(v)
	} else {
		m.writeText("", *v)
	}
}

// The rest reads values.

func (m *members) textValue(v *string) {
	if len(m.rest) == 0 || m.rest[0] != '"' {
		m.bad = true
		return
	}
	i := 1
	for i < len(m.rest) && plain[m.rest[i]] {
		i++
	}
	if i == len(m.rest) || m.rest[i] != '"' {
		m.oddText(v)
		return
	}
	*v, m.rest = m.rest[1:i], m.rest[i+1:]
}

// oddText reads a text that is not plain, or has no end.
func (m *members) oddText(v *string) {
	n := stringEnd(m.rest)
	b, err := jsontext.AppendUnquote(nil, m.rest[:n])
	if n == 0 || err != nil {
		m.bad = true
		return
	}
	*v, m.rest = string(b), m.rest[n:]
}

func (m *members) countValue(v *int) {
	var n int64
	m.integerValue(&n)
	m.bad = m.bad || n < math.MinInt || n > math.MaxInt
	*v = int(n)
}

func (m *members) integerValue(v *int64) {
	n, err := strconv.ParseInt(m.digits(), 10, 64)
	m.bad = m.bad || err != nil
	*v = n
}

// digits takes what may belong to an integer; the number's own parser judges it.
func (m *members) digits() string {
	i := 0
	for i < len(m.rest) && (m.rest[i]-'0' <= 9 || m.rest[i] == '-') {
		i++
	}
	d := m.rest[:i]
	m.rest = m.rest[i:]
	if len(d) > 1 && (d[0] == '0' || strings.HasPrefix(d, "-0")) {
		m.bad = true // JSON has no leading zeros
	}
	return d
}

func (m *members) flagValue(v *bool) {
	if rest, ok := strings.CutPrefix(m.rest, "true"); ok {
		*v, m.rest = true, rest
	} else if rest, ok := strings.CutPrefix(m.rest, "false"); ok {
		*v, m.rest = false, rest
	} else {
		m.bad = true
	}
}
