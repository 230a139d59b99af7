package events

import (
	"errors"
	"fmt"
	"io"
)

// write takes a group of encoded appends: they are on disk when it returns nil. After an error none of them is in the spool,
// as far as the disk still does what it is told; nothing may be written then until the spool has been cleared.
func (s *Spool) write(group []entry) error {
	for len(group) > 0 {
		g, err := s.current()
		if err != nil {
			return err
		}
		from, frames := g.end, int64(0)
		s.buffer = s.buffer[:0]
		for len(group) > 0 && (frames == 0 || from+int64(len(s.buffer)) < s.o.SegmentMax) {
			s.buffer = appendFrame(s.buffer, group[0].n, &group[0].Append)
			group = group[1:]
			frames++
		}
		if err := s.put(g, s.buffer, from); err != nil {
			return errors.Join(fmt.Errorf("spool: %s: %w", g.name, err), g.file.Truncate(from))
		}
		s.mu.Lock()
		g.end = from + int64(len(s.buffer))
		g.retired = g.end >= s.o.SegmentMax
		s.frames += frames
		s.bytes += int64(len(s.buffer))
		s.mu.Unlock()
		if cap(s.buffer) > 4<<20 { // do not keep the one huge buffer alive
			s.buffer = nil
		}
	}
	return nil
}

func (s *Spool) put(g *segment, b []byte, at int64) error {
	if _, err := g.file.WriteAt(b, at); err != nil {
		return err
	}
	return g.file.Sync()
}

// current is the segment that is written to.
func (s *Spool) current() (*segment, error) {
	s.mu.Lock()
	var g *segment
	if n := len(s.segments); n > 0 && !s.segments[n-1].retired {
		g = s.segments[n-1]
	}
	s.mu.Unlock()
	if g != nil {
		return g, nil
	}
	g = &segment{name: fmt.Sprintf("%08d", s.next), read: int64(frames0), end: int64(frames0), origin: s.origin}
	s.next++ // also when it fails: no name comes twice
	var err error
	if g.file, err = s.o.Folder.Create(g.name, s.o.SegmentMax); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := s.put(g, append([]byte(spoolHeading), s.origin[:]...), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("spool: %s: %w", g.name, err), g.file.Close(), s.o.Folder.Remove(g.name))
	}
	s.mu.Lock()
	s.segments = append(s.segments, g)
	s.bytes += g.end
	s.mu.Unlock()
	return g, nil
}

// read returns the first appends that wait, at most so many, without taking them out. The error wraps ErrSpoolCorrupt, or is
// one of the disk.
func (s *Spool) read(most int) ([]spooled, error) {
	s.mu.Lock()
	if s.frames == 0 || len(s.segments) == 0 {
		s.mu.Unlock()
		return nil, nil
	}
	g := s.segments[0]
	at, end := g.read, g.end
	s.mu.Unlock()
	var group []spooled
	for at < end && len(group) < most {
		body, err := s.frame(g.file, at, end)
		if errors.Is(err, errNoFrame) {
			err = fmt.Errorf("%w at byte %d: no frame can be read there", ErrSpoolCorrupt, at)
		}
		if err != nil {
			return nil, fmt.Errorf("spool: %s: %w", g.name, err)
		}
		one, err := decodeFrame(body)
		if err != nil {
			return nil, fmt.Errorf("spool: %s: %w at byte %d: %w", g.name, ErrSpoolCorrupt, at, err)
		}
		group = append(group, one)
		at += one.size
	}
	return group, nil
}

// windowMin is how much is read from a file at once.
const windowMin = 256 << 10

// frame is the body of the frame at a place of a file; it is good until the next call. The error may be errNoFrame.
func (s *Spool) frame(file SpoolFile, at, end int64) ([]byte, error) {
	if at != s.windowAt || file != s.windowOf {
		s.window, s.windowAt, s.windowOf = s.window[:0], at, file
	}
	for {
		body, more, err := frameAt(s.window)
		switch {
		case err != nil:
			return nil, err
		case more == 0:
			s.window, s.windowAt = s.window[frameHead+len(body):], at+int64(frameHead+len(body))
			return body, nil
		case at+int64(more) > end:
			return nil, errNoFrame
		}
		size := min(int64(max(more, windowMin)), end-at)
		s.window = make([]byte, size)
		n, err := file.ReadAt(s.window, at)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if s.window = s.window[:n]; n < more {
			return nil, errNoFrame
		}
	}
}

// took takes the appends out that were read and are stored.
func (s *Spool) took(group []spooled) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[0]
	for i := range group {
		g.read += group[i].size
	}
	s.frames -= int64(len(group))
	s.out += int64(len(group))
	if !g.retired || g.read < g.end {
		return nil
	}
	return s.removeFirst()
}

// clear removes the files of a spool from which all was taken. Nobody may write meanwhile.
func (s *Spool) clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for len(s.segments) > 0 {
		err = errors.Join(err, s.removeFirst())
	}
	return err
}

// removeFirst forgets the first segment. When its file can not be removed the next process stores it once more, to no effect.
func (s *Spool) removeFirst() error {
	g := s.segments[0]
	s.segments = s.segments[1:]
	s.bytes -= g.end
	if err := errors.Join(g.file.Close(), s.o.Folder.Remove(g.name)); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}
