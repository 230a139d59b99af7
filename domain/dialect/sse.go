package dialect

import "bytes"

// sse is the part of a framer that reads server-sent events: lines end in LF, CRLF or CR, a blank line ends an event,
// several data lines are joined by LF, everything but data and event is ignored.
type sse struct {
	line    int    // where the current line starts
	data    Span   // the value of the first data line
	name    Span   // the value of event:
	lines   int    // data lines so far
	joined  []byte // the values of several data lines
	begun   bool   // the first line (which may carry a byte order mark) is behind us
	cr      bool   // the last line ended in CR at the end of the buffer: an LF that follows belongs to it
	partial bool   // the current line has bytes that are gone
	comment bool
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// nextEvent cuts the next event of b. An event whose blank line ends in CR is handed out at once; if an LF follows, it
// is handed out as a frame of its own.
func (f *framer) nextEvent(b []byte, fr *frame) bool {
	if f.cr && f.scan < len(b) {
		f.cr = false
		if b[f.scan] == '\n' {
			f.scan++
			f.line = f.scan
			if f.scan-1 == f.start && !f.big {
				f.hand(b, fr)
				fr.rest = true
				return true
			}
		}
	}
	for {
		end, next := lineEnd(b, f.scan)
		if next < 0 {
			f.scan = len(b)
			return false
		}
		f.cr = next == len(b) && b[next-1] == '\r'
		blank := end == f.line && !f.partial
		if !blank && !f.big {
			f.field(b, end)
		}
		f.scan, f.line, f.partial = next, next, false
		if blank {
			f.handEvent(b, fr)
			return true
		}
	}
}

// lineEnd finds the end of the line that goes on at from: end is before its line break, next behind it; next is -1 if
// the line is not complete.
func lineEnd(b []byte, from int) (end, next int) {
	rest := b[from:]
	lf := bytes.IndexByte(rest, '\n')
	if lf >= 0 {
		rest = rest[:lf]
	}
	if cr := bytes.IndexByte(rest, '\r'); cr >= 0 {
		end = from + cr
		if end+1 < len(b) && b[end+1] == '\n' {
			return end, end + 2
		}
		return end, end + 1
	}
	if lf < 0 {
		return 0, -1
	}
	return from + lf, from + lf + 1
}

// field takes in the line that ends at end.
func (f *framer) field(b []byte, end int) {
	from := f.line
	if !f.begun {
		f.begun = true
		if bytes.HasPrefix(b[from:end], byteOrderMark) {
			from += len(byteOrderMark)
		}
	}
	line := b[from:end]
	switch {
	case len(line) == 0:
	case line[0] == ':':
		f.comment = true
	case len(line) >= 5 && string(line[:5]) == "data:":
		f.addData(b, value(b, from+5, end))
	case len(line) >= 6 && string(line[:6]) == "event:":
		if f.name = value(b, from+6, end); f.name.Empty() {
			f.name = Span{}
		}
	case string(line) == "data":
		f.addData(b, Span{end, end})
	case string(line) == "event":
		f.name = Span{}
	}
}

// value is a field's value without the one space that may precede it.
func value(b []byte, from, end int) Span {
	if from < end && b[from] == ' ' {
		from++
	}
	return Span{from, end}
}

func (f *framer) addData(b []byte, v Span) {
	switch f.lines {
	case 0:
		f.data = v
	case 1:
		f.joined = append(f.joined[:0], f.data.Of(b)...)
		fallthrough
	default:
		f.joined = append(f.joined, '\n')
		f.joined = append(f.joined, v.Of(b)...)
	}
	f.lines++
}

// handEvent cuts the event that ended and forgets its fields.
func (f *framer) handEvent(b []byte, fr *frame) {
	start := f.start
	f.hand(b, fr)
	fr.remark = f.comment
	if !fr.big {
		fr.name = f.name.Of(b)
		switch {
		case f.lines == 1:
			fr.data, fr.at = f.data.Of(b), f.data.Start-start
		case f.lines > 1:
			fr.data, fr.at = f.joined, -1
		}
	}
	f.data, f.name, f.lines, f.comment = Span{}, Span{}, 0, false
}
