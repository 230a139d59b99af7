package sqlite

import (
	"unsafe"

	"github.com/penstock/penstock/events"
)

const (
	insertPage   = `INSERT INTO pages (first, hashes, body) VALUES (?, ?, ?)`
	insertCommit = `INSERT INTO commits (first, n, low_water, earliest, latest, previous, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
	insertSecret = `INSERT INTO secrets (id, version, sealed, digest) VALUES (?, ?, ?, ?)`
	insertListed = `INSERT OR IGNORE INTO listed (name, position) VALUES (?, ?)`
)

// seal writes the group: its page with what belongs to it, and the link that it adds to the chain. A commit that stores nothing has
// none.
func (g *group) seal(lowWater events.Position) (chain, error) {
	was := g.s.chain
	if len(g.rows) == 0 {
		return was, nil
	}
	first := was.head + 1
	n := int64(g.next - first)
	end := chain{first: int64(first), head: g.next - 1, latest: g.latest}
	bounds := events.Bounds{LowWater: lowWater, Earliest: g.earliest, Latest: g.latest}
	end.hash = g.s.hasher.Commit(was.hash, first, n, bounds, g.hashes)
	if err := g.writePages(); err != nil {
		return chain{}, err
	}
	if err := g.c.writeCommit(&events.Commit{First: first, N: n, Previous: was.hash, Hash: end.hash, Bounds: bounds}); err != nil {
		return chain{}, err
	}
	for _, l := range g.listed {
		if err := g.c.list(l.name, l.at); err != nil {
			return chain{}, err
		}
	}
	for _, v := range g.secrets {
		if err := g.c.writeSecret(v); err != nil {
			return chain{}, err
		}
	}
	return end, g.index(end)
}

// writePages cuts the body into pages, where it is a long one.
func (g *group) writePages() error {
	g.body = append(g.body, ']')
	begin, from := 0, 0 // of the page, in the body, and its first row
	for i := range g.rows {
		end := g.rows[i].end
		if end-begin < pageMax && i < len(g.rows)-1 {
			continue
		}
		g.body[begin], g.body[end] = '[', ']' // instead of what stands between two rows
		p := page{int64(g.rows[from].at), g.body[begin : end+1], bytesOf(g.hashes[from : i+1])}
		if err := g.c.writePage(p); err != nil {
			return err
		}
		begin, from = end+1, i+1
	}
	return nil
}

func (c *conn) writeCommit(l *events.Commit) error {
	return c.exec(insertCommit, func(b *binder) {
		b.integer(int64(l.First))
		b.integer(l.N)
		b.integer(int64(l.LowWater))
		b.integer(l.Earliest)
		b.integer(l.Latest)
		b.blob(l.Previous[:])
		b.blob(l.Hash[:])
	})
}

func (c *conn) writeSecret(v *events.Secret) error {
	return c.exec(insertSecret, func(b *binder) {
		b.text(v.ID)
		b.integer(v.Version)
		b.blob(v.Sealed)
		b.blob(v.Digest)
	})
}

func (c *conn) writePage(p page) error {
	return c.exec(insertPage, func(b *binder) {
		b.integer(p.first)
		b.blob(p.hashes)
		b.rawText(p.body)
	})
}

func (c *conn) list(name string, at events.Position) error {
	return c.exec(insertListed, func(b *binder) {
		b.text(name)
		b.integer(int64(at))
	})
}

// bytesOf are the hashes one behind the other: arrays of bytes lie like that in a slice.
func bytesOf(hashes [][hashSize]byte) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(hashes))), hashSize*len(hashes))
}
