// Package events keeps the facts: their names and codec (catalogue.go), the Store port, and the Journal, the one
// writer of a node. It imports nothing above the domain.
package events

import (
	"fmt"
	"time"
)

// Position is the global order of the event store, from 1; every fact has its own. It is also the revision of the
// configuration. The zero value is "before everything".
type Position int64

// AnyVersion as an expected version lets the store number the row. It is for the streams of actors and nodes, which
// have one writer that need not remember its place; a request numbers its own.
const AnyVersion int64 = -1

// Fact is a domain fact: a pointer to a struct that the Catalogue knows.
type Fact = any

// Row is one append to one stream: 1..n facts that are stored together in one row, each with its own position.
type Row struct {
	Stream   string    // "request/<id>", "upstream/<id>", "account/<id>", "catalog/<kind>/<id>", "node/<id>"
	Version  int64     // facts already in the stream, or AnyVersion
	Terminal bool      // ends a request stream; a second terminal row is refused with ErrConflict
	At       time.Time // UTC, microseconds
	Node     string
	Request  string // index columns: empty where they do not apply
	Key      string
	Upstream string
	Facts    []Fact

	Types   string // names of the facts, space-separated, "name" or "name@schema" above schema 1; set by Encode
	Payload []byte // JSON array with one object per fact, in order; set by Encode
}

// Append is what is stored as one: all its rows and secrets or none. The usual append has one row.
type Append struct {
	Rows    []Row
	Secrets []Secret
}

// Encoded refuses a batch of which a row was never encoded: a fault of the program, not of a store.
func Encoded(batch []Append) error {
	for i := range batch {
		if len(batch[i].Rows) == 0 {
			return fmt.Errorf("append %d has no rows", i)
		}
		for j := range batch[i].Rows {
			r := &batch[i].Rows[j]
			if r.Stream == "" || len(r.Facts) == 0 || r.Types == "" || len(r.Payload) == 0 {
				return fmt.Errorf("append %d, row %d (stream %q) is not encoded", i, j, r.Stream)
			}
		}
	}
	return nil
}

// Secret is one immutable version of a sealed credential, stored in the same transaction as the fact that names it.
type Secret struct {
	ID      string // account id
	Version int64
	Sealed  []byte // ciphertext; the store never sees more
	Digest  []byte // keyed digest of the plain text, to tell an unchanged credential without opening it
}

// Committed is a stored row as it is handed to projections and read back: Row with its place in the global order.
type Committed struct {
	Position Position // of the first fact; fact i has Position+i
	Hash     [32]byte
	Row
}

// Last is the position of the row's last fact.
func (c *Committed) Last() Position { return c.Position + Position(len(c.Facts)) - 1 }
