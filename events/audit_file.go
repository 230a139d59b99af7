package events

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"time"
)

// ExportFile is an export or a backup being read. It is a Chain that can be read once.
type ExportFile struct {
	lines *bufio.Reader
	n     int // lines read
	next  *exported
	cut   bool // it does not end with a line
	first Position
	head  *Head

	backup     *BackupHeading // nil: it is an export
	belongings Belongings     // of a backup
	inForce    []bool         // of its secrets
	sum        hash.Hash      // of all lines of a backup so far
}

// ReadExport begins to read what Export or Backup wrote, compressed with gzip or not.
func ReadExport(r io.Reader) (*ExportFile, error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrExport, err)
		}
		lines = bufio.NewReaderSize(unzipped, 64<<10)
	}
	f := &ExportFile{lines: lines, sum: sha256.New()}
	if err := f.read(); err != nil {
		return nil, err
	}
	if f.next != nil && f.next.Backup != nil {
		if err := f.readBelongings(); err != nil {
			return nil, err
		}
	}
	switch {
	case f.next == nil || f.next.Commit == nil && f.next.Head == nil:
		return nil, fmt.Errorf("%w: line %d: a commit is expected", ErrExport, max(f.n, 1))
	case f.next.Commit != nil:
		f.first = f.next.Commit.First
	}
	return f, nil
}

// First is the position at which it begins.
func (f *ExportFile) First() Position { return f.first }

// Head is what the last line says, nil when the file is cut off. It is known once the chain has been read.
func (f *ExportFile) Head() *Head { return f.head }

// lineMax bounds a line, in bytes.
const lineMax = 256 << 20

// read takes the next line; next is nil at the end.
func (f *ExportFile) read() error {
	f.next = nil
	line, err := f.line()
	if line == nil || err != nil {
		return err
	}
	f.n++
	var x struct {
		exported
		Row *struct {
			exportedRow
			Payload json.RawMessage `json:"payload"`
		} `json:"row"`
	}
	if err := json.Unmarshal(line, &x); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrExport, f.n, err)
	}
	f.next = &x.exported
	if x.Row != nil {
		f.next.Row = &x.Row.exportedRow
		f.next.Row.Payload = x.Row.Payload
		if x.Row.Payload == nil {
			f.next.Row.Payload = x.Row.Bytes
		}
	}
	if f.next.none() {
		return fmt.Errorf("%w: line %d is neither commit, row nor head", ErrExport, f.n)
	}
	if f.next.Backup == nil && f.backup == nil {
		return nil
	}
	if s := f.next.Sum; s != nil && !bytes.Equal(f.sum.Sum(nil), s.SHA256[:]) {
		return fmt.Errorf("%w: line %d: what stands before it is not what was written", ErrExport, f.n)
	}
	f.sum.Write(line)
	return nil
}

// line is the next one with its line break, nil at the end. What is cut off is no line.
func (f *ExportFile) line() (line []byte, err error) {
	for {
		part, err := f.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < lineMax:
			continue
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			f.cut = len(line) > 0 || !errors.Is(err, io.EOF)
			return nil, nil
		default:
			return nil, fmt.Errorf("%w: line %d: %w", ErrExport, f.n+1, err)
		}
	}
}

func (x *exported) none() bool {
	return x.Commit == nil && x.Row == nil && x.Head == nil && x.Backup == nil && x.Secret == nil && x.Group == nil && x.Sum == nil
}

// Chain implements Chain. after is not looked at.
func (f *ExportFile) Chain(ctx context.Context, _ Position, yield func(*Commit, []RawRow) bool) error {
	var commit *Commit
	var rows []RawRow
	more := true
	for f.next != nil && f.next.Head == nil && more {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case f.next.Commit != nil:
			if commit != nil {
				more = yield(commit, rows)
			}
			c := f.next.Commit
			commit, rows = &Commit{c.First, c.N, c.Previous, c.Hash, Bounds{c.LowWater, c.Earliest, c.Latest}}, rows[:0]
		case f.next.Row == nil || commit == nil:
			return fmt.Errorf("%w: line %d: a commit, a row or the head is expected", ErrExport, f.n)
		case len(rows) <= int(min(commit.N, 1<<20)): // one more than there may be tells as much as all
			rows = append(rows, f.next.Row.raw())
		}
		if err := f.read(); err != nil {
			return err
		}
	}
	if commit != nil && more {
		more = yield(commit, rows)
	}
	if more && f.next != nil {
		f.head = f.next.Head
	}
	return nil
}

func (x *exportedRow) raw() RawRow {
	for name, text := range x.Odd {
		if into := x.texts()[name]; into != nil {
			*into = string(text)
		}
	}
	return RawRow{Position: x.Position, N: x.N, Archived: x.Archived, Hash: x.Hash, Row: Row{
		Stream: x.Stream, Version: x.Version, Terminal: x.Terminal, At: time.UnixMicro(x.At).UTC(), Types: x.Types,
		Request: x.Request, Key: x.Key, Upstream: x.Upstream, Node: x.Node, Payload: x.Payload,
	}}
}

// VerifyExport audits an export or a backup. A file whose last line is gone is truncated.
func VerifyExport(ctx context.Context, f *ExportFile, heads []Head) (Report, error) {
	inside := heads[:0:0]
	for _, h := range heads {
		if h.Position >= f.first {
			inside = append(inside, h)
		}
	}
	report, err := Audit{Heads: inside, After: max(f.first-1, 0)}.Verify(ctx, f)
	if err == nil && report.Fault == "" {
		err = f.verifyEnd(&report)
	}
	return report, err
}

// verifyEnd holds the end of the file against the head to which its links lead.
func (f *ExportFile) verifyEnd(report *Report) error {
	broken := func(at Position, fault Fault, detail string) {
		report.FirstBroken, report.Fault, report.Detail, report.Equal = &at, fault, detail, false
	}
	end := report.Head
	switch h := f.head; {
	case h == nil:
		broken(max(end.Position+1, f.first), Truncated, "the file ends without a head")
	case h.Position > end.Position:
		broken(max(end.Position+1, f.first), Truncated, "the file's own head is at "+strconv.FormatInt(int64(h.Position), 10))
	case h.Position != end.Position || h.Hash != end.Hash:
		broken(end.Position, Tampered, "the file's own head is another one")
	default:
		if err := h.Check(Sum{}); err != nil {
			broken(end.Position, Tampered, err.Error())
		}
	}
	if f.backup == nil || report.Fault != "" {
		return nil
	}
	if f.backup.Position != end.Position {
		broken(end.Position, Tampered, "it was begun for the head at "+strconv.FormatInt(int64(f.backup.Position), 10))
		return nil
	}
	whole, err := f.over()
	if err == nil && !whole {
		broken(end.Position+1, Truncated, "the file does not end where it was ended")
	}
	return err
}
