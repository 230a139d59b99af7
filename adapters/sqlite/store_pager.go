package sqlite

import "github.com/penstock/penstock/events"

// pager writes rows that were committed before, in order, to pages, one page of them at a time. A page has rows of one commit: whoever
// goes on to the next one flushes.
type pager struct {
	c      *conn
	open   openStreams
	block  block // under way, as far as its rows were added
	page   page  // under way; its body lacks the end
	size   int   // of what was added, in bytes
	before int64 // the time that was reached before the commit of the row at hand
}

// add puts a row of n facts behind the others, lists it, where need be, and notes its request for the block.
func (m *pager) add(at events.Position, n int64, r *events.Row, sum [hashSize]byte) error {
	if len(m.page.body) >= pageMax {
		if err := m.flush(); err != nil {
			return err
		}
	}
	if len(m.page.body) == 0 {
		m.page.first, m.page.body = int64(at), append(m.page.body, '[')
	} else {
		m.page.body = append(m.page.body, ",\n"...)
	}
	begin := len(m.page.body)
	m.page.body = appendRow(m.page.body, at, n, r.Version, r)
	m.size += len(m.page.body) - begin
	m.page.hashes = append(m.page.hashes, sum[:]...)
	return m.list(at, r)
}

// list lists a row that was added, where need be, and notes it for the block.
func (m *pager) list(at events.Position, r *events.Row) error {
	id, regular := idOf(r.Stream)
	late := false
	if regular {
		m.block.note(at, id)
		late = m.open.follow(r)
	}
	for _, name := range id.names(regular, late, r.Stream, r.Request, r.At.UnixMicro(), m.before) {
		if name == "" {
			continue
		}
		if err := m.c.list(name, at); err != nil {
			return err
		}
	}
	return nil
}

// flush stores the page under way.
func (m *pager) flush() error {
	if len(m.page.body) == 0 {
		return nil
	}
	m.page.body = append(m.page.body, ']')
	err := m.c.writePage(m.page)
	m.page.body, m.page.hashes = m.page.body[:0], m.page.hashes[:0]
	return err
}

// openStreams are request streams that have begun, and not ended. The zero value is ready.
type openStreams map[string]bool

// openMax bounds the streams that are known to be open; when they are more, all are forgotten.
var openMax = 1 << 17

// follow notes what a row does to its stream, and says whether it may stand behind the end.
func (o *openStreams) follow(r *events.Row) (late bool) {
	switch {
	case r.Terminal:
		delete(*o, r.Stream)
	case r.Version == 0:
		if *o == nil || len(*o) >= openMax {
			*o = openStreams{}
		}
		(*o)[r.Stream] = true
	default:
		return !(*o)[r.Stream]
	}
	return false
}
