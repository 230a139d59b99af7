package sqlite

import (
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/penstock/penstock/events"
)

// SetMovePart sets what a transaction moves to pages at most, in bytes, and returns what it was.
func SetMovePart(bytes int) (was int) {
	was, movePart = movePart, bytes
	return was
}

// Small makes small what the store keeps in memory, in a page and in a snapshot, so that tests reach what lies behind the bounds;
// restore ends it.
func Small() (restore func()) {
	page, rows, scanned, searched, swept, links := pageMax, pageRows, scanPage, searchMax, sweepPages, chainFacts
	tails, begun, open := tailsMax, begunMax, openMax
	pageMax, pageRows, scanPage, searchMax, sweepPages, chainFacts = 2000, 7, 9, 30, 3, 50
	tailsMax, begunMax, openMax = 20, 10, 10
	return func() {
		pageMax, pageRows, scanPage, searchMax, sweepPages, chainFacts = page, rows, scanned, searched, swept, links
		tailsMax, begunMax, openMax = tails, begun, open
	}
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

// FeedPage is a page of the store's feed.
func (s *Store) FeedPage(ctx context.Context, after events.Position, f *events.FeedFilter, limit int) (events.FeedPage, error) {
	return feedSource{s}.FeedPage(ctx, after, f, limit)
}
