package dialect

import "bytes"

// Skimming finds members in a text without walking it: a quoted name that is followed by a colon can only be a member's
// name, since inside a JSON string every quote is escaped. So a few looks tell whether an event can matter at all.

// nextMember finds the next member in b from i on, at any depth: end is behind its name's closing quote, at is where
// its value starts (at most len(b)). at is -1 if there is none.
func nextMember(b []byte, i int) (end, at int) {
	for {
		colon := bytes.IndexByte(b[i:], ':')
		if colon < 0 {
			return 0, -1
		}
		end = i + colon
		i = end + 1
		for end > 0 && b[end-1] <= ' ' {
			end--
		}
		if end >= 2 && b[end-1] == '"' {
			return end, skipSpace(b, i)
		}
	}
}

// named says that the name that ends at end is the given one, which is written with its quotes.
func named(b []byte, end int, quoted string) bool {
	from := end - len(quoted)
	return from >= 0 && string(b[from:end]) == quoted
}

// findMember finds the first member of that (quoted) name from i on, at any depth, whose value is not null: at is
// where the value starts, -1 if there is none.
func findMember(b []byte, i int, quoted string) int {
	for {
		end, at := nextMember(b, i)
		if at < 0 {
			return -1
		}
		if at < len(b) && b[at] != 'n' && named(b, end, quoted) {
			return at
		}
		i = at
	}
}

// lastObject finds the last member of that (quoted) name in b whose value is an object, and gives what starts with the
// object.
func lastObject(b []byte, quoted string) []byte {
	var found []byte
	for i := 0; ; {
		at := findMember(b, i, quoted)
		if at < 0 {
			return found
		}
		if b[at] == '{' {
			found = b[at:]
		}
		i = at
	}
}

// chat skims a chunk that may be nothing but content, and takes its deltas in. It is false, with nothing of use in y,
// if the chunk has to be read: it has a usage, a reason to stop or an error, or no delta.
func (y *yield) chat(data []byte) bool {
	found := false
	for i := 0; ; {
		end, at := nextMember(data, i)
		if at < 0 {
			return found
		}
		if i = at; i == len(data) || data[i] == 'n' {
			continue
		}
		switch data[end-2] {
		case 'e':
			if named(data, end, `"usage"`) {
				return false
			}
		case 'n':
			if named(data, end, `"finish_reason"`) {
				return false
			}
		case 'r':
			if named(data, end, `"error"`) {
				return false
			}
		case 'a':
			if !named(data, end, `"delta"`) {
				continue
			}
			c := cursor{b: data, i: at}
			if chatDelta(&c, y); c.reason != "" {
				return false
			}
			i, found = c.i, true
		}
	}
}

const messagesDelta = `{"type":"content_block_delta",`

// messages skims an event that starts as a content_block_delta, which has nothing but its delta.
func (y *yield) messages(data []byte) bool {
	if !bytes.HasPrefix(data, []byte(messagesDelta)) {
		return false
	}
	at := findMember(data, len(messagesDelta), `"delta"`)
	if at < 0 {
		return false
	}
	c := cursor{b: data, i: at}
	y.messagesDelta(&c)
	return c.reason == ""
}

// responses skims an event that starts with a type that ends in .delta, which has nothing but its delta.
func (y *yield) responses(data []byte) bool {
	const start = `{"type":"response.`
	if !bytes.HasPrefix(data, []byte(start)) {
		return false
	}
	quote := bytes.IndexByte(data[len(start):], '"')
	if quote < 0 || !bytes.HasSuffix(data[:len(start)+quote], suffixDelta) {
		return false
	}
	at := findMember(data, len(start)+quote, `"delta"`)
	if at < 0 || data[at] != '"' {
		return false
	}
	c := cursor{b: data, i: at}
	y.text(c.raw())
	return c.reason == ""
}
