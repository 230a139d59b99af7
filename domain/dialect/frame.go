package dialect

// frame is one event of a stream.
type frame struct {
	raw    []byte // its bytes as they came, with the blank line or the comma before it
	data   []byte // its payload; empty for comments and blank lines
	name   []byte // SSE: the value of event:
	at     int    // offset of data in raw; -1 when data is joined from several lines
	big    bool   // too large to be held: raw is only its end, data is nil
	remark bool   // SSE: it has comment lines
	rest   bool   // SSE: it is the LF of a CRLF whose CR ended the frame before
}

// framer cuts a stream into frames, whatever the pieces it comes in. Its offsets are into the buffer that the meter
// shows it: what is left of earlier pieces, then the new one. The zero value is at the start of a stream.
type framer struct {
	start int  // where the current frame starts
	scan  int  // up to here everything was looked at
	big   bool // the current frame is not held: its start is gone

	sse
	list
}

// next cuts the next complete frame off b into fr; false if what is left is incomplete.
func (f *framer) next(b []byte, format Format, fr *frame) bool {
	if format == JSONArray {
		return f.nextElement(b, fr)
	}
	return f.nextEvent(b, fr)
}

// hand cuts a frame from start to scan.
func (f *framer) hand(b []byte, fr *frame) {
	*fr = frame{raw: b[f.start:f.scan], big: f.big}
	f.start, f.big = f.scan, false
}

// rebase tells the framer that the first n bytes of its buffer are gone.
func (f *framer) rebase(n int) {
	f.start -= n
	f.scan -= n
	f.line -= n
	f.element -= n
	if f.lines > 0 {
		f.data = Span{f.data.Start - n, f.data.End - n}
	}
	if !f.name.Empty() {
		f.name = Span{f.name.Start - n, f.name.End - n}
	}
}

// drop tells the framer that its whole buffer of size n is gone although the frame is not complete.
func (f *framer) drop(n int) {
	f.partial = f.line < n || f.partial
	f.start, f.scan, f.line, f.big = 0, 0, 0, true
	f.data, f.name, f.lines = Span{}, Span{}, 0
}
