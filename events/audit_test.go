package events

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func signedHead(t *testing.T) (Head, Sum) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	h := Head{Position: 7, Hash: Sum{1, 2}}
	h.Sign(key, time.Date(2026, 3, 1, 12, 0, 0, 1500, time.FixedZone("east", 3600)))
	return h, Sum(key.Public().(ed25519.PublicKey))
}

func TestASignatureIsAboutAllThatAHeadSays(t *testing.T) {
	h, key := signedHead(t)
	require.NoError(t, h.Check(Sum{}))
	require.NoError(t, h.Check(key))
	for what, change := range map[string]func(*Head){
		"position":  func(h *Head) { h.Position++ },
		"hash":      func(h *Head) { h.Hash[31] ^= 1 },
		"time":      func(h *Head) { h.At = h.At.Add(time.Microsecond) },
		"key":       func(h *Head) { h.Key[0] ^= 1 },
		"signature": func(h *Head) { h.Signature[0] ^= 1 },
	} {
		forged := h
		change(&forged)
		require.ErrorIs(t, forged.Check(Sum{}), ErrHead, what)
	}
	require.ErrorContains(t, h.Check(Sum{9}), "another key")
	plain := Head{Position: 7, Hash: h.Hash}
	require.NoError(t, plain.Check(Sum{}))
	require.ErrorContains(t, plain.Check(key), "not signed")
}

func TestAHeadComesBackFromItsJSON(t *testing.T) {
	h, key := signedHead(t)
	text, err := json.Marshal(h)
	require.NoError(t, err)
	short := "9:" + strings.Repeat("0a", 32)
	heads, err := ParseHeads([]byte(string(text) + "\n\n " + short + "\n"))
	require.NoError(t, err)
	require.Len(t, heads, 2)
	require.Equal(t, h, heads[0])
	require.NoError(t, heads[0].Check(key))
	require.Equal(t, Position(9), heads[1].Position)
	require.Equal(t, byte(0x0a), heads[1].Hash[31])
	for _, bad := range []string{"x", "1:2", "0:" + strings.Repeat("0a", 32), "{}", `{"position":1}`, "1:" + strings.Repeat("zz", 32), "{\n"} {
		_, err := ParseHeads([]byte("\n" + bad))
		require.ErrorIs(t, err, ErrHead, bad)
		require.ErrorContains(t, err, "line 2", bad)
	}
}

func TestAFileThatIsNoExportIsRefusedWithItsLine(t *testing.T) {
	for text, says := range map[string]string{
		"":                                    "line 1: a commit is expected",
		"hello\n":                             "line 1",
		"{}\n":                                "line 1 is neither",
		`{"row":{"position":1,"n":1}}` + "\n": "line 1: a commit is expected",
		"\x1f\x8bno":                          "not an export",
	} {
		_, err := ReadExport(strings.NewReader(text))
		require.ErrorIs(t, err, ErrExport, text)
		require.ErrorContains(t, err, says)
	}
	f, err := ReadExport(strings.NewReader(`{"commit":{"first":1,"n":1}}` + "\n" + "{\n"))
	require.NoError(t, err)
	_, err = VerifyExport(context.Background(), f, nil)
	require.ErrorIs(t, err, ErrExport)
	require.ErrorContains(t, err, "line 2")
}

func TestAnExportOfAnEmptyStoreHoldsNothingAndIsWhole(t *testing.T) {
	f, err := ReadExport(strings.NewReader(`{"head":{"position":0,"hash":"` + Sum{}.String() + `"}}` + "\n"))
	require.NoError(t, err)
	report, err := VerifyExport(context.Background(), f, nil)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
	require.Zero(t, report.Positions)
}
