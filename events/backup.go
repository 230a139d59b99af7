package events

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

var (
	// ErrNotEmpty refuses to fill a store that has something in it.
	ErrNotEmpty = errors.New("the event store is not empty")
	// ErrBackup is wrapped by errors about a file that is no whole backup. Nothing of it is stored.
	ErrBackup = errors.New("not a whole backup")
	// ErrNotIntact refuses to back up a chain that does not hold: no store would take it.
	ErrNotIntact = errors.New("the event store is not intact")
)

// Movable is a store that can be copied while it works, and made from a copy. SQLite, PostgreSQL and memory pass
// storetest.Move, from each into each.
type Movable interface {
	Chain
	// Belongings reads what is kept beside the chain, and where the chain ends, as they are at one moment.
	Belongings(ctx context.Context) (*Belongings, error)
	// Fill makes an empty store one that has all links and rows of a chain, with the places, hashes, bounds and numbers that they
	// come with, and the belongings. Rows that were removed come as what is left of them. Whoever calls it sees to it that the chain
	// holds; it is read once. All is stored in the end or, after an error and whenever the process ends before, nothing; after ErrInDoubt
	// one of the two. A store that is not empty is refused with ErrNotEmpty, and the chain is not read.
	Fill(ctx context.Context, b *Belongings, chain Chain) error
}

// Belongings are what a store keeps beside its chain and could not make from it.
type Belongings struct {
	Head    Position         // of the chain at that moment
	Secrets []Secret         // all versions, in order of id and version; sealed, as ever
	Groups  []FeedCheckpoint // by name
}

// BackupOptions say what a store does not know. Each may be left out.
type BackupOptions struct {
	By   string    // program that writes it, for people
	At   time.Time // now
	Sign func(*Head)
	// InForce says which of the secrets are those of the configuration that holds at a position: who restores must be able to
	// open them.
	InForce func(ctx context.Context, at Position) (func(*Secret) bool, error)
}

// Backup writes a store up to the head of this moment, as Export does, with its belongings in front, and returns the head. Appends go
// on meanwhile; rows must not be removed of which it is not said up to that head. What it has written can be restored when there is no error: the
// chain is checked on the way.
//
//	{"backup":{"format":1,"position":3,"at":"…","by":"penstock …"}}
//	{"secret":{"id":"openai-1","version":2,"sealed":"…","digest":"…","in_force":true}}
//	{"group":{"name":"webhook/w","position":2,"at_us":…}}
//	{"sum":{"sha256":"…"}}
//	commits, rows and the head of Export
//	{"sum":{"sha256":"…"}}
//
// A sum is that of all bytes before its line.
func Backup(ctx context.Context, store Movable, o BackupOptions, w io.Writer) (Head, error) {
	b, err := store.Belongings(ctx)
	if err != nil {
		return Head{}, fmt.Errorf("back up: %w", err)
	}
	inForce := func(*Secret) bool { return false }
	if o.InForce != nil {
		if inForce, err = o.InForce(ctx, b.Head); err != nil {
			return Head{}, fmt.Errorf("back up: %w", err)
		}
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	if err := writeLines(out, b.lines(&o, inForce)...); err != nil {
		return Head{}, err
	}
	if err := writeLines(w, sumLine(sum.Sum(nil), sum)); err != nil {
		return Head{}, err
	}
	chain := newChecking(store, Audit{})
	chain.mends = true
	head, err := Export(ctx, chain, 1, b.Head, o.Sign, out)
	if fault := chain.fault(); fault != nil {
		return head, fmt.Errorf("%w: %w", ErrNotIntact, fault)
	}
	if err != nil {
		return head, err
	}
	if head.Position != b.Head {
		return head, fmt.Errorf("%w: the head was at %d, and the chain ends at %d", ErrNotIntact, b.Head, head.Position)
	}
	return head, writeLines(w, sumLine(sum.Sum(nil), sum))
}

// backupForm is the form of a backup that is written here, and the last one that can be read.
const backupForm = 1

// BackupHeading is the first line of a backup.
type BackupHeading struct {
	Format   int       `json:"format"`
	Position Position  `json:"position"` // of the head that it leads to
	At       time.Time `json:"at,omitzero"`
	By       string    `json:"by,omitempty"`
}

type exportedSecret struct {
	ID      exportedText `json:"id"`
	Version int64        `json:"version"`
	Sealed  []byte       `json:"sealed"`
	Digest  []byte       `json:"digest"`
	InForce bool         `json:"in_force,omitempty"`
}

type exportedGroup struct {
	Name     exportedText `json:"name"`
	Position Position     `json:"position"`
	At       int64        `json:"at_us"` // microseconds since 1970
}

type exportedSum struct {
	SHA256 Sum `json:"sha256"`
}

func (b *Belongings) lines(o *BackupOptions, inForce func(*Secret) bool) (lines []exported) {
	lines = append(lines, exported{Backup: &BackupHeading{Format: backupForm, Position: b.Head, At: o.At, By: o.By}})
	for i := range b.Secrets {
		v := &b.Secrets[i]
		lines = append(lines, exported{Secret: &exportedSecret{exportedText(v.ID), v.Version, notNil(v.Sealed), notNil(v.Digest), inForce(v)}})
	}
	for _, g := range b.Groups {
		lines = append(lines, exported{Group: &exportedGroup{exportedText(g.Group), g.Position, g.At.UnixMicro()}})
	}
	return lines
}

// sumLine is a line that is part of the next sum.
func sumLine(of []byte, into io.Writer) exported {
	line := exported{Sum: &exportedSum{Sum(of)}}
	_ = writeLines(into, line) // a hash takes everything
	return line
}

func writeLines(w io.Writer, lines ...exported) error {
	var all bytes.Buffer
	for i := range lines {
		line, err := json.Marshal(&lines[i])
		if err != nil {
			return fmt.Errorf("back up: %w", err)
		}
		all.Write(append(line, '\n'))
	}
	if _, err := w.Write(all.Bytes()); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// checking hands on the links of a chain that hold, and no more from the first on that does not.
type checking struct {
	chain Chain
	v     verifier
	mends bool // what readers can not find is found again where the chain goes
}

func newChecking(chain Chain, a Audit) *checking {
	k := &checking{chain: chain, v: a.verifier()}
	k.v.hurried = true
	return k
}

// Chain implements Chain.
func (k *checking) Chain(ctx context.Context, after Position, yield func(*Commit, []RawRow) bool) error {
	return k.chain.Chain(ctx, after, func(c *Commit, rows []RawRow) bool {
		for i := range rows {
			if k.mends {
				rows[i].Lost = ""
			}
		}
		k.v.link(c, rows)
		return k.v.report.Fault == "" && yield(c, rows)
	})
}

// fault is what did not hold, nil for nothing.
func (k *checking) fault() error { return k.v.report.err() }

// err is the fault of a report.
func (r *Report) err() error {
	if r.Fault == "" {
		return nil
	}
	return fmt.Errorf("%s at position %d: %s", r.Fault, *r.FirstBroken, r.Detail)
}

// exportedText is a text that may be no UTF-8: then its bytes stand in base64.
type exportedText string

type textBytes struct {
	Bytes []byte `json:"base64"`
}

// MarshalJSON writes a string, or an object with the bytes.
func (t exportedText) MarshalJSON() ([]byte, error) {
	plain, err := json.Marshal(string(t))
	var back string
	if err == nil && json.Unmarshal(plain, &back) == nil && back == string(t) {
		return plain, nil
	}
	return json.Marshal(textBytes{[]byte(t)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *exportedText) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		var x textBytes
		err := json.Unmarshal(text, &x)
		*t = exportedText(x.Bytes)
		return err
	}
	return json.Unmarshal(text, (*string)(t))
}
