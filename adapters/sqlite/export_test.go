package sqlite

import "github.com/ncruces/go-sqlite3"

// SetMovePart sets what a transaction moves to pages at most, in bytes, and returns what it was.
func SetMovePart(bytes int) (was int) {
	was, movePart = movePart, bytes
	return was
}

// Runs is how often the store's readers have run a statement.
func (s *Store) Runs(sql string) (n int) {
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	for _, c := range s.readers.idle {
		if q := c.stmts[sql]; q != nil {
			n += q.Status(sqlite3.STMTSTATUS_RUN, false)
		}
	}
	return n
}

// SelectBlock is the statement that looks for one kind of rows in a block.
const SelectBlock = selectBlock
