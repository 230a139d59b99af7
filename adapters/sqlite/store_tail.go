package sqlite

import (
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// tailsMax bounds the streams whose versions are kept in memory; when they are more, all are forgotten.
var tailsMax = 1 << 15

// tail is what is known of a stream. The zero value is that of one that has no rows, but for the end.
type tail struct {
	version int64
	end     end
}

// end says whether a row has ended a stream.
type end int8

const (
	endUnknown end = iota
	isOpen
	hasEnded
)

// begunMax bounds the requests of which it is remembered that they began, in each of two halves.
var begunMax = 1 << 16

// begun tells requests that are new from those that may have begun, without a look at the file: every request that has a row
// began in this store and is remembered, or its id is not younger than since. Where a commit has failed, what it would have
// begun is remembered, too: it may be there after all.
type begun struct {
	since    int64 // microseconds, of ids
	now, old map[uint64]bool
	youngest [2]int64 // of the ids in now and in old
}

func (b *begun) fresh(id requestID) bool {
	return id.at > b.since && !b.now[id.chance] && !b.old[id.chance]
}

func (b *begun) note(id requestID) {
	b.now[id.chance] = true
	b.youngest[0] = max(b.youngest[0], id.at)
}

// shrink forgets the older half when there are many.
func (b *begun) shrink() {
	if len(b.now) < begunMax {
		return
	}
	b.since = max(b.since, b.youngest[1])
	b.youngest = [2]int64{0, b.youngest[0]}
	b.now, b.old = b.old, b.now
	clear(b.now)
}

// forget is for a file that others have written to, up to the end of the chain.
func (s *Store) forget(c *conn, end chain) error {
	clear(s.tails)
	youngest, err := youngestListed(c)
	if err != nil {
		return err
	}
	s.begun = begun{since: max(end.latest+slack, youngest), now: map[uint64]bool{}, old: map[uint64]bool{}}
	return nil
}

// youngestListed is the time in the youngest id that is listed: its rows may be older than it by more than the others'.
func youngestListed(c *conn) (int64, error) {
	var id requestID
	err := c.each(`SELECT name FROM listed WHERE name >= 'request/' AND name < 'request/g'
		AND name GLOB 'request/' || replace('xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx', 'x', '[0-9a-f]') ORDER BY name DESC`, nil, func(q *sqlite3.Stmt) bool {
		var ok bool // GLOB ends at a zero byte: what stands behind it is no id
		id, ok = idOf(q.ColumnRawText(0))
		return !ok
	})
	return id.at, err
}

// catchUp reads the end of the chain again when another process has written to the file.
func (s *Store) catchUp(c *conn) error {
	last, err := c.integer(`SELECT first FROM commits ORDER BY first DESC LIMIT 1`)
	if err != nil || last == s.chain.first {
		return err
	}
	if s.chain, err = readChain(c); err != nil {
		return err
	}
	return s.forget(c, s.chain)
}

// tail is what is known of a row's stream: from memory, else from the file.
func (g *group) tail(p *placed) (tail, error) {
	t, known := g.s.tails[p.row.Stream]
	switch {
	case known && (t.end != endUnknown || !p.row.Terminal):
		return t, nil
	case !known && p.regular && g.s.begun.fresh(p.id):
		return tail{end: isOpen}, nil
	}
	looked, err := g.lookUp(p.row.Stream, p.row.Terminal || strings.HasPrefix(p.row.Stream, events.RequestStreams))
	looked.version = max(looked.version, t.version) // rows of the group are not in the file
	return looked, err
}

// lookUp reads what a stream has come to, as far as it is in the file. whole: also whether it has ended. Otherwise the last row
// tells, which must be listed.
func (g *group) lookUp(stream string, whole bool) (t tail, err error) {
	tr := &g.trace
	var places []events.Position
	if whole {
		t.end = isOpen
		places, err = tr.of(stream)
	} else {
		places, err = some(g.c, nil, stream, 0, g.s.chain.head, true, 1)
	}
	if err != nil {
		return t, err
	}
	for _, at := range places {
		r, err := tr.row(at)
		if err != nil {
			return t, err
		}
		if r == nil || string(r.stream) != stream {
			continue
		}
		t.version = max(t.version, r.version+r.n)
		if r.terminal {
			t.end = hasEnded
		}
	}
	return t, nil
}

// follow notes what is known of a row's stream behind the row.
func (g *group) follow(p *placed, t tail) {
	s, stream := g.s, p.row.Stream
	was, known := s.tails[stream]
	g.touched = append(g.touched, touched{stream, was, known})
	if p.regular && p.version == 0 {
		s.begun.note(p.id)
	}
	t.version = p.version + int64(len(p.row.Facts))
	if p.row.Terminal {
		t.end = hasEnded
	}
	if t.end == hasEnded && strings.HasPrefix(stream, events.RequestStreams) {
		g.ended = append(g.ended, stream)
	}
	s.tails[stream] = t
}

// settle forgets streams that have ended, and others when there are many.
func (s *Store) settle(ended []string) {
	for _, stream := range ended {
		delete(s.tails, stream)
	}
	if len(s.tails) > tailsMax {
		clear(s.tails)
	}
}
