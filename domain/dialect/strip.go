package dialect

import "bytes"

var suffixNullUsage = []byte(`,"usage":null}`)

// Strip is Feed for a chat stream into which we spliced include_usage: it appends to dst what the client may see, byte
// for byte as it came, but without the extra usage chunk and without the member "usage":null of the other chunks.
// Incomplete events are held back; Flush gives what is left at the end.
func (m *Meter) Strip(dst, p []byte) []byte {
	m.strips = true
	dst, _ = m.take(dst, p)
	return dst
}

// forward appends what the client may see of a frame.
func (m *Meter) forward(dst []byte, fr *frame) []byte {
	withheld := m.withheld && fr.rest
	m.withheld = false
	if len(fr.data) == 0 {
		if withheld {
			return dst
		}
		return append(dst, fr.raw...)
	}
	usage := usageChunk(fr.data)
	switch {
	case usage.withhold && fr.remark:
		return appendRemarks(dst, fr.raw)
	case usage.withhold:
		m.withheld = true
		return dst
	case usage.null.Empty() || fr.at < 0:
		return append(dst, fr.raw...)
	}
	dst = append(dst, fr.raw[:fr.at+usage.null.Start]...)
	return append(dst, fr.raw[fr.at+usage.null.End:]...)
}

// chunkUsage is what a chunk has that the client did not ask for.
type chunkUsage struct {
	withhold bool // it is the extra chunk: no choices, but a usage
	null     Span // the member "usage":null with one of its commas
}

// usageChunk looks for what must not pass. The usual chunk of OpenAI ends in its null usage, which needs no walk:
// behind it the object closes, so it can only be a member of the chunk itself.
func usageChunk(data []byte) (u chunkUsage) {
	if data[0] != '{' && data[0] != ' ' {
		return u
	}
	if n := len(data) - len(suffixNullUsage); n > 1 && bytes.HasSuffix(data, suffixNullUsage) {
		u.null = Span{n, len(data) - 1}
		return u
	}
	if !bytes.Contains(data, []byte(`"usage"`)) {
		return u
	}
	return walkUsage(data)
}

// walkUsage reads the top level of a chunk.
func walkUsage(data []byte) (u chunkUsage) {
	c := cursor{b: data}
	if !c.object() {
		return u
	}
	empty, usage, failed := true, false, false
	first, pending := true, false // pending: usage was the first member and its comma is the next one
	for last := c.i; ; last = c.i {
		key, _, ok := c.memberSpan()
		if !ok {
			break
		}
		if pending {
			u.null.End, pending = key.Start-1, false
		}
		switch string(plain(key.Of(data))) {
		case "choices":
			if span := c.skip(); !span.Empty() && data[span.Start] == '[' {
				empty = skipSpace(data, span.Start+1) == span.End-1
			}
		case "usage":
			if c.peek() != 'n' {
				c.skip()
				usage = true
				break
			}
			if c.skip(); first {
				u.null, pending = Span{key.Start - 1, c.i}, true
			} else {
				u.null = Span{skipSpace(data, last), c.i}
			}
		case "error":
			failed = !c.skipNull()
		default:
			c.skip()
		}
		first = false
	}
	if !c.end() {
		return chunkUsage{}
	}
	u.withhold = usage && empty && !failed
	return u
}

// appendRemarks appends the comment lines of an event that is withheld, and ends them: keep-alives pass.
func appendRemarks(dst, raw []byte) []byte {
	for from := 0; from < len(raw); {
		end, next := lineEnd(raw, from)
		if next < 0 {
			break
		}
		if raw[from] == ':' || end == from { // the blank line ends the comments
			dst = append(dst, raw[from:next]...)
		}
		from = next
	}
	return dst
}
