package events_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/spool"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

var errDevice = errors.New("input/output error")

// disk is a real folder that a test can make fail, and cut off from the process as a crash would.
type disk struct {
	spool.Folder
	broken atomic.Bool
	dead   atomic.Bool
}

func newDisk(t *testing.T) *disk {
	return &disk{Folder: spool.Folder(filepath.Join(t.TempDir(), "spool"))}
}

func (d *disk) fault() error {
	if d.broken.Load() || d.dead.Load() {
		return errDevice
	}
	return nil
}

func (d *disk) Create(name string, room int64) (events.SpoolFile, error) {
	if err := d.fault(); err != nil {
		return nil, err
	}
	f, err := d.Folder.Create(name, room)
	return disked{f, d}, err
}

func (d *disk) Open(name string) (events.SpoolFile, error) {
	f, err := d.Folder.Open(name)
	return disked{f, d}, err
}

func (d *disk) Remove(name string) error {
	if d.dead.Load() {
		return errDevice
	}
	return d.Folder.Remove(name)
}

func (d *disk) files(t *testing.T) []string {
	t.Helper()
	names, err := d.Segments()
	require.NoError(t, err)
	return names
}

type disked struct {
	events.SpoolFile
	disk *disk
}

// WriteAt leaves half of it behind when it fails.
func (f disked) WriteAt(b []byte, at int64) (int, error) {
	if err := f.disk.fault(); err != nil {
		n, _ := f.SpoolFile.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.SpoolFile.WriteAt(b, at)
}

func (f disked) Truncate(size int64) error {
	if f.disk.dead.Load() {
		return errDevice
	}
	return f.SpoolFile.Truncate(size)
}

func openSpool(t *testing.T, d events.SpoolFolder, change func(*events.SpoolOptions)) *events.Spool {
	t.Helper()
	o := events.SpoolOptions{Folder: d}
	if change != nil {
		change(&o)
	}
	s, err := events.OpenSpool(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// abandoned leaves appends in a spool, as a process that ends during an outage does.
func abandoned(t *testing.T, d *disk, change func(*events.SpoolOptions), appends ...events.Append) {
	t.Helper()
	s := newScripted()
	s.breakDown(errDisk)
	sp := openSpool(t, d, change)
	j := events.NewJournal(events.JournalOptions{Store: s, Spool: sp, Node: "node-a"})
	for _, a := range appends {
		require.NoError(t, j.Commit(a, events.May))
	}
	require.NoError(t, j.Close(context.Background()))
	require.Equal(t, int64(len(appends)), sp.Len())
}

func fullRow() events.Append {
	a := one("request/full", 0, &request.Admitted{Ask: request.Ask{Key: "k", Model: "m\x00\xffé"}, InputEstimate: 7},
		&request.Dispatched{N: 1, Upstream: "u", Account: "a"})
	r := &a.Rows[0]
	r.Request, r.Key, r.Upstream = "full", "k", "u"
	return a
}

func TestWhatASpoolHoldsIsStoredAsIfItHadComeDirectly(t *testing.T) {
	list := func() []events.Append {
		many := one("request/a", 0, note(1))
		many.Rows = append(many.Rows, one("request/b", 0, note(2), note(3)).Rows...)
		return []events.Append{fullRow(), many, last("request/full", 2), one("upstream/u", events.AnyVersion, note(4)),
			one("request/big", 0, &request.Admitted{Ask: request.Ask{Model: strings.Repeat("m", 1<<20)}}), one("upstream/u", events.AnyVersion, note(5))}
	}
	direct, through := newScripted(), newScripted()
	j := journal(t, direct, nil)
	for _, a := range list() {
		require.NoError(t, j.Commit(a, events.May))
	}
	d := newDisk(t)
	abandoned(t, d, func(o *events.SpoolOptions) { o.SegmentMax = 600 }, list()...)
	require.Greater(t, len(d.files(t)), 1)
	sp := openSpool(t, d, nil)
	require.Equal(t, int64(6), sp.Len())
	n, err := sp.Drain(context.Background(), through)
	require.NoError(t, err)
	require.Equal(t, int64(6), n)
	require.Equal(t, plainRows(stored(t, direct)), plainRows(stored(t, through)))
	require.Empty(t, d.files(t), "the files are gone with the last append")
	n, err = sp.Drain(context.Background(), through)
	require.NoError(t, err)
	require.Zero(t, n)
}

// plainRows are rows without their hashes, which depend on how they were grouped.
func plainRows(rows []*events.Committed) (list []events.Committed) {
	for _, c := range rows {
		c.Hash = [32]byte{}
		list = append(list, *c)
	}
	return list
}

func TestATornLastFrameIsCutOffWhereverItIsTorn(t *testing.T) {
	d := newDisk(t)
	abandoned(t, d, nil, one("request/a", 0, note(1)), one("request/b", 0, note(2)), fullRow())
	path := filepath.Join(string(d.Folder), d.files(t)[0]+".spool")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	end := len(strings.TrimRight(string(whole), "\x00"))
	// The last body ends with the number of its secrets, 0.
	end++
	sp := openSpool(t, d, nil)
	require.Equal(t, int64(3), sp.Len())
	cut := 0
	for at := end - 1; at > 0; at-- {
		require.NoError(t, os.WriteFile(path, whole[:at], 0o600))
		torn, err := events.OpenSpool(events.SpoolOptions{Folder: d})
		require.NoError(t, err)
		require.Less(t, torn.Len(), int64(3), "cut at %d", at)
		require.NoError(t, torn.Close())
		cut++
		if torn.Len() == 0 {
			require.Empty(t, d.files(t), "nothing is left to keep")
		}
	}
	require.Greater(t, cut, 100)
	for _, at := range []int{end - 1, end - 40} { // the disk wrote a later page only
		bad := []byte(string(whole))
		bad[at] ^= 0x40
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		torn, err := events.OpenSpool(events.SpoolOptions{Folder: d})
		require.NoError(t, err)
		require.Equal(t, int64(2), torn.Len())
		s := newScripted()
		_, err = torn.Drain(context.Background(), s)
		require.NoError(t, err)
		require.Equal(t, []string{"request/a", "request/b"}, streams(stored(t, s)))
	}
}

func TestADamagedFileInTheMiddleOfASpoolIsRefusedAndKept(t *testing.T) {
	d := newDisk(t)
	abandoned(t, d, func(o *events.SpoolOptions) { o.SegmentMax = 1 }, one("request/a", 0, note(1)), one("request/b", 0, note(2)), one("request/c", 0, note(3)))
	files := d.files(t)
	require.Len(t, files, 3)
	path := filepath.Join(string(d.Folder), files[1]+".spool")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range whole {
		if at >= 16 && at < 48 {
			continue // the name of the store: another test
		}
		bad := []byte(string(whole))
		if bad[at] ^= 1; bad[at] == 0 {
			continue
		}
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, err := events.OpenSpool(events.SpoolOptions{Folder: d})
		require.ErrorIs(t, err, events.ErrSpoolCorrupt, "byte %d", at)
		require.ErrorContains(t, err, files[1])
	}
	require.Equal(t, files, d.files(t))
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.Equal(t, int64(3), openSpool(t, d, nil).Len())
}

// A crash in the middle of draining: whatever beginning of the spool is stored, the next start stores the rest.
func TestWhatWasDrainedBeforeACrashIsNotStoredTwice(t *testing.T) {
	list := func() (all []events.Append) {
		for i := range 12 {
			stream := fmt.Sprintf("request/%d", i%3)
			all = append(all, one(stream, int64(i/3*2), note(i), note(i)), one("upstream/u", events.AnyVersion, note(i/4)))
		}
		return append(all, last("request/0", 8))
	}
	for stored1 := range len(list()) + 1 {
		t.Run(fmt.Sprint(stored1), func(t *testing.T) {
			d, s := newDisk(t), newScripted()
			abandoned(t, d, nil, list()...)
			for _, a := range list()[:stored1] {
				require.NoError(t, events.Encode(&a.Rows[0]))
				_, err := s.Store.Append(context.Background(), []events.Append{a}, 1)
				require.NoError(t, err)
			}
			n, err := openSpool(t, d, nil).Drain(context.Background(), s)
			require.NoError(t, err)
			require.Equal(t, int64(len(list())), n)
			var want []string
			for _, a := range list() {
				want = append(want, a.Rows[0].Stream)
			}
			require.Equal(t, want, streams(stored(t, s)))
		})
	}
}

func TestADrainThatTheStoreFailsGoesOnWhereItWasWithTheNextTry(t *testing.T) {
	d, s := newDisk(t), newScripted()
	var list []events.Append
	for i := range 2000 {
		list = append(list, one(fmt.Sprintf("request/%d", i), 0, note(i)))
	}
	abandoned(t, d, func(o *events.SpoolOptions) { o.SegmentMax = 20 << 10 }, list...)
	tries := 0
	s.fail = func(n int) (before, after bool) { return n%3 == 0, n%3 == 1 }
	for {
		sp, err := events.OpenSpool(events.SpoolOptions{Folder: d})
		require.NoError(t, err)
		_, err = sp.Drain(context.Background(), s)
		require.NoError(t, sp.Close())
		if err == nil {
			break
		}
		require.ErrorIs(t, err, events.ErrUnavailable)
		tries++
	}
	require.Positive(t, tries)
	require.Len(t, stored(t, s), 2000)
}

// Only the last write may be torn: what is behind a place that cannot be read was written when that place was on disk.
func TestDamageInFrontOfALaterWriteOfTheLastFileIsRefusedAndKept(t *testing.T) {
	d := newDisk(t)
	abandoned(t, d, small, one("request/a", 0, note(1)), one("request/b", 0, note(2)), one("request/c", 0, note(3)))
	require.Len(t, d.files(t), 1)
	path := filepath.Join(string(d.Folder), d.files(t)[0]+".spool")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	third := strings.LastIndex(string(whole), "request/c")
	require.Positive(t, third)
	for at := 48; at < third-14; at++ { // its head and the beginning of its body are in front of its stream
		bad := []byte(string(whole))
		bad[at] ^= 0x40
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, err := events.OpenSpool(events.SpoolOptions{Folder: d})
		require.ErrorIs(t, err, events.ErrSpoolCorrupt, "byte %d", at)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, bad, kept)
	}
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.Equal(t, int64(3), openSpool(t, d, nil).Len())
}

// Of a write that was under way a later page may be on disk and an earlier one not: nobody has waited for any of it.
func TestAWriteOfWhichOnlyTheEndIsOnDiskIsCutOff(t *testing.T) {
	d := newDisk(t)
	abandoned(t, d, small, one("request/a", 0, note(1)), one("request/b", 0, note(2)), one("request/c", 0, note(3)))
	path := filepath.Join(string(d.Folder), d.files(t)[0]+".spool")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	frame := func(at int) (end int) { return at + 8 + int(binary.LittleEndian.Uint32(file[at:])&^(1<<31)) }
	second := frame(48)
	third := frame(second)
	head := file[third : third+8] // the third frame becomes one of the second's write
	binary.LittleEndian.PutUint32(head, binary.LittleEndian.Uint32(head)&^(1<<31))
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(head[4:], crc32.Update(crc32.Checksum(head[:4], table), table, file[third+8:frame(third)]))
	require.NoError(t, os.WriteFile(path, file, 0o600))
	require.Equal(t, int64(3), openSpool(t, d, nil).Len())
	clear(file[second : second+20])
	require.NoError(t, os.WriteFile(path, file, 0o600))
	require.Equal(t, int64(1), openSpool(t, d, nil).Len())
}

// small makes a spool whose files are quickly read.
func small(o *events.SpoolOptions) { o.SegmentMax = 4 << 10 }

// The address of another store may be set in the middle of an outage. What is in the spool is not for that one, also in the first
// life of the process, which has begun with an empty store.
func TestASpoolIsForTheStoreOfItsOutageAlone(t *testing.T) {
	ctx := context.Background()
	d := newDisk(t)
	s := newScripted()
	open := func() *events.Spool {
		sp, err := events.OpenSpool(events.SpoolOptions{Folder: d})
		require.NoError(t, err)
		return sp
	}
	first := open()
	_, err := first.Drain(ctx, s)
	require.NoError(t, err)
	j := journal(t, s, func(o *events.JournalOptions) { o.Spool = first })
	require.NoError(t, j.Commit(one("request/a", 0, note(1)), events.May))
	s.breakDown(errDisk)
	require.NoError(t, j.Commit(one("request/a", 1, note(2)), events.Must))
	require.NoError(t, j.Close(ctx))
	require.NoError(t, first.Close())

	other := newScripted()
	elsewhere := journal(t, other, nil)
	require.NoError(t, elsewhere.Commit(one("request/b", 0, note(1)), events.May))
	for _, store := range []*scripted{newScripted(), other} {
		again := open()
		_, err = again.Drain(ctx, store)
		require.ErrorIs(t, err, events.ErrSpoolForeign)
		require.NoError(t, again.Close())
	}
	s.repair()
	again := open()
	n, err := again.Drain(ctx, s)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	require.NoError(t, again.Close())
}
