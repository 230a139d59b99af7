package events

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ErrExport is wrapped by errors about a file that is no export, with the number of the line.
var ErrExport = errors.New("not an export of the event store")

// Export writes links and their rows as JSON lines, from the link that holds the position first on to the one that
// holds last, and then a line with the head that they lead to. sign, unless nil, signs that head. Whoever has the file
// can check it without the store (ReadExport, Audit).
//
//	{"commit":{"first":1,"n":2,"low_water":1,"earliest_us":…,"latest_us":…,"previous":"…","hash":"…"}}
//	{"row":{"position":1,"n":2,"stream":"request/…","version":0,"terminal":true,"at":"…","types":"…",…,"hash":"…","payload":[{…},{…}]}}
//	{"row":{"position":3,"n":1,"archived":true,"hash":"…"}}
//	{"head":{"position":3,"hash":"…","at":"…","key":"…","signature":"…"}}
func Export(ctx context.Context, chain Chain, first, last Position, sign func(*Head), w io.Writer) (Head, error) {
	out := bufio.NewWriterSize(w, 64<<10)
	var head Head
	var line []byte
	var failed error
	err := chain.Chain(ctx, first-1, func(c *Commit, rows []RawRow) bool {
		if c.First > last {
			return false
		}
		if line, failed = appendCommit(line[:0], c); failed == nil {
			_, failed = out.Write(line)
		}
		for i := range rows {
			if failed == nil {
				if line, failed = appendRow(line[:0], &rows[i]); failed == nil {
					_, failed = out.Write(line)
				}
			}
		}
		head = Head{Position: c.First + Position(c.N) - 1, Hash: c.Hash}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return head, fmt.Errorf("export events: %w", err)
	}
	if sign != nil && head.Position > 0 {
		sign(&head)
	}
	end, err := json.Marshal(exported{Head: &head})
	if err != nil {
		return head, fmt.Errorf("export events: head: %w", err)
	}
	_, err = out.Write(append(end, '\n'))
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return head, fmt.Errorf("export events: %w", err)
	}
	return head, nil
}

// exported is one line of an export; one field is set.
type exported struct {
	Commit *exportedCommit `json:"commit,omitempty"`
	Row    *exportedRow    `json:"row,omitempty"`
	Head   *Head           `json:"head,omitempty"`
}

type exportedCommit struct {
	First    Position `json:"first"`
	N        int64    `json:"n"`
	LowWater Position `json:"low_water"`
	Earliest int64    `json:"earliest_us"` // microseconds since 1970
	Latest   int64    `json:"latest_us"`
	Previous Sum      `json:"previous"`
	Hash     Sum      `json:"hash"`
}

type exportedRow struct {
	Position Position        `json:"position"`
	N        int64           `json:"n"`
	Archived bool            `json:"archived,omitempty"`
	Stream   string          `json:"stream,omitempty"`
	Version  int64           `json:"version"`
	Terminal bool            `json:"terminal,omitempty"`
	At       int64           `json:"at_us"` // microseconds since 1970: what is hashed
	Time     string          `json:"at,omitempty"`
	Types    string          `json:"types,omitempty"`
	Request  string          `json:"request,omitempty"`
	Key      string          `json:"key,omitempty"`
	Upstream string          `json:"upstream,omitempty"`
	Node     string          `json:"node,omitempty"`
	Hash     Sum             `json:"hash"`
	Bytes    []byte          `json:"payload_base64,omitempty"` // when the payload would not survive as JSON
	Payload  json.RawMessage `json:"-"`                        // "payload", written and read by hand: its bytes are hashed
}

func appendCommit(b []byte, c *Commit) ([]byte, error) {
	line, err := json.Marshal(exported{Commit: &exportedCommit{c.First, c.N, c.LowWater, c.Earliest, c.Latest, c.Previous, c.Hash}})
	return append(append(b, line...), '\n'), err
}

// appendRow keeps the bytes of the payload: an encoder would write them anew.
func appendRow(b []byte, r *RawRow) ([]byte, error) {
	x := exportedRow{Position: r.Position, N: r.N, Archived: r.Archived, Hash: r.Hash}
	verbatim := false
	if !r.Archived {
		x.Stream, x.Version, x.Terminal, x.Types = r.Stream, r.Version, r.Terminal, r.Types
		x.At, x.Time = r.At.UnixMicro(), r.At.UTC().Format(timeLayout)
		x.Request, x.Key, x.Upstream, x.Node = r.Request, r.Key, r.Upstream, r.Node
		if verbatim = survives(r.Payload); !verbatim {
			x.Bytes = r.Payload
		}
	}
	line, err := json.Marshal(exported{Row: &x})
	if err != nil {
		return b, fmt.Errorf("row at position %d: %w", r.Position, err)
	}
	if !verbatim {
		return append(append(b, line...), '\n'), nil
	}
	b = append(b, line[:len(line)-2]...) // without the two closing braces
	b = append(b, `,"payload":`...)
	b = append(b, r.Payload...)
	return append(b, "}}\n"...), nil
}

// survives says that a payload comes back byte for byte out of a line of JSON.
func survives(payload []byte) bool {
	n := len(payload)
	return n > 1 && payload[0] == '[' && payload[n-1] == ']' && !bytes.ContainsAny(payload, "\n\r") && json.Valid(payload)
}

// ExportFile is an export being read. It is a Chain that can be read once.
type ExportFile struct {
	lines *bufio.Reader
	n     int // lines read
	next  *exported
	first Position
	head  *Head
}

// ReadExport begins to read what Export wrote, compressed with gzip or not.
func ReadExport(r io.Reader) (*ExportFile, error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrExport, err)
		}
		lines = bufio.NewReaderSize(unzipped, 64<<10)
	}
	f := &ExportFile{lines: lines}
	if err := f.read(); err != nil {
		return nil, err
	}
	switch {
	case f.next == nil || f.next.Row != nil:
		return nil, fmt.Errorf("%w: line 1: a commit is expected", ErrExport)
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
	var line []byte
	for {
		part, err := f.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < lineMax:
			continue
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF): // what is cut off is no line
			return nil
		default:
			return fmt.Errorf("%w: line %d: %w", ErrExport, f.n+1, err)
		}
		break
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
	if f.next.Commit == nil && f.next.Row == nil && f.next.Head == nil {
		return fmt.Errorf("%w: line %d is neither commit, row nor head", ErrExport, f.n)
	}
	return nil
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
		case f.next.Row == nil:
			if commit != nil {
				more = yield(commit, rows)
			}
			c := f.next.Commit
			commit, rows = &Commit{c.First, c.N, c.Previous, c.Hash, Bounds{c.LowWater, c.Earliest, c.Latest}}, rows[:0]
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
	return RawRow{Position: x.Position, N: x.N, Archived: x.Archived, Hash: x.Hash, Row: Row{
		Stream: x.Stream, Version: x.Version, Terminal: x.Terminal, At: time.UnixMicro(x.At).UTC(), Types: x.Types,
		Request: x.Request, Key: x.Key, Upstream: x.Upstream, Node: x.Node, Payload: x.Payload,
	}}
}

// VerifyExport audits an export. A file whose last line is gone is truncated.
func VerifyExport(ctx context.Context, f *ExportFile, heads []Head) (Report, error) {
	inside := heads[:0:0]
	for _, h := range heads {
		if h.Position >= f.first {
			inside = append(inside, h)
		}
	}
	report, err := Audit{Heads: inside, After: max(f.first-1, 0)}.Verify(ctx, f)
	if err != nil || report.Fault != "" {
		return report, err
	}
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
	return report, nil
}
