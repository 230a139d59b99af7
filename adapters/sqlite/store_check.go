package sqlite

import (
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

const selectBlockRows = `SELECT kind, value, offsets FROM blocks WHERE block = ?`

// check sees to it that readings find the rows that are there: neither the search index nor the list of streams is hashed, and who
// takes a row out of them hides it. What they say too much hides nothing. Rows come in order. The zero value is ready; full must
// be set.
type check struct {
	full     int64 // blocks before it are in the index
	number   int64 // of the block that is loaded
	loaded   bool
	streams  []byte // of the block
	found    []int64
	terms    map[events.Term]*offsetSet
	searches map[[3]string][]*offsetSet // what finds a row with such a key, upstream and types in the block
	open     openStreams
}

// offsetSet is a set of offsets in a block.
type offsetSet [events.BlockSize / 64]uint64

func (s *offsetSet) has(offset int64) bool { return s != nil && s[offset/64]>>(offset%64)&1 == 1 }

// lost says how a row cannot be found, "" when it can. before is the time that had been reached before its commit.
func (k *check) lost(c *conn, r *events.RawRow, before int64, end chain) (string, error) {
	at, offset := r.Position, int64(r.Position%events.BlockSize)
	if at < 1 {
		return "", nil // its hash says enough
	}
	number := events.BlockOf(at)
	indexed := number < k.full
	if indexed && (!k.loaded || k.number != number) {
		if err := k.load(c, number); err != nil {
			return "", err
		}
	}
	if indexed {
		for _, set := range k.finding(r) {
			if !set.has(offset) {
				return "the search index does not name it", nil
			}
		}
	}
	id, regular := idOf(r.Stream)
	late := regular && k.open.follow(&r.Row)
	for _, name := range id.names(regular, false, r.Stream, r.Request, r.At.UnixMicro(), before) {
		if name == "" {
			continue
		}
		if is, err := isListed(c, name, at); !is {
			return "it is not listed under " + name, err
		}
	}
	if !regular || !id.found(r.At.UnixMicro(), before) {
		return "", nil
	}
	if indexed {
		var err error
		if k.found, err = findMarks(k.streams, id.mark(), k.found[:0]); err != nil || !slices.Contains(k.found, offset) {
			return "the search index does not name its request", nil
		}
	}
	if late {
		return k.behind(c, r, end)
	}
	return "", nil
}

// behind is lost for a row that may stand behind the end of its stream: it is listed then.
func (k *check) behind(c *conn, r *events.RawRow, end chain) (string, error) {
	if is, err := isListed(c, r.Stream, r.Position); is || err != nil {
		return "", err
	}
	t := trace{cursor: cursor{c: c}, end: end}
	places, err := t.of(r.Stream)
	if err != nil || slices.Contains(places, r.Position) {
		return "", err
	}
	return "it stands behind the end of its stream and is not listed", nil
}

func isListed(c *conn, name string, at events.Position) (bool, error) {
	places, err := some(c, nil, name, at, at, false, 1)
	return len(places) > 0, err
}

// load reads what the index says of a full block.
func (k *check) load(c *conn, number int64) error {
	k.number, k.loaded, k.streams = number, true, k.streams[:0]
	k.terms, k.searches = map[events.Term]*offsetSet{}, map[[3]string][]*offsetSet{}
	return c.each(selectBlockRows, func(b *binder) { b.integer(number) }, func(q *sqlite3.Stmt) bool {
		kind := q.ColumnText(0)
		if kind == streamKind {
			k.streams = append(k.streams, q.ColumnRawText(2)...)
			return true
		}
		var offsets events.Offsets
		if offsets.Narrow(q.ColumnText(2)) != nil {
			return true // as if there were none
		}
		set := &offsetSet{}
		start := events.BlockStart(number)
		for _, at := range offsets.Positions(nil, number, start, start+events.BlockSize-1, false) {
			offset := at - start
			set[offset/64] |= 1 << (offset % 64)
		}
		k.terms[events.Term{Kind: kind, Value: q.ColumnText(1)}] = set
		return true
	})
}

// finding are the sets in which a search for any of a row's terms looks for it; nil where there is none.
func (k *check) finding(r *events.RawRow) []*offsetSet {
	key := [3]string{r.Key, r.Upstream, r.Types}
	sets, known := k.searches[key]
	if known {
		return sets
	}
	terms := (&events.Query{Key: r.Key, Upstream: r.Upstream}).Terms()
	for name := range events.EachType(r.Types) {
		terms = append(terms, (&events.Query{Type: name}).Terms()...)
	}
	for _, t := range terms {
		sets = append(sets, k.terms[t])
	}
	k.searches[key] = sets
	return sets
}
