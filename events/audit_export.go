package events

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
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

// exported is one line of an export; one field is set. The last ones are those of a backup only.
type exported struct {
	Commit *exportedCommit `json:"commit,omitempty"`
	Row    *exportedRow    `json:"row,omitempty"`
	Head   *Head           `json:"head,omitempty"`

	Backup *BackupHeading  `json:"backup,omitempty"`
	Secret *exportedSecret `json:"secret,omitempty"`
	Group  *exportedGroup  `json:"group,omitempty"`
	Sum    *exportedSum    `json:"sum,omitempty"`
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

	Odd map[string][]byte `json:"texts_base64,omitempty"` // of the texts above those that are no UTF-8, by name
}

// texts are those of a row by the names that they have in a line.
func (x *exportedRow) texts() map[string]*string {
	return map[string]*string{
		"stream": &x.Stream, "types": &x.Types, "request": &x.Request, "key": &x.Key, "upstream": &x.Upstream, "node": &x.Node,
	}
}

// setApart takes texts out that a line of JSON would change: their bytes are hashed.
func (x *exportedRow) setApart() {
	if utf8.ValidString(x.Stream) && utf8.ValidString(x.Types) && utf8.ValidString(x.Request) && utf8.ValidString(x.Key) &&
		utf8.ValidString(x.Upstream) && utf8.ValidString(x.Node) {
		return
	}
	x.Odd = map[string][]byte{}
	for name, text := range x.texts() {
		if !utf8.ValidString(*text) {
			x.Odd[name], *text = []byte(*text), ""
		}
	}
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
		x.setApart()
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
