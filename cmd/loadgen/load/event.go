package load

import "bytes"

// finder looks for any of some texts in a body that comes in pieces of any size, across their seams too.
type finder struct {
	texts [][]byte
	keep  int // bytes of the last piece that are looked at again with the next one
	found bool
	carry []byte
}

func newFinder(texts [][]byte) finder {
	f := finder{texts: texts}
	for _, t := range texts {
		f.keep = max(f.keep, len(t)-1)
	}
	return f
}

func (f *finder) reset() { f.found, f.carry = false, f.carry[:0] }

// write takes the next piece.
func (f *finder) write(p []byte) {
	if f.found {
		return
	}
	f.carry = append(f.carry, p[:min(len(p), f.keep)]...)
	for _, t := range f.texts {
		if bytes.Contains(p, t) || bytes.Contains(f.carry, t) {
			f.found = true
			return
		}
	}
	tail := f.carry
	if len(p) > f.keep {
		tail = p
	}
	f.carry = append(f.carry[:0], tail[max(0, len(tail)-f.keep):]...)
}

// lineScanner counts the "data:" lines of an SSE body that comes in pieces. The zero value is ready.
type lineScanner struct {
	line [5]byte
	col  int // bytes of the present line seen, up to len(line): only the start matters
}

// write takes the next piece and returns how many events began in it.
func (s *lineScanner) write(p []byte) (events int) {
	for len(p) > 0 {
		if s.col == len(s.line) { // the rest of the line does not matter
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				break
			}
			s.col = 0
			p = p[i+1:]
			continue
		}
		if p[0] == '\n' {
			s.col = 0
		} else {
			s.line[s.col] = p[0]
			if s.col++; s.col == len(s.line) && string(s.line[:]) == "data:" {
				events++
			}
		}
		p = p[1:]
	}
	return events
}
