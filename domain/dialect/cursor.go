package dialect

import (
	"encoding/binary"
	"iter"
)

// cursor walks one JSON text, in one pass and without allocating: it validates everything it steps over. Its methods
// do nothing once something was wrong; reason then says what, and i where. After member and element the caller
// consumes exactly one value (object, array, raw, integer, flag or skip).
type cursor struct {
	b      []byte
	i      int
	depth  int
	first  bool   // the container was just opened
	reason string // why the walk stopped; empty while all is well
}

func (c *cursor) fail(at int, reason string) {
	if c.reason == "" {
		c.i, c.reason = at, reason
	}
}

// peek is the next byte that is not a space; 0 at the end and after a failure.
func (c *cursor) peek() byte {
	if c.reason != "" {
		return 0
	}
	c.i = skipSpace(c.b, c.i)
	if c.i >= len(c.b) {
		return 0
	}
	return c.b[c.i]
}

// open steps into a container that starts with that bracket. Any other value is skipped and the answer is false.
func (c *cursor) open(bracket byte) bool {
	if c.peek() != bracket {
		c.skip()
		return false
	}
	if c.depth >= depthMax {
		c.fail(c.i, badDepth)
		return false
	}
	c.i++
	c.depth++
	c.first = true
	return true
}

func (c *cursor) object() bool { return c.open('{') }
func (c *cursor) array() bool  { return c.open('[') }

// more steps to the next member or element; false when the container ended (and was left) or the text is bad.
func (c *cursor) more(closing byte) bool {
	ch := c.peek()
	if c.reason != "" {
		return false
	}
	if ch == closing {
		c.i++
		c.depth--
		c.first = false
		return false
	}
	if !c.first {
		if ch != ',' {
			c.failHere(badComma)
			return false
		}
		c.i++
	}
	c.first = false
	return true
}

func (c *cursor) failHere(reason string) {
	if c.i >= len(c.b) {
		reason = badEnd
	}
	c.fail(c.i, reason)
}

// member steps to the next member of the open object and gives its name, unescaped. The bytes are valid until the
// text changes.
func (c *cursor) member() ([]byte, bool) {
	key, simple, ok := c.memberSpan()
	switch {
	case !ok:
		return nil, false
	case simple:
		return key.Of(c.b), true
	}
	return plain(key.Of(c.b)), true
}

// members walks the object that comes next by the names of its members; what is no object is stepped over. A name's bytes
// are valid until the text changes.
func (c *cursor) members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !c.object() {
			return
		}
		for {
			if key, ok := c.member(); !ok || !yield(key) {
				return
			}
		}
	}
}

// plainName is name for what nearly all names are: ASCII without escapes, no space before or behind. If it is false, nothing
// was done.
func (c *cursor) plainName() (key Span, ok bool) {
	i := c.i
	if !c.first {
		if i >= len(c.b) || c.b[i] != ',' {
			return Span{}, false
		}
		i++
	}
	if c.reason != "" || i >= len(c.b) || c.b[i] != '"' {
		return Span{}, false
	}
	i++
	for end, high := i, uint64(0); end+8 <= len(c.b); end += 8 {
		w := binary.LittleEndian.Uint64(c.b[end:])
		hit := stops(w)
		if hit == 0 {
			high |= w
			continue
		}
		end, high = stopIn(w, hit, end, high)
		if c.b[end] != '"' || end+1 >= len(c.b) || c.b[end+1] != ':' || high&highBits != 0 {
			break
		}
		c.i, c.first = end+2, false
		return Span{i, end}, true
	}
	return Span{}, false
}

// memberSpan is member with the name as it is written, without quotes; simple: it has no escapes.
func (c *cursor) memberSpan() (key Span, simple, ok bool) {
	if key, ok = c.plainName(); ok {
		return key, true, true
	}
	return c.name()
}

// name is memberSpan for a name of any kind.
func (c *cursor) name() (key Span, simple, ok bool) {
	if !c.more('}') {
		return Span{}, false, false
	}
	key, end, simple, reason := scanKey(c.b, skipSpace(c.b, c.i))
	if reason != "" {
		if end >= len(c.b) {
			reason = badEnd
		}
		c.fail(end, reason)
		return Span{}, false, false
	}
	c.i = end
	return key, simple, true
}

// element steps to the next element of the open array.
func (c *cursor) element() bool { return c.more(']') }

// skip steps over one value and gives its range.
func (c *cursor) skip() Span {
	opens := c.peek()
	if c.reason != "" {
		return Span{}
	}
	var end int
	var reason string
	switch opens {
	case '"':
		end, reason = scanString(c.b, c.i+1)
	case '{', '[':
		end, reason = scanValue(c.b, c.i, c.depth)
	default:
		end, reason = scanScalar(c.b, c.i)
	}
	if reason != "" {
		c.fail(end, reason)
		return Span{}
	}
	s := Span{c.i, end}
	c.i = end
	return s
}

// raw steps over one value; if it is a string, raw is its content as written (never nil then), otherwise nil.
func (c *cursor) raw() []byte {
	s := c.skip()
	if s.Empty() || c.b[s.Start] != '"' {
		return nil
	}
	return c.b[s.Start+1 : s.End-1]
}

// integer steps over one value; a number is cut to its whole part and bounded to [0, countMax]. Anything else is false.
func (c *cursor) integer() (int64, bool) {
	if n, ok := c.digits(); ok {
		return n, true
	}
	s := c.skip()
	if s.Empty() {
		return 0, false
	}
	return count(s.Of(c.b))
}

// digits is integer for what nearly all numbers are: a few digits. Nothing was done if it is false.
func (c *cursor) digits() (n int64, ok bool) {
	const most = 12 // all of them below countMax
	c.peek()
	i := c.i
	for ; i < len(c.b) && i-c.i < most && c.b[i]-'0' <= 9; i++ {
		n = n*10 + int64(c.b[i]-'0')
	}
	if i == c.i || i >= len(c.b) || c.reason != "" {
		return 0, false
	}
	if next := c.b[i]; next != ',' && next != '}' && next != ']' || c.b[c.i] == '0' && i > c.i+1 {
		return 0, false
	}
	c.i = i
	return n, true
}

// end says that the text was valid and nothing but spaces is left.
func (c *cursor) end() bool {
	if c.peek(); c.reason == "" && c.i < len(c.b) {
		c.fail(c.i, badTrailing)
	}
	return c.reason == ""
}
