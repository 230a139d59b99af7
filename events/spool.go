package events

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// SpoolFolder is where a spool keeps its segments. The names of segments sort in the order in which they were made.
type SpoolFolder interface {
	// Segments are the names of those that are there, in order.
	Segments() ([]string, error)
	// Create makes a segment that must not be there yet, with room for so many bytes. It is still there after a loss of
	// power, whatever is in it.
	Create(name string, room int64) (SpoolFile, error)
	Open(name string) (SpoolFile, error)
	// Remove takes one away; after a loss of power it may be there again.
	Remove(name string) error
}

// SpoolFile is one segment. Reading and writing may run beside each other.
type SpoolFile interface {
	io.ReaderAt
	io.WriterAt
	Sync() error // what was written is on disk
	Size() (int64, error)
	Truncate(size int64) error
	Close() error
}

// ErrSpoolCorrupt is wrapped by the error of opening or reading a spool in which something that had been on disk cannot be
// read any more. Nothing is thrown away then: an operator decides.
var ErrSpoolCorrupt = errors.New("the spool is damaged")

// ErrSpoolForeign refuses to drain a spool into another store than the one whose outage it is from.
var ErrSpoolForeign = errors.New("the spool belongs to another event store")

// errSpoolFull refuses what may be refused.
var errSpoolFull = fmt.Errorf("%w, and its spool is full", ErrUnavailable)

// SpoolOptions of a Spool; the zero value of a field means its default.
type SpoolOptions struct {
	Folder SpoolFolder
	Logger *slog.Logger
	// BytesMax bounds what the spool takes (default 1 GiB). The last sixteenth is kept for requests that have been admitted.
	// What must be kept is taken beyond it too: it is bounded by the requests that are open.
	BytesMax int64
	// SegmentMax bounds one file (default 16 MiB): what is stored leaves the disk file by file.
	SegmentMax int64
}

// Spool keeps appends on disk, in order, until the store takes them. It has one writer and one reader, which may run beside
// each other.
//
// A group of appends has been taken when write returns: it is on disk then. Whatever a crash leaves behind the last such group
// is cut off by OpenSpool. What has been read and stored is not written down; it leaves the disk with its segment, so that
// after a crash up to a segment (or, after a loss of power, the segments whose removal had not come to the disk) is stored
// again. Each append is told from a new one by its content then: see resolve.
type Spool struct {
	o   SpoolOptions
	log *slog.Logger

	mu       sync.Mutex
	segments []*segment // the reader is in the first, the writer in the last
	frames   int64      // that wait for the store
	out      int64      // that were taken out, ever
	bytes    int64      // of the segments
	next     int        // number of the next segment
	origin   [32]byte   // of the store that is written for; set by Drain

	buffer []byte // of the writer
	// What the reader has read ahead of a file, from a place on.
	window   []byte
	windowAt int64
	windowOf SpoolFile
}

// segment is one file. Its fields belong to the mutex of the spool.
type segment struct {
	name    string
	file    SpoolFile
	end     int64 // behind the last frame that is on disk
	read    int64 // behind the last frame that the store has
	retired bool  // nothing more is written to it
	origin  [32]byte
}

// OpenSpool finds what an earlier process left. The error wraps ErrSpoolCorrupt when not all of it can be read.
func OpenSpool(o SpoolOptions) (*Spool, error) {
	if o.BytesMax == 0 {
		o.BytesMax = 1 << 30
	}
	if o.SegmentMax == 0 {
		o.SegmentMax = 16 << 20
	}
	o.SegmentMax = max(1, min(o.SegmentMax, o.BytesMax/4))
	s := &Spool{o: o, log: o.Logger, next: 1}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	names, err := o.Folder.Segments()
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	for i, name := range names {
		if err := s.openSegment(name, i == len(names)-1); err != nil {
			return nil, errors.Join(fmt.Errorf("spool: %s: %w", name, err), s.Close())
		}
	}
	return s, nil
}

// openSegment counts the frames of a segment and, in the last one, cuts off what is behind them.
func (s *Spool) openSegment(name string, last bool) error {
	var number int
	if _, err := fmt.Sscanf(name, "%d", &number); err != nil {
		return fmt.Errorf("%w: its name is no number", ErrSpoolCorrupt)
	}
	s.next = max(s.next, number+1)
	file, err := s.o.Folder.Open(name)
	if err != nil {
		return err
	}
	g := &segment{name: name, file: file, read: int64(frames0), retired: true}
	s.segments = append(s.segments, g)
	size, err := file.Size()
	if err != nil {
		return err
	}
	switch begun, err := s.heading(g, size); {
	case err != nil:
		return err
	case !begun:
		return s.drop()
	}
	g.end = g.read
	for g.end < size {
		body, err := s.frame(file, g.end, size)
		if errors.Is(err, errNoFrame) {
			break
		}
		if err != nil {
			return err
		}
		g.end += int64(frameHead + len(body))
		s.frames++
	}
	s.bytes += g.end
	torn, err := s.torn(file, g.end, size)
	switch {
	case err != nil:
		return err
	case torn && !last:
		return fmt.Errorf("%w at byte %d: no frame can be read there, and later files have some", ErrSpoolCorrupt, g.end)
	case torn:
		if err := s.holed(file, g.end, size); err != nil {
			return err
		}
		s.log.Warn("the end of the spool was being written when the process died; it is cut off", "file", name, "at", g.end, "bytes", size-g.end)
	}
	if size > g.end {
		if err := errors.Join(file.Truncate(g.end), file.Sync()); err != nil {
			return err
		}
	}
	if g.end == g.read {
		return s.drop()
	}
	return nil
}

// heading reads the beginning of a segment. false: it was being made when the process died.
func (s *Spool) heading(g *segment, size int64) (begun bool, err error) {
	b := make([]byte, min(size, int64(frames0)))
	if _, err := g.file.ReadAt(b, 0); err != nil && err != io.EOF {
		return false, err
	}
	text, ok := strings.CutPrefix(string(b), spoolHeading)
	if ok && len(b) == frames0 {
		copy(g.origin[:], text)
		return true, nil
	}
	written, err := s.torn(g.file, int64(len(b)), size)
	if err == nil && (written || !ok && !strings.HasPrefix(spoolHeading, strings.TrimRight(string(b), "\x00"))) {
		err = fmt.Errorf("%w: it does not begin as a spool does", ErrSpoolCorrupt)
	}
	return false, err
}

// torn says that something was written behind the last frame.
func (s *Spool) torn(file SpoolFile, from, to int64) (bool, error) {
	b := make([]byte, 64<<10)
	for ; from < to; from += int64(len(b)) {
		n, err := file.ReadAt(b[:min(int64(len(b)), to-from)], from)
		if err != nil && err != io.EOF {
			return false, err
		}
		if !zero(b[:n]) {
			return true, nil
		}
	}
	return false, nil
}

// holed refuses what is no torn end: behind it something was written, which nothing is before all in front of it is on disk.
func (s *Spool) holed(file SpoolFile, from, to int64) error {
	b := make([]byte, to-from)
	if n, err := file.ReadAt(b, from); err != nil && err != io.EOF {
		return err
	} else if at := firstFrame(b[:n]); at >= 0 {
		return fmt.Errorf("%w at byte %d: no frame can be read there, and there are more from byte %d on", ErrSpoolCorrupt, from, from+int64(at))
	}
	return nil
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// drop takes the last segment away, which has no frames.
func (s *Spool) drop() error {
	g := s.segments[len(s.segments)-1]
	s.segments = s.segments[:len(s.segments)-1]
	s.bytes -= g.end
	return errors.Join(g.file.Close(), s.o.Folder.Remove(g.name))
}

// Len is how many appends wait for the store.
func (s *Spool) Len() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

// takenOut is how many appends the store has taken from here.
func (s *Spool) takenOut() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out
}

// full says that no request should be taken in any more; over: that nothing should be taken that may be refused.
func (s *Spool) full() (full, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes >= s.o.BytesMax-s.o.BytesMax/16, s.bytes >= s.o.BytesMax
}

// Close gives the files back and leaves what is in them. Nobody may read or write any more.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, g := range s.segments {
		err = errors.Join(err, g.file.Close())
	}
	s.segments = nil
	return err
}
