package events

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrHead is wrapped by errors about the end of a chain that someone wrote down: its form or its signature.
var ErrHead = errors.New("not a head of a chain")

// Head is the end of the chain at a moment. Signed and kept where the store's owner can not change it, it proves later
// that everything up to it is what it was. The zero value is the head of an empty store.
type Head struct {
	Position  Position  `json:"position"`
	Hash      Sum       `json:"hash"` // of the link that ends at the position
	At        time.Time `json:"at,omitzero"`
	Key       Sum       `json:"key,omitzero"`       // ed25519 public key
	Signature Signature `json:"signature,omitzero"` // of the key over all but the key
}

// Sum is 32 bytes that are shown in hex.
type Sum [32]byte

// IsZero says that it is not set.
func (s Sum) IsZero() bool { return s == Sum{} }

// String is the hex form.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText writes hex.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Sum) UnmarshalText(text []byte) error { return unhex(s[:], text) }

// Signature is an ed25519 signature, shown in hex.
type Signature [ed25519.SignatureSize]byte

// IsZero says that it is not set.
func (s Signature) IsZero() bool { return s == Signature{} }

// MarshalText writes hex.
func (s Signature) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Signature) UnmarshalText(text []byte) error { return unhex(s[:], text) }

func unhex(into, text []byte) error {
	if len(text) != 2*len(into) {
		return fmt.Errorf("%w: want %d hex digits, have %d", ErrHead, 2*len(into), len(text))
	}
	if _, err := hex.Decode(into, text); err != nil {
		return fmt.Errorf("%w: %w", ErrHead, err)
	}
	return nil
}

const headForm = "penstock head 1\n"

// signed is what a signature is about.
func (h *Head) signed() []byte {
	b := binary.BigEndian.AppendUint64([]byte(headForm), uint64(h.Position))
	b = append(b, h.Hash[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(h.At.UnixMicro()))
}

// Sign sets At, Key and Signature.
func (h *Head) Sign(key ed25519.PrivateKey, at time.Time) {
	h.At = at.UTC().Truncate(time.Microsecond)
	h.Key = Sum(key.Public().(ed25519.PublicKey))
	h.Signature = Signature(ed25519.Sign(key, h.signed()))
}

// Check refuses a head whose signature is not that of its key, or, when by is set, of that key. One without a
// signature passes unless by is set. The error wraps ErrHead.
func (h *Head) Check(by Sum) error {
	switch {
	case h.Signature.IsZero() && by.IsZero():
		return nil
	case h.Signature.IsZero():
		return fmt.Errorf("%w: position %d: it is not signed", ErrHead, h.Position)
	case !by.IsZero() && h.Key != by:
		return fmt.Errorf("%w: position %d: it is signed with another key, %s", ErrHead, h.Position, h.Key)
	case !ed25519.Verify(h.Key[:], h.signed(), h.Signature[:]):
		return fmt.Errorf("%w: position %d: the signature is not that of its key", ErrHead, h.Position)
	}
	return nil
}

// ParseHeads reads heads, one per line: as JSON, or as POSITION:HASH. Empty lines are passed over. The signatures are
// not checked. Errors wrap ErrHead and name the line.
func ParseHeads(text []byte) ([]Head, error) {
	var heads []Head
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		h, err := parseHead(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		heads = append(heads, h)
	}
	return heads, nil
}

func parseHead(line []byte) (h Head, err error) {
	if line[0] == '{' {
		if err := json.Unmarshal(line, &h); err != nil {
			return h, fmt.Errorf("%w: %w", ErrHead, err)
		}
		return h, h.plausible()
	}
	position, hash, ok := strings.Cut(string(line), ":")
	n, err := strconv.ParseInt(position, 10, 64)
	if !ok || err != nil {
		return h, fmt.Errorf("%w: want JSON or POSITION:HASH", ErrHead)
	}
	h.Position = Position(n)
	if err := h.Hash.UnmarshalText([]byte(hash)); err != nil {
		return h, err
	}
	return h, h.plausible()
}

func (h *Head) plausible() error {
	if h.Position < 1 || h.Hash.IsZero() {
		return fmt.Errorf("%w: position and hash are needed", ErrHead)
	}
	return nil
}
