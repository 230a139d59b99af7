package secrets

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/errors"
)

// Key is the secret key of an instance: 32 bytes from which all others are derived. It prints as "***".
type Key [32]byte

// Format writes "***" for every verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText is "***", for JSON and slog.
func (Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// passphraseMin is the least number of characters of a key that is a phrase.
const passphraseMin = 16

// ErrKey refuses a secret key that is too short.
var ErrKey = errors.New("secret key is unusable")

// ParseKey reads a secret key as an operator writes it: 32 bytes as 64 hex digits or as base64 (either alphabet, padded
// or not). Any other text of at least 16 characters is a phrase and goes through HKDF with SHA-256. The error never
// repeats the text.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	if b, err := hex.DecodeString(text); err == nil && len(b) == len(Key{}) {
		return Key(b), nil
	}
	unpadded := strings.TrimRight(text, "=")
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := alphabet.Strict().DecodeString(unpadded); err == nil && len(b) == len(Key{}) {
			return Key(b), nil
		}
	}
	if len(text) < passphraseMin {
		return Key{}, errors.Wrapf(ErrKey, "want 64 hex digits, 32 bytes of base64 or a phrase of at least %d characters, got %d characters",
			passphraseMin, len(text))
	}
	b, err := hkdf.Key(sha256.New, []byte(text), nil, "penstock secret key v1", len(Key{}))
	if err != nil {
		return Key{}, errors.Wrap(err, "derive secret key")
	}
	return Key(b), nil
}

// Names of the files in the data folder.
const (
	KeyFile   = "secret.key"
	TokenFile = "admin.token"
)

// Origin says where a secret was found.
type Origin struct {
	Path      string // "" when it was configured
	Generated bool   // made just now
	Loose     bool   // the file can be read by others than its owner; say so to the operator
}

// LoadKey returns the configured secret key, or with none configured the one in the data folder, which is made (mode
// 0600) when it is not there yet.
func LoadKey(folder, configured string) (Key, Origin, error) {
	text, origin, err := load(folder, KeyFile, configured)
	if err != nil {
		return Key{}, origin, err
	}
	key, err := ParseKey(text)
	if err != nil && origin.Path != "" {
		err = errors.Wrapf(err, "read %s", origin.Path)
	}
	return key, origin, err
}

// LoadToken returns the configured admin token, or with none configured the one in the data folder, which is made
// (mode 0600) when it is not there yet.
func LoadToken(folder, configured string) (Secret, Origin, error) {
	text, origin, err := load(folder, TokenFile, configured)
	return Secret(text), origin, err
}

// ReadToken returns the admin token of a data folder and makes none. A missing file is fs.ErrNotExist.
func ReadToken(folder string) (Secret, error) {
	text, _, err := read(filepath.Join(folder, TokenFile))
	return Secret(text), err
}

// HasKey says whether the data folder has a key file.
func HasKey(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, KeyFile))
	return err == nil
}

// generated is a new secret: 32 bytes of chance as base64url.
func generated() string {
	var chance [32]byte
	_, _ = rand.Read(chance[:]) // never fails: it ends the program instead
	return base64.RawURLEncoding.EncodeToString(chance[:])
}

func load(folder, name, configured string) (string, Origin, error) {
	if configured != "" {
		text := strings.TrimSpace(configured) // as of a file: what mounts a secret may leave its line break on it
		if text == "" {
			return "", Origin{}, errors.Newf("what is configured in place of %s is blank", name)
		}
		return text, Origin{}, nil
	}
	path := filepath.Join(folder, name)
	text, loose, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, Origin{Path: path, Loose: loose}, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", Origin{Path: path}, errors.Wrap(err, "make data folder")
	}
	made, err := create(path, generated())
	if err != nil {
		return "", Origin{Path: path}, err
	}
	text, loose, err = read(path) // another process may have been first: its value counts
	return text, Origin{Path: path, Generated: made, Loose: loose}, err
}

func read(path string) (text string, loose bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false, errors.Wrap(err, "look for secret file")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", false, errors.Wrap(err, "read secret file")
	}
	text = strings.TrimSpace(string(b))
	if text == "" {
		return "", false, errors.Newf("secret file %s is empty", path)
	}
	return text, info.Mode().Perm()&0o077 != 0, nil
}

// create writes the file whole or not at all and never over another: a crash must not leave half a key behind, under
// which credentials would then be sealed. made is false when the file is there already.
func create(path, text string) (made bool, err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return false, errors.Wrap(err, "make secret file")
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.WriteString(text + "\n")
	err = errors.CombineErrors(err, temp.Sync())
	err = errors.CombineErrors(err, temp.Close())
	if err != nil {
		return false, errors.Wrapf(err, "write %s", path)
	}
	switch err := os.Link(temp.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, errors.Wrapf(err, "place %s", path)
	}
	return true, syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return errors.Wrap(err, "open data folder")
	}
	defer func() { _ = folder.Close() }()
	return errors.Wrapf(folder.Sync(), "sync %s", path)
}
