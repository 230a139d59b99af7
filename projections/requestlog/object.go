package requestlog

import (
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/domain/money"
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

func (o *object) amount(name string, a money.Amount) {
	o.name(name)
	o.b = append(a.AppendText(append(o.b, '"')), '"')
}

func (o *object) flag(name string, yes bool) {
	if yes {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) usage(name string, u pricing.Usage) {
	if u.IsZero() {
		return
	}
	o.open(name, '{')
	o.number("input", u.Input)
	o.number("cached_input", u.CachedInput)
	o.number("cache_write_5m", u.CacheWrite5m)
	o.number("cache_write_1h", u.CacheWrite1h)
	o.number("output", u.Output)
	o.number("reasoning", u.Reasoning)
	o.number("audio_input", u.AudioInput)
	o.number("audio_output", u.AudioOutput)
	o.number("image_input", u.ImageInput)
	o.number("image_output", u.ImageOutput)
	o.number("images", u.Images)
	o.number("web_searches", u.WebSearches)
	o.number("file_searches", u.FileSearches)
	o.shut('}')
}
