package spool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/spool"
)

func TestAFolderKeepsSegmentsInOrderForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "spool")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
	f := spool.Folder(path)
	names, err := f.Segments()
	require.NoError(t, err, "a folder that is not there has none")
	require.Empty(t, names)
	for _, name := range []string{"00000002", "00000010", "00000001"} {
		s, err := f.Create(name, 1<<20)
		require.NoError(t, err)
		_, err = s.WriteAt([]byte(name), 0)
		require.NoError(t, err)
		require.NoError(t, s.Sync())
		require.NoError(t, s.Close())
	}
	require.NoError(t, os.WriteFile(filepath.Join(path, "note.txt"), nil, 0o600))
	names, err = f.Segments()
	require.NoError(t, err)
	require.Equal(t, []string{"00000001", "00000002", "00000010"}, names)
	_, err = f.Create("00000001", 0)
	require.ErrorIs(t, err, os.ErrExist, "nothing is written over")

	s, err := f.Open("00000010")
	require.NoError(t, err)
	b := make([]byte, 8)
	_, err = s.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "00000010", string(b))
	require.NoError(t, s.Truncate(8))
	size, err := s.Size()
	require.NoError(t, err)
	require.Equal(t, int64(8), size)
	require.NoError(t, s.Close())

	for p, mode := range map[string]os.FileMode{path: 0o700, filepath.Join(path, "00000010.spool"): 0o600} {
		i, err := os.Stat(p)
		require.NoError(t, err)
		require.Equal(t, mode, i.Mode().Perm(), p)
	}
	for _, name := range names {
		require.NoError(t, f.Remove(name))
	}
	names, err = f.Segments()
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestASegmentThatCannotBeMadeLeavesNothingBehind(t *testing.T) {
	f := spool.Folder(filepath.Join(t.TempDir(), "spool"))
	_, err := f.Create("00000001", 1<<60) // more than any disk has
	require.Error(t, err)
	names, err := f.Segments()
	require.NoError(t, err)
	require.Empty(t, names)
}
