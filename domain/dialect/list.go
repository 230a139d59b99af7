package dialect

// list is the part of a framer that reads a JSON array of events, Gemini's stream without alt=sse. It only counts
// brackets; the elements are validated when they are read.
type list struct {
	element int  // where the current element starts
	depth   int  // open brackets, the outer one included
	bare    bool // there is no outer bracket: one object instead of an array, which is how some errors come
	quoted  bool // inside a string
	escaped bool // behind a backslash
	closed  bool // the outer bracket is closed
}

// nextElement cuts the next element of the array in b. The frame ends behind the element, so that a comma and another
// element may follow it; the bracket and the commas before it are its start. The closing bracket is a frame of its own.
func (f *framer) nextElement(b []byte, fr *frame) bool {
	if f.closed {
		if f.scan == len(b) {
			return false
		}
		f.scan = len(b)
		f.hand(b, fr)
		return true
	}
	for f.scan < len(b) {
		if f.quoted {
			f.inString(b)
			continue
		}
		c := b[f.scan]
		f.scan++
		switch c {
		case '"':
			f.quoted = true
		case '{', '[':
			f.enter(c)
		case '}', ']':
			if f.leave(b, fr) {
				return true
			}
		}
	}
	return false
}

func (f *framer) inString(b []byte) {
	if f.escaped {
		f.escaped = false
		f.scan++
		return
	}
	at, _ := stop(b, f.scan, 0)
	if f.scan = at; at == len(b) {
		return
	}
	f.scan++
	switch b[at] {
	case '"':
		f.quoted = false
	case '\\':
		f.escaped = true
	}
}

func (f *framer) enter(c byte) {
	f.depth++
	if f.depth == 1 && c == '{' {
		f.bare = true
	}
	if f.depth == 2 && !f.bare || f.depth == 1 && f.bare {
		f.element = f.scan - 1
	}
}

func (f *framer) leave(b []byte, fr *frame) bool {
	f.depth--
	if f.depth <= 0 && !f.bare {
		f.closed = true
		f.hand(b, fr)
		return true
	}
	if f.depth > 1 || f.depth == 1 && f.bare {
		return false
	}
	f.closed = f.bare
	at := f.element - f.start
	f.hand(b, fr)
	if !fr.big {
		fr.data, fr.at = fr.raw[at:], at
	}
	return true
}
