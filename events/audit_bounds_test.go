package events

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// former is a chain as it was made before bounds were hashed: links of one row, a second apart.
type former struct {
	links []Commit
	rows  []RawRow
}

func (f *former) Chain(_ context.Context, after Position, yield func(*Commit, []RawRow) bool) error {
	for i := range f.links {
		if f.links[i].First > after && !yield(&f.links[i], f.rows[i:i+1]) {
			return nil
		}
	}
	return nil
}

func newFormer() *former {
	var h Hasher
	f, before := &former{}, [32]byte{}
	for i := range int64(4) {
		at := Position(i + 1)
		r := RawRow{Position: at, N: 1, Row: Row{
			Stream: "node/a", Version: i, At: time.UnixMicro(1_000_000 * (10 + i%3)), Types: "node.started", Payload: []byte(`[{}]`),
		}}
		r.Hash = h.Row(at, &r.Row)
		c := Commit{First: at, N: 1, Previous: before, Hash: h.commit1(before, at, 1, [][32]byte{r.Hash})}
		c.Bounds = Bounds{LowWater: 1, Earliest: r.At.UnixMicro(), Latest: r.At.UnixMicro()}
		if i == 3 { // a clock that was set back
			c.Latest = 12_000_000
		}
		before = c.Hash
		f.links, f.rows = append(f.links, c), append(f.rows, r)
	}
	return f
}

func TestLinksFromBeforeBoundsWereHashedHoldAndTheirTimesAreHeldAgainstTheRows(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*former)
		broken Position // 0: none
		after  Position
	}{
		{"as they are", func(*former) {}, 0, 0},
		{"from the middle on", func(*former) {}, 0, 2},
		{"an export without bounds", func(f *former) {
			for i := range f.links {
				f.links[i].Bounds = Bounds{}
			}
		}, 0, 0},
		{"a row that retention has removed", func(f *former) { f.rows[1] = RawRow{Position: 2, N: 1, Archived: true, Hash: f.rows[1].Hash} }, 0, 0},
		{"earliest moved", func(f *former) { f.links[1].Earliest-- }, 2, 0},
		{"latest moved up", func(f *former) { f.links[2].Latest++ }, 3, 0},
		{"latest moved down", func(f *former) { f.links[3].Latest-- }, 4, 0},
		{"low water above its own link", func(f *former) { f.links[2].LowWater = 4 }, 3, 0},
		{"bounds taken away", func(f *former) { f.links[2].Earliest, f.links[2].Latest = 0, 0 }, 3, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := newFormer()
			c.change(f)
			report, err := Audit{After: c.after}.Verify(context.Background(), f)
			require.NoError(t, err)
			if c.broken == 0 {
				require.True(t, report.Equal, "%+v", report)
				return
			}
			require.Equal(t, Tampered, report.Fault)
			require.Equal(t, c.broken, *report.FirstBroken, report.Detail)
		})
	}
}
