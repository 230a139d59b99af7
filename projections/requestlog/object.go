package requestlog

import (
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/domain/pricing"
)

// object appends the members of JSON objects that are not zero. Names need no escapes.
type object struct{ b []byte }

var objects = sync.Pool{New: func() any { return &object{b: make([]byte, 0, 1024)} }}

func (o *object) comma() {
	if c := o.b[len(o.b)-1]; c != '{' && c != '[' {
		o.b = append(o.b, ',')
	}
}

func (o *object) name(name string) {
	o.comma()
	o.b = append(o.b, '"')
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

func (o *object) open(name string, bracket byte) {
	o.name(name)
	o.b = append(o.b, bracket)
}

func (o *object) element() {
	o.comma()
	o.b = append(o.b, '{')
}

func (o *object) shut(bracket byte) { o.b = append(o.b, bracket) }

func (o *object) text(name, s string) {
	if s == "" {
		return
	}
	o.name(name)
	if plain(s) {
		o.b = append(o.b, '"')
		o.b = append(o.b, s...)
		o.b = append(o.b, '"')
		return
	}
	o.b, _ = jsontext.AppendQuote(o.b, s) // its error only tells of invalid UTF-8, which it has replaced
}

// plain says that a text stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (o *object) number(name string, n int64) {
	if n != 0 {
		o.name(name)
		o.b = strconv.AppendInt(o.b, n, 10)
	}
}

// word writes a text as its number, where it has one.
func (o *object) word(name, s string) {
	if n, ok := wordNumbers[s]; ok {
		o.name(name)
		o.b = strconv.AppendInt(o.b, int64(n), 10)
		return
	}
	o.text(name, s)
}

// unless writes a number that is not the usual one.
func (o *object) unless(name string, n, usual int64) {
	if n != usual {
		o.name(name)
		o.b = strconv.AppendInt(o.b, n, 10)
	}
}

func (o *object) flag(name string, yes bool) {
	if yes {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

// counts are those of a usage in the order of classes, without zeros at the end.
type counts []int64

// classes are the counts of a usage, in an order that is stored.
func classes(u *pricing.Usage) [13]*int64 {
	return [...]*int64{
		&u.Input, &u.Output, &u.CachedInput, &u.Reasoning, &u.CacheWrite5m, &u.CacheWrite1h,
		&u.AudioInput, &u.AudioOutput, &u.ImageInput, &u.ImageOutput, &u.Images, &u.WebSearches, &u.FileSearches,
	}
}

func (o *object) usage(name string, u pricing.Usage) {
	list := classes(&u)
	n := len(list)
	for n > 0 && *list[n-1] == 0 {
		n--
	}
	if n == 0 {
		return
	}
	o.open(name, '[')
	for i, count := range list[:n] {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = strconv.AppendInt(o.b, *count, 10)
	}
	o.shut(']')
}

// usage is what was written.
func (c counts) usage() (u pricing.Usage) {
	for i, to := range classes(&u) {
		if i < len(c) {
			*to = c[i]
		}
	}
	return u
}
