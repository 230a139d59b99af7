package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func sealer(t *testing.T, phrase string) *Sealer {
	t.Helper()
	key, err := ParseKey(phrase)
	require.NoError(t, err)
	s, err := NewSealer(key)
	require.NoError(t, err)
	return s
}

// C28, C31: the plain text is never stored; it comes back only through Open.
func TestSealedCredentialOpensOnlyAsItself(t *testing.T) {
	const plain = Secret("sk-upstream-credential-1234")
	s := sealer(t, "a phrase that is long enough")
	sealed := s.Seal("openai-1", 3, plain)
	require.NotContains(t, string(sealed), plain.Reveal())
	require.NotEqual(t, sealed, s.Seal("openai-1", 3, plain), "sealing twice must not give the same bytes")

	got, err := s.Open("openai-1", 3, sealed)
	require.NoError(t, err)
	require.Equal(t, plain, got)

	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		sealer  *Sealer
		account string
		version int64
		bytes   []byte
	}{
		"another key":           {sealer(t, "a phrase that is long, too"), "openai-1", 3, sealed},
		"another account":       {s, "openai-2", 3, sealed},
		"another version":       {s, "openai-1", 4, sealed},
		"a changed byte":        {s, "openai-1", 3, flipped},
		"cut short":             {s, "openai-1", 3, sealed[:5]},
		"nothing":               {s, "openai-1", 3, nil},
		"an unknown way sealed": {s, "openai-1", 3, append([]byte{9}, sealed[1:]...)},
	} {
		_, err := c.sealer.Open(c.account, c.version, c.bytes)
		require.ErrorIs(t, err, ErrSealed, name)
		require.ErrorContains(t, err, c.account, name)
	}
}

func TestDigestTellsAnUnchangedCredential(t *testing.T) {
	s := sealer(t, "a phrase that is long enough")
	one := s.Digest("a", "sk-1")
	require.Equal(t, one, s.Digest("a", "sk-1"))
	require.NotEqual(t, one, s.Digest("a", "sk-2"))
	require.NotEqual(t, one, s.Digest("b", "sk-1"), "equal credentials of two accounts must not be seen to be equal")
	require.NotEqual(t, one, sealer(t, "a phrase that is long, too").Digest("a", "sk-1"), "a digest needs the key")
}

func TestSecretKeyIsReadInEveryFormThatOperatorsUse(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb, 0x17}, 16)
	want := Key(raw)
	for name, text := range map[string]string{
		"hex":             hex.EncodeToString(raw),
		"upper case hex":  strings.ToUpper(hex.EncodeToString(raw)),
		"base64":          base64.StdEncoding.EncodeToString(raw),
		"base64url":       base64.URLEncoding.EncodeToString(raw),
		"unpadded":        base64.RawURLEncoding.EncodeToString(raw),
		"with a new line": hex.EncodeToString(raw) + "\n",
	} {
		got, err := ParseKey(text)
		require.NoError(t, err, name)
		require.True(t, got == want, name)
	}
	phrase, err := ParseKey("correct horse battery")
	require.NoError(t, err)
	again, err := ParseKey("correct horse battery")
	require.NoError(t, err)
	require.True(t, phrase == again)

	_, err = ParseKey("too-short-secret"[:15])
	require.ErrorIs(t, err, ErrKey)
	require.NotContains(t, err.Error(), "too-short")
}

func TestGeneratedFilesAreForTheOwnerAloneAndStay(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	key, origin, err := LoadKey(folder, "")
	require.NoError(t, err)
	require.Equal(t, Origin{Path: filepath.Join(folder, KeyFile), Generated: true}, origin)
	token, origin, err := LoadToken(folder, "")
	require.NoError(t, err)
	require.True(t, origin.Generated)
	require.Len(t, token.Reveal(), 43)

	for _, name := range []string{KeyFile, TokenFile} {
		info, err := os.Stat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 2, "no temporary file stays behind")

	again, origin, err := LoadKey(folder, "")
	require.NoError(t, err)
	require.False(t, origin.Generated)
	require.True(t, key == again)
	read, err := ReadToken(folder)
	require.NoError(t, err)
	require.Equal(t, token, read)
}

func TestConfiguredSecretsComeFirstAndMakeNoFile(t *testing.T) {
	folder := t.TempDir()
	token, origin, err := LoadToken(folder, "set by hand")
	require.NoError(t, err)
	require.Equal(t, Secret("set by hand"), token)
	require.Empty(t, origin.Path)
	token, _, err = LoadToken(folder, " mounted\n")
	require.NoError(t, err)
	require.Equal(t, "mounted", token.Reveal(), "no header could carry the line break")
	_, _, err = LoadToken(folder, " \n")
	require.ErrorContains(t, err, "blank")
	_, _, err = LoadKey(folder, "short")
	require.ErrorIs(t, err, ErrKey)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
	require.False(t, HasKey(folder))
	_, err = ReadToken(folder)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestBrokenKeyFileIsRefusedRatherThanReplaced(t *testing.T) {
	for name, content := range map[string]string{"empty": " \n", "too short": "abc\n"} {
		folder := t.TempDir()
		path := filepath.Join(folder, KeyFile)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, _, err := LoadKey(folder, "")
		require.ErrorContains(t, err, path, name)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(b), name)
	}
}

func TestKeyFileThatOthersCanReadIsReported(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, KeyFile)
	require.NoError(t, os.WriteFile(path, []byte("a phrase that is long enough"), 0o600))
	require.NoError(t, os.Chmod(path, 0o640))
	_, origin, err := LoadKey(folder, "")
	require.NoError(t, err)
	require.True(t, origin.Loose)
}

func TestProcessesThatStartTogetherAgreeOnTheKey(t *testing.T) {
	folder := t.TempDir()
	keys := make([]Key, 16)
	var group sync.WaitGroup
	for i := range keys {
		group.Go(func() {
			key, _, err := LoadKey(folder, "")
			if err == nil {
				keys[i] = key
			}
		})
	}
	group.Wait()
	require.NotEqual(t, [32]byte{}, [32]byte(keys[0]))
	for _, key := range keys {
		require.True(t, key == keys[0])
	}
}

// C32: what can be shown of a credential is made elsewhere; the credential itself shows nothing.
func TestSecretCannotBePrinted(t *testing.T) {
	const plain = "sk-very-secret"
	type holder struct {
		S Secret
		K Key
	}
	value := holder{Secret(plain), Key([]byte("0123456789abcdef0123456789abcdef"))}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"|"+verb+"\n", value.S, value)
	}
	fmt.Fprintf(&out, "%v %#v %s\n", value.K, value.K, value.K)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", value.S, "h", value, "p", &value)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", value.S, "h", struct{ S Secret }{value.S})
	b, err := json.Marshal(map[string]any{"s": value.S, string(value.S.String()): []Secret{value.S}, "k": value.K})
	require.NoError(t, err)
	out.Write(b)
	for _, leak := range []string{plain, hex.EncodeToString([]byte(plain)), strings.ToUpper(hex.EncodeToString([]byte(plain))),
		"[115 107", "0x73", "0123456789abcdef", "[48 49"} {
		require.NotContains(t, out.String(), leak)
	}
	require.Equal(t, plain, value.S.Reveal())
}
