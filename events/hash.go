package events

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hasher makes the hashes of the tamper-evident chain. The zero value is ready; it keeps a buffer between calls, so
// that hashing allocates nothing, and belongs to one goroutine.
type Hasher struct {
	buf []byte
}

// Domain separation: a row's hash can never be taken for a commit's, nor for one of a later form.
const (
	rowForm    = "penstock row 1\n"
	commitForm = "penstock commit 2\n"
	// formerForm is that of links which were made before bounds were hashed. A link is of the form that gives its hash: none can
	// be made out to be of the other.
	formerForm = "penstock commit 1\n"
)

// Row is the hash of an encoded row at a position: SHA-256 over all that is stored of it, each number as 8 bytes
// big-endian, each text behind its length. Its version must be known (no AnyVersion).
func (h *Hasher) Row(at Position, r *Row) [32]byte {
	b := append(h.buf[:0], rowForm...)
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = appendText(b, r.Stream)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Version))
	if r.Terminal {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = appendText(b, r.Types)
	b = appendText(b, r.Request)
	b = appendText(b, r.Key)
	b = appendText(b, r.Upstream)
	b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixMicro()))
	b = appendText(b, r.Node)
	b = appendText(b, r.Payload)
	h.buf = b
	return sha256.Sum256(b)
}

// Commit is the next link of the chain: over the link before it (zero for the first commit), the position of the
// commit's first fact, its number of facts, its bounds, and the hashes of its rows in order.
func (h *Hasher) Commit(previous [32]byte, first Position, facts int64, bounds Bounds, rows [][32]byte) [32]byte {
	b := append(h.buf[:0], commitForm...)
	b = append(b, previous[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = binary.BigEndian.AppendUint64(b, uint64(facts))
	b = binary.BigEndian.AppendUint64(b, uint64(bounds.LowWater))
	b = binary.BigEndian.AppendUint64(b, uint64(bounds.Earliest))
	b = binary.BigEndian.AppendUint64(b, uint64(bounds.Latest))
	return h.over(b, rows)
}

// commit1 is the hash of a link in its former form.
func (h *Hasher) commit1(previous [32]byte, first Position, facts int64, rows [][32]byte) [32]byte {
	b := append(h.buf[:0], formerForm...)
	b = append(b, previous[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = binary.BigEndian.AppendUint64(b, uint64(facts))
	return h.over(b, rows)
}

func (h *Hasher) over(b []byte, rows [][32]byte) [32]byte {
	for i := range rows {
		b = append(b, rows[i][:]...)
	}
	h.buf = b
	return sha256.Sum256(b)
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
