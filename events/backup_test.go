package events

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func (f *former) Belongings(context.Context) (*Belongings, error) {
	return &Belongings{Head: Position(len(f.links))}, nil
}

func (f *former) Fill(ctx context.Context, _ *Belongings, chain Chain) error {
	return chain.Chain(ctx, 0, func(c *Commit, rows []RawRow) bool {
		f.links, f.rows = append(f.links, *c), append(f.rows, rows...)
		return true
	})
}

// What a link from before bounds were hashed says is not in any hash, and readers find their way by it.
func TestLinksFromBeforeBoundsWereHashedAreMovedWithTheirBounds(t *testing.T) {
	move := func(from *former) (*former, error) {
		var file bytes.Buffer
		_, err := Backup(context.Background(), from, BackupOptions{}, &file)
		require.NoError(t, err)
		f, err := ReadBackup(&file)
		require.NoError(t, err)
		into := &former{}
		_, err = Restore(context.Background(), into, f, nil, nil)
		return into, err
	}
	from := newFormer()
	from.rows[1] = RawRow{Position: 2, N: 1, Archived: true, Hash: from.rows[1].Hash}
	into, err := move(from)
	require.NoError(t, err)
	require.Equal(t, from.links, into.links)
	for i := range from.links {
		from.links[i].Bounds = Bounds{} // as in an old export
	}
	_, err = move(from)
	require.ErrorIs(t, err, ErrBackup)
}

func TestAChainThatDoesNotHoldIsNotBackedUp(t *testing.T) {
	for name, change := range map[string]func(*former){
		"a changed row": func(f *former) { f.rows[2].Types = "node.stopped" },
		"a link is gone": func(f *former) {
			f.links = append(f.links[:1], f.links[2:]...)
			f.rows = append(f.rows[:1], f.rows[2:]...)
		},
		"the end is gone": func(f *former) { f.links[3].N = 2 },
	} {
		f := newFormer()
		change(f)
		_, err := Backup(context.Background(), f, BackupOptions{}, &bytes.Buffer{})
		require.ErrorIs(t, err, ErrNotIntact, name)
	}
	hidden := newFormer()
	hidden.rows[1].Lost = "it is not listed"
	var file bytes.Buffer
	_, err := Backup(context.Background(), hidden, BackupOptions{}, &file)
	require.NoError(t, err, "a row that only its store does not find any more is found again where it goes")
}

func TestABackupOfANewerProgramIsCalledThat(t *testing.T) {
	_, err := ReadBackup(bytes.NewReader([]byte(`{"backup":{"format":2,"position":3}}` + "\n")))
	require.ErrorIs(t, err, ErrBackup)
	require.ErrorContains(t, err, "a newer one has written it")
}
