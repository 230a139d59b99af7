package sqlite

import (
	"bytes"
	"context"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// searchMax bounds what a page of a search looks at in one snapshot: rows, and searchedBlock for each block.
var searchMax = 8192

const searchedBlock = 8

// search is a reading of the rows that match: of a stream or a request by their places, with terms through the index, block by
// block, and of each the rows that have all terms, else of all rows in the range.
type search struct {
	query     events.Query
	from      int64 // version
	terms     []events.Term
	name      string            // of the stream or the request's; "" for none
	listed    bool              // all that has the name is listed: places are some of it
	places    []events.Position // where to look for a name, what is left of it in the order of reading
	low, high events.Position   // what is left
	full      int64             // blocks before it are in the index
	offsets   events.Offsets
	found     []events.Position
	texts     interned
	page      []events.Stored // what was found in this snapshot
	most      int             // rows of it
	looked    int             // at rows, in this snapshot
}

// search reads rows that match a filter, as Find does, of version ≥ from.
func (s *Store) search(ctx context.Context, f events.Query, from int64, yield func(*events.Committed) bool) error {
	var q *search
	given := 0
	for q == nil || q.low <= q.high {
		err := s.read(ctx, func(c *conn) (err error) {
			if q == nil {
				if q, err = newSearch(c, f, from); err != nil {
					return err
				}
			}
			q.most = pageRows
			if f.Limit > 0 {
				q.most = min(q.most, f.Limit-given)
			}
			return q.read(c)
		})
		if err != nil {
			return err
		}
		if more, err := events.HandOn(q.page, yield); !more || err != nil {
			return err
		}
		if given += len(q.page); f.Limit > 0 && given == f.Limit {
			return nil
		}
	}
	return nil
}

func newSearch(c *conn, f events.Query, from int64) (*search, error) {
	end, err := readChain(c)
	if err != nil {
		return nil, err
	}
	q := &search{query: f, from: from, terms: f.Terms(), full: events.BlockOf(end.head + 1)}
	if q.low, q.high, err = span(c, &q.query, end.head); err != nil {
		return nil, err
	}
	if q.name = f.Stream; q.name == "" && f.Request != "" {
		q.name = events.RequestStreams + f.Request
	}
	if _, regular := idOf(q.name); !regular {
		q.listed = q.name != ""
		return q, nil
	}
	t := trace{cursor: cursor{c: c}, end: end}
	places, err := t.of(q.name)
	q.places = slices.DeleteFunc(places, func(at events.Position) bool { return at < q.low || at > q.high })
	if f.Newest {
		slices.Reverse(q.places)
	}
	return q, err
}

// read reads at most so many rows. It may find none though more are left.
func (q *search) read(c *conn) error {
	q.page, q.looked, q.texts = make([]events.Stored, 0, min(q.most, 16)), 0, interned{}
	k := cursor{c: c}
	if q.name != "" {
		return q.among(&k)
	}
	for q.low <= q.high && len(q.page) < q.most && q.looked < searchMax {
		number, first, last := events.BlockSpan(q.low, q.high, q.query.Newest)
		if q.terms == nil || number >= q.full {
			if first = q.low; q.terms != nil {
				first = max(q.low, events.BlockStart(q.full)) // whatever is under way
			}
			if err := q.all(c, first, q.high); err != nil {
				return err
			}
			continue
		}
		if err := q.block(&k, number, first, last); err != nil {
			return err
		}
	}
	return nil
}

// passed says that a range was looked at, which is at the end of what is left, in the order of reading.
func (q *search) passed(first, last events.Position) {
	if q.query.Newest {
		q.high = first - 1
	} else {
		q.low = last + 1
	}
}

// take adds a row when it matches.
func (q *search) take(r *row) {
	q.looked++
	if q.match(r) {
		q.page = append(q.page, r.whole(q.texts))
	}
}

// among looks at the rows at the places.
func (q *search) among(k *cursor) (err error) {
	for len(q.page) < q.most && q.looked < searchMax {
		if q.listed && len(q.places) == 0 && q.low <= q.high {
			q.places, err = some(k.c, q.places[:0], q.name, q.low, q.high, q.query.Newest, pageRows)
		}
		if err != nil || len(q.places) == 0 {
			q.high = q.low - 1
			return err
		}
		at := q.places[0]
		r, err := k.row(at)
		if err != nil {
			return err
		}
		q.passed(at, at)
		if q.places = q.places[1:]; r != nil {
			q.take(r)
		}
	}
	return nil
}

// all looks at all rows of a range that is at the end of what is left, or is all that is.
func (q *search) all(c *conn, first, last events.Position) error {
	var rows []row
	full := func() bool { return len(q.page) >= q.most || q.looked >= searchMax }
	err := eachPage(c, first, last, q.query.Newest, func(p page) bool {
		rows = rows[:0]
		reading, r := p.rows(), row{}
		for reading.row(&r) {
			if at := events.Position(r.position); at >= first && at <= last {
				rows = append(rows, r)
			}
		}
		if q.query.Newest {
			slices.Reverse(rows)
		}
		for i := range rows {
			at := events.Position(rows[i].position)
			q.take(&rows[i])
			if q.passed(at, at); full() {
				return false
			}
		}
		return true
	})
	if !full() { // that was all
		q.passed(first, last)
	}
	return err
}

// block looks at the rows of a full block that have all terms.
func (q *search) block(k *cursor, number int64, first, last events.Position) error {
	q.looked += searchedBlock
	if err := q.narrow(k.c, number); err != nil {
		return err
	}
	q.found = q.offsets.Positions(q.found[:0], number, first, last, q.query.Newest)
	for _, at := range q.found {
		r, err := k.row(at)
		if err != nil {
			return err
		}
		if r != nil {
			q.take(r)
		}
		if len(q.page) == q.most { // there may be more behind it
			q.passed(at, at)
			return nil
		}
	}
	q.passed(first, last)
	return nil
}

// narrow finds the rows of a full block that have all terms.
func (q *search) narrow(c *conn, number int64) error {
	q.offsets.Reset()
	for _, t := range q.terms {
		text := ""
		if err := c.each(selectBlock, blockRow(number, t), func(row *sqlite3.Stmt) bool {
			text = row.ColumnText(0)
			return false
		}); err != nil {
			return err
		}
		if err := q.offsets.Narrow(text); err != nil {
			return errors.Wrapf(err, "block %d", number)
		}
		if q.offsets.Len() == 0 {
			return nil
		}
	}
	return nil
}

// match says that a row in the range is one that the filter wants.
func (q *search) match(r *row) bool {
	f := &q.query
	equal := func(want string, is []byte) bool { return want == "" || want == string(is) }
	switch {
	case r.version < q.from,
		!equal(f.Stream, r.stream), !equal(f.Request, r.request()), !equal(f.Key, r.key), !equal(f.Upstream, r.upstream):
		return false
	case f.StreamPrefix != "" && !bytes.HasPrefix(r.stream, []byte(f.StreamPrefix)):
		return false
	case f.Type != "" && !events.HasType(q.texts.of(r.types), f.Type):
		return false
	case !f.Since.IsZero() && r.at < micros(f.Since), !f.Until.IsZero() && r.at >= micros(f.Until):
		return false
	}
	return f.Text == "" || bytes.Contains(r.payload, []byte(f.Text))
}
