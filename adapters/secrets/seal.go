// Package secrets keeps what must not be read by others: it seals upstream credentials, makes the key and the admin
// token in the data folder, and has a type for secrets that cannot be printed.
package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/cockroachdb/errors"
)

// ErrSealed says that a sealed credential does not open: it was sealed under another key, for another account or
// version, or its bytes were changed. Which of these it is cannot be told.
var ErrSealed = errors.New("sealed credential does not open")

// format is the first byte of what Seal returns; a later way of sealing gets another.
const format = 1

// Purposes that the one secret key is split into, so that no derived key serves two.
const (
	purposeSeal   = "penstock credential seal v1"
	purposeDigest = "penstock credential digest v1"
)

// Sealer seals and opens upstream credentials with AES-256-GCM under keys derived from the secret key.
// It may be used by many goroutines.
type Sealer struct {
	aead   cipher.AEAD
	digest []byte // HMAC key
}

// NewSealer returns the sealer of a secret key.
func NewSealer(key Key) (*Sealer, error) {
	sealing, err := hkdf.Key(sha256.New, key[:], nil, purposeSeal, 32)
	if err != nil {
		return nil, errors.Wrap(err, "derive sealing key")
	}
	digest, err := hkdf.Key(sha256.New, key[:], nil, purposeDigest, 32)
	if err != nil {
		return nil, errors.Wrap(err, "derive digest key")
	}
	block, err := aes.NewCipher(sealing)
	if err != nil {
		return nil, errors.Wrap(err, "set up AES")
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, errors.Wrap(err, "set up GCM")
	}
	return &Sealer{aead: aead, digest: digest}, nil
}

// Seal encrypts the credential of an account. The account and the version are bound to the result: it does not open
// as another version, nor for another account. Sealing twice gives two different results.
func (s *Sealer) Seal(account string, version int64, plain Secret) []byte {
	return s.aead.Seal([]byte{format}, nil, []byte(plain), bound(account, version))
}

// Open is the inverse of Seal; its error wraps ErrSealed and names the account.
func (s *Sealer) Open(account string, version int64, sealed []byte) (Secret, error) {
	if len(sealed) == 0 || sealed[0] != format {
		return "", errors.Wrapf(ErrSealed, "account %q version %d", account, version)
	}
	plain, err := s.aead.Open(nil, nil, sealed[1:], bound(account, version))
	if err != nil {
		return "", errors.Wrapf(ErrSealed, "account %q version %d", account, version)
	}
	return Secret(plain), nil
}

// Digest is a keyed digest of the credential of an account. Equal credentials of one account have equal digests, so an
// unchanged one is recognised without being opened; without the secret key a digest says nothing.
func (s *Sealer) Digest(account string, plain Secret) []byte {
	mac := hmac.New(sha256.New, s.digest)
	mac.Write(bound(account, 0))
	mac.Write([]byte(plain))
	return mac.Sum(nil)
}

// bound is the additional data of a credential. The version has a fixed width, so no two pairs have the same bytes.
func bound(account string, version int64) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(version)), account...)
}
