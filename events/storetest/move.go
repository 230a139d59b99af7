package storetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

// Movable is a store that can be backed up and restored.
type Movable interface {
	events.Store
	events.Movable
}

// Kinds make fresh, empty stores, and close them when their test ends. One is "memory", the oracle.
type Kinds map[string]func(t *testing.T) Movable

// Move checks events.Movable: the random lives of requests go through a backup from each kind of store into each kind, and go on
// there. What all keep is the same, and so is every byte of their backups.
func Move(t *testing.T, kinds Kinds) {
	seed := uint64(0)
	for _, from := range slices.Sorted(maps.Keys(kinds)) {
		for _, to := range slices.Sorted(maps.Keys(kinds)) {
			seed++
			t.Run(fmt.Sprintf("from %s into %s", from, to), func(t *testing.T) {
				t.Parallel()
				moves(t, seed, kinds, from, to)
			})
		}
	}
	for kind, open := range kinds {
		t.Run(kind+" takes a whole file or nothing", func(t *testing.T) {
			t.Parallel()
			file := backup(t, grouped{lived(t, 99, kinds, "memory", 3).other.(Movable)})
			damaged(t, file, open(t))
			brokenOff(t, file, open(t))
		})
		t.Run(kind+" keeps what is there", func(t *testing.T) {
			t.Parallel()
			refuses(t, kinds, open)
		})
	}
}

// lived are stores in which requests have lived for so many rounds.
func lived(t *testing.T, seed uint64, kinds Kinds, kind string, rounds int) *lives {
	l := &lives{
		differential: &differential{T: t, Rand: rand.New(rand.NewPCG(seed, 17)), oracle: kinds["memory"](t), other: kinds[kind](t)},
		now:          start.UnixMicro(), at: map[string]*life{}, removable: true,
	}
	l.liveOn(rounds)
	return l
}

func (l *lives) liveOn(rounds int) {
	for round := range rounds {
		l.tick()
		l.write()
		if round%5 == 4 {
			l.remove()
		}
	}
}

func moves(t *testing.T, seed uint64, kinds Kinds, from, to string) {
	l := lived(t, seed, kinds, from, 20)
	file := backup(t, grouped{l.oracle.(Movable)})
	sameFile(t, file, backup(t, grouped{l.other.(Movable)}), from)
	report := verifyFile(t, file)
	require.True(t, report.Equal, "an audit takes a backup, too: %+v", report)

	s := kinds[to](t)
	restored, err := restore(s, bytes.NewReader(zipped(t, file)), report.Head)
	require.NoError(t, err)
	require.Equal(t, report.Positions, restored.Positions)
	require.Equal(t, report.Archived, restored.Archived)
	require.Equal(t, 1, restored.Heads)
	require.Equal(t, 2, restored.Groups)
	sameFile(t, file, backup(t, s), to)

	l.other = s
	l.read(20)
	l.chains()
	l.liveOn(10)
	l.read(20)
	l.chains()
	audited := audit(t, s, events.Audit{Heads: []events.Head{report.Head}})
	require.True(t, audited.Equal, "%+v", audited)
	require.Equal(t, 1, audited.Heads)

	before := backup(t, s)
	_, err = restore(s, bytes.NewReader(file))
	require.ErrorIs(t, err, events.ErrNotEmpty)
	sameFile(t, before, backup(t, s), "it is as it was")
}

// damaged gives a store files that are not what was written.
func damaged(t *testing.T, file []byte, s Movable) {
	r := rand.New(rand.NewPCG(1, 2))
	lines := bytes.SplitAfter(file, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(parts ...[][]byte) []byte {
		var all []byte
		for _, p := range parts {
			all = append(all, bytes.Join(p, nil)...)
		}
		return all
	}
	for n := range 60 {
		var bad []byte
		at, line := r.IntN(len(file)), r.IntN(len(lines)-1)
		what := fmt.Sprintf("%d: byte %d, line %d", n, at, line+1)
		switch n % 6 {
		case 0:
			bad = file[:at]
		case 1:
			bad = join(lines[:line], lines[line+1:])
		case 2:
			bad = join(lines[:line], lines[line+1:line+2], lines[line:line+1], lines[line+2:])
		case 3:
			bad = join(lines[:line+1], lines[line:])
		default:
			bad = bytes.Clone(file)
			bad[at] ^= 1 << r.IntN(8)
		}
		_, err := restore(s, bytes.NewReader(bad))
		if err == nil { // a letter of the last line that may as well be a capital one
			sameFile(t, file, backup(t, s), what)
			return
		}
		require.ErrorIs(t, err, events.ErrBackup, what)
		require.NotErrorIs(t, err, events.ErrUnavailable, "%s: the store is not to blame", what)
		requireEmpty(t, s, what)
	}
	zip := zipped(t, file)
	for what, bad := range map[string]io.Reader{
		"nothing":                  bytes.NewReader(nil),
		"something else":           bytes.NewReader([]byte("PK\x03\x04")),
		"two files in one":         bytes.NewReader(append(bytes.Clone(file), file...)),
		"something behind it":      bytes.NewReader(append(bytes.Clone(file), ' ')),
		"compressed and cut":       bytes.NewReader(zip[:len(zip)/2]),
		"compressed without end":   bytes.NewReader(zip[:len(zip)-3]),
		"a disk that can not read": io.MultiReader(bytes.NewReader(file[:len(file)*2/3]), iotest.ErrReader(errors.New("input/output error"))),
	} {
		_, err := restore(s, bad)
		require.ErrorIs(t, err, events.ErrBackup, what)
		requireEmpty(t, s, what)
	}
	_, err := restore(s, bytes.NewReader(file), events.Head{Position: 3, Hash: events.Sum{1}})
	require.ErrorIs(t, err, events.ErrBackup, "it is another chain than that of a known head")
	_, err = restore(s, bytes.NewReader(file), events.Head{Position: 1 << 40, Hash: events.Sum{1}})
	require.ErrorIs(t, err, events.ErrBackup, "a known head is behind its end")
	var export bytes.Buffer
	require.NoError(t, exported(s, &export))
	_, err = restore(s, &export)
	require.ErrorIs(t, err, events.ErrBackup)
	require.ErrorContains(t, err, "export for audits")
	requireEmpty(t, s, "an export")
	_, err = restore(s, bytes.NewReader(file))
	require.NoError(t, err)
	sameFile(t, file, backup(t, s), "restored in the end")
}

// brokenOff ends the filling of a store at a few places.
func brokenOff(t *testing.T, file []byte, s Movable) {
	links := verifyFile(t, file).Commits
	for _, after := range []int64{1, links / 2, links} {
		f, err := events.ReadBackup(bytes.NewReader(file))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		seen := int64(0)
		_, err = events.Restore(ctx, s, f, nil, func(events.Position) {
			if seen++; seen == after {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled, "after %d of %d links", after, links)
		requireEmpty(t, s, fmt.Sprintf("after %d of %d links", after, links))
	}
	_, err := restore(s, bytes.NewReader(file))
	require.NoError(t, err)
	sameFile(t, file, backup(t, s), "restored in the end")
}

// refuses wants a store to stay as it is that has only a little, and an empty one to be moved.
func refuses(t *testing.T, kinds Kinds, open func(*testing.T) Movable) {
	empty, full := backup(t, kinds["memory"](t)), kinds["memory"](t)
	history(t, full)
	s := open(t)
	restored, err := restore(s, bytes.NewReader(empty))
	require.NoError(t, err)
	require.Equal(t, events.Restored{}, restored)
	requireEmpty(t, s, "an empty store was moved")
	put(t, s, one(row(t, "node/x", 0, 1)))
	before := backup(t, s)
	for _, file := range [][]byte{empty, backup(t, full)} {
		_, err := restore(s, bytes.NewReader(file))
		require.ErrorIs(t, err, events.ErrNotEmpty)
		sameFile(t, before, backup(t, s), "it is as it was")
	}
}

func requireEmpty(t *testing.T, s Movable, what string) {
	t.Helper()
	b, err := s.Belongings(context.Background())
	require.NoError(t, err, what)
	require.Equal(t, &events.Belongings{}, b, what)
	require.Empty(t, chainOf(t, s, 0), what)
	require.Empty(t, all(t, s), what)
}

// sameFile compares backups, and shows the first line that differs.
func sameFile(t *testing.T, want, got []byte, what string) {
	t.Helper()
	for n := 1; !bytes.Equal(want, got); n++ {
		var w, g []byte
		w, want, _ = bytes.Cut(want, []byte("\n"))
		if g, got, _ = bytes.Cut(got, []byte("\n")); !bytes.Equal(w, g) {
			require.FailNow(t, "backups differ", "%s: line %d\nwant %.600s\n got %.600s", what, n, w, g)
		}
	}
}

var signing = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func backup(t testing.TB, s events.Movable) []byte {
	t.Helper()
	var file bytes.Buffer
	_, err := events.Backup(context.Background(), s, events.BackupOptions{By: "storetest", At: start, Sign: sign,
		InForce: func(context.Context, events.Position) (func(*events.Secret) bool, error) {
			return func(v *events.Secret) bool { return v.Version == 2 }, nil
		}}, &file)
	require.NoError(t, err)
	return file.Bytes()
}

func sign(h *events.Head) { h.Sign(signing, start) }

func exported(s events.Chain, w io.Writer) error {
	_, err := events.Export(context.Background(), s, 1, 1<<40, sign, w)
	return err
}

func restore(s Movable, file io.Reader, heads ...events.Head) (events.Restored, error) {
	f, err := events.ReadBackup(file)
	if err != nil {
		return events.Restored{}, err
	}
	return events.Restore(context.Background(), s, f, heads, nil)
}

func verifyFile(t testing.TB, file []byte) events.Report {
	t.Helper()
	f, err := events.ReadExport(bytes.NewReader(file))
	require.NoError(t, err)
	report, err := events.VerifyExport(context.Background(), f, nil)
	require.NoError(t, err)
	return report
}

func zipped(t testing.TB, file []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(file)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// grouped is a store with consumer groups of a feed.
type grouped struct{ Movable }

func (g grouped) Belongings(ctx context.Context) (*events.Belongings, error) {
	b, err := g.Movable.Belongings(ctx)
	if err == nil {
		b.Groups = []events.FeedCheckpoint{
			{Group: "webhook/w", Position: b.Head / 2, At: start},
			{Group: "\xff odd", Position: b.Head, At: start.Add(time.Microsecond)},
		}
	}
	return b, err
}
