package penstock

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/closing"
)

// When books are closed, and how events are taken away.
const (
	booksEvery   = 15 * time.Minute // how often a look is taken whether yesterday can be closed
	booksGrace   = 10 * time.Minute // after midnight, for clocks of nodes that differ
	removalBatch = 50               // rows of one commit; appends have their turn between two
	stillEvery   = 20 * time.Millisecond
)

// closer closes the books and takes away what retention allows. Its calls take turns.
type closer struct {
	*auditor
	dir      string                           // data folder: what relative paths start from
	settings func() (catalog.Settings, error) // in force
	settled  func(context.Context) error      // read models have what was appended
	append   func(context.Context, events.Row) error
	node     string
	board    *projections.Board // where its work is entered; nil: nowhere

	turn    sync.Mutex
	replays sync.RWMutex // held for reading by replays: nothing is taken away under them

	book *books.Ledger // as it was read or said last; under turn once the gateway is open

	known   sync.Mutex
	partial map[string]bool // days of which only whole sums are left, of some requests at least
}

// still runs something while no day is closed and nothing is taken away.
func (c *closer) still(ctx context.Context, do func(*books.Ledger) error) error {
	if err := patiently(ctx, c.turn.TryLock); err != nil {
		return err
	}
	defer c.turn.Unlock()
	if c.book == nil {
		if _, _, err := c.load(ctx); err != nil {
			return err
		}
	}
	return do(c.book)
}

// patiently takes a lock that others may hold for long, unless the context ends before. Who waits like that also holds up nobody
// who wants it for reading.
func patiently(ctx context.Context, take func() bool) error {
	for !take() {
		wait := time.NewTimer(stillEvery)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
	return nil
}

// CloseBooks closes all days up to the given one, then applies retention; see admin.Books.
func (c *closer) CloseBooks(ctx context.Context, until string) (closed []books.Closed, err error) {
	end, err := books.ParseDay(until)
	if err != nil {
		return nil, err
	}
	now := c.now().UTC()
	if now.Before(end.Add(24 * time.Hour)) {
		return nil, errors.Wrapf(books.ErrOpen, "%s has not ended", until)
	}
	if err := patiently(ctx, c.turn.TryLock); err != nil {
		return nil, err
	}
	defer c.turn.Unlock()
	ctx, done := c.board.Watch(ctx, "books", closingBooks)
	defer done()
	if err := c.settled(ctx); err != nil {
		return nil, err
	}
	book, version, err := c.load(ctx)
	if err != nil {
		return nil, err
	}
	goal, err := c.endOf(ctx, until)
	if goal == nil || err != nil {
		return nil, errors.CombineErrors(err, c.retain(ctx, book, version))
	}
	for {
		f, err := c.next(ctx, book, until, goal.Position)
		if f == nil || err != nil {
			return closed, errors.CombineErrors(err, c.retain(ctx, book, version))
		}
		if err := c.say(ctx, book, &version, f); err != nil {
			return closed, err
		}
		closed = append(closed, *f)
		if err := c.keep(ctx); err != nil && ctx.Err() == nil { // the day is closed all the same
			c.log.Error("head of the chain was not kept", "day", f.Day, "error", err)
		}
		c.log.Info("books closed", "day", f.Day, "requests", f.Requests, "events", f.Facts, "through", f.Through)
	}
}

// load folds what was said about the books. version is that of their stream.
func (c *closer) load(ctx context.Context) (book *books.Ledger, version int64, err error) {
	book = &books.Ledger{}
	err = c.chain.Stream(ctx, books.Stream, 0, func(row *events.Committed) bool {
		for _, f := range row.Facts {
			book.Evolve(f)
		}
		version = row.Version + int64(len(row.Facts))
		return true
	})
	c.note(book)
	if c.book = book; err != nil {
		c.book = nil
	}
	return book, version, errors.Wrap(err, "read the books")
}

// say appends one fact about the books. Of two nodes that say something at once one fails.
func (c *closer) say(ctx context.Context, book *books.Ledger, version *int64, fact events.Fact) error {
	row := events.Row{Stream: books.Stream, Version: *version, At: c.now().UTC(), Node: c.node, Facts: []events.Fact{fact}}
	if err := c.append(ctx, row); err != nil {
		c.book = nil // it may have been another node that said something
		return errors.Wrap(err, "append to the books")
	}
	*version++
	book.Evolve(fact)
	return nil
}

// next is the closing of the next day that had requests, its archive written; nil when there is none up to until, whose last request
// begins at goal.
func (c *closer) next(ctx context.Context, book *books.Ledger, until string, goal events.Position) (*books.Closed, error) {
	first := events.Position(1)
	last := book.Last()
	if last != nil {
		first = events.Position(last.Last) + 1
	}
	limit, err := books.ParseDay(until)
	if err != nil {
		return nil, err
	}
	// What a clock said that was ahead is passed over here: else nothing behind it were closed until that day.
	begin, err := c.request(ctx, events.Query{After: first - 1, Until: limit.Add(24 * time.Hour)})
	if begin == nil || err != nil {
		return nil, err
	}
	day, _ := books.ParseDay(books.DayOf(begin.At))
	if last != nil && books.DayOf(day) <= last.Day { // it was committed late
		after, err := books.ParseDay(last.Day)
		if err != nil {
			return nil, err
		}
		day = after.Add(24 * time.Hour)
	}
	name := books.DayOf(day)
	if name > until {
		return nil, nil
	}
	end, err := c.endOf(ctx, name)
	if end == nil || err != nil {
		return nil, err
	}
	p := projections.Progress{Projection: closingBooks, Part: name, From: first - 1, To: goal}
	f, err := closing.Of(ctx, c.watching(ctx, p), name, first, end.Position)
	if err != nil {
		return nil, err
	}
	folder, err := c.folder()
	if err != nil {
		return nil, err
	}
	if folder != "" {
		if f.Archive, err = c.archive(ctx, folder, f); err != nil {
			return nil, unarchived(err, name)
		}
	}
	return f, nil
}

// endOf is the last row of request streams up to the end of a day, nil when there is none.
func (c *closer) endOf(ctx context.Context, day string) (*events.Committed, error) {
	begin, err := books.ParseDay(day)
	if err != nil {
		return nil, err
	}
	return c.request(ctx, events.Query{Until: begin.Add(24 * time.Hour), Newest: true})
}

// request is the first row of request streams that a query finds, nil when there is none.
func (c *closer) request(ctx context.Context, q events.Query) (found *events.Committed, err error) {
	q.StreamPrefix, q.Limit = events.RequestStreams, 1
	err = c.chain.Find(ctx, q, func(row *events.Committed) bool { found = row; return true })
	return found, errors.Wrap(err, "find the end of a day")
}

// folder is where the archive is, "" for nowhere.
func (c *closer) folder() (string, error) {
	settings, err := c.settings()
	if err != nil || settings.BooksArchive == "" || filepath.IsAbs(settings.BooksArchive) {
		return settings.BooksArchive, err
	}
	return filepath.Join(c.dir, settings.BooksArchive), nil
}

// unarchived is why there is no archive of a day.
func unarchived(err error, day string) error {
	return errors.Mark(errors.Wrapf(err, "archive of %s", day), admin.ErrArchive)
}

// archive writes the links with all rows of a day's requests. The name tells one chain from another.
func (c *closer) archive(ctx context.Context, folder string, f *books.Closed) (_ *books.Archive, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	c.clear(folder, f.Day)
	temp, err := os.CreateTemp(folder, "."+f.Day+".*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	sum := sha256.New()
	zip := gzip.NewWriter(io.MultiWriter(temp, sum))
	sign := func(h *events.Head) { h.Sign(c.key, c.now()) }
	p := projections.Progress{Projection: writingArchive, Part: f.Day, From: events.Position(f.First) - 1, To: events.Position(f.Through)}
	head, err := events.Export(ctx, c.watching(ctx, p), events.Position(f.First), events.Position(f.Through), sign, zip)
	err = errors.CombineErrors(err, zip.Close())
	size, sized := temp.Seek(0, io.SeekEnd)
	err = errors.CombineErrors(errors.CombineErrors(err, sized), errors.CombineErrors(temp.Sync(), temp.Close()))
	if err != nil {
		return nil, err
	}
	a := &books.Archive{
		File: f.Day + "." + head.Hash.String()[:12] + ".jsonl.gz", SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: size,
	}
	if err := os.Rename(temp.Name(), filepath.Join(folder, a.File)); err != nil {
		return nil, err
	}
	at, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	return a, errors.CombineErrors(at.Sync(), at.Close())
}

// note keeps the days of which nothing but sums is left.
func (c *closer) note(book *books.Ledger) {
	c.known.Lock()
	defer c.known.Unlock()
	c.partial = map[string]bool{}
	for i := range book.Closed {
		f := &book.Closed[i]
		if !book.Removed[f.Day] {
			continue
		}
		c.partial[f.Day] = true
		for _, l := range f.Lines {
			c.partial[l.Day] = true
		}
	}
}

// whole refuses a bill with a border inside a day of which only the sums are left.
func (c *closer) whole(q billing.Query) error {
	c.known.Lock()
	defer c.known.Unlock()
	for _, border := range []struct {
		name string
		at   time.Time
	}{{"since", q.Since}, {"until", q.Until}} {
		midnight := border.at.UTC().Truncate(24 * time.Hour)
		if !border.at.IsZero() && !border.at.Equal(midnight) && c.partial[books.DayOf(border.at)] {
			return errors.Wrapf(billing.ErrQuery, "%s: events of %s were removed, there is only the whole day; more is in the archive",
				border.name, books.DayOf(border.at))
		}
	}
	return nil
}

// run closes yesterday when it can be, until the context ends.
func (c *closer) run(ctx context.Context) {
	tick := time.NewTicker(booksEvery)
	defer tick.Stop()
	done := ""
	for {
		day := books.DayOf(c.now().UTC().Add(-booksGrace).AddDate(0, 0, -1))
		if day != done {
			_, err := c.CloseBooks(ctx, day)
			switch {
			case err == nil:
				done = day
			case ctx.Err() != nil:
			case errors.Is(err, books.ErrOpen), errors.Is(err, projections.ErrRebuilding):
				c.log.Info("books are not closed yet", "day", day, "reason", err)
			default:
				c.log.Error("books were not closed", "day", day, "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// archiveStale is for how long nothing was written to an archive that nobody writes any more. Gateways may share a folder.
const archiveStale = time.Hour

// clear removes what killed processes have left of the archive of a day.
func (c *closer) clear(folder, day string) {
	left, _ := filepath.Glob(filepath.Join(folder, "."+day+".*")) // a name that is no pattern finds nothing, which does no harm
	for _, path := range left {
		if is, err := os.Stat(path); err == nil && c.now().Sub(is.ModTime()) > archiveStale {
			if err := os.Remove(path); err == nil {
				c.log.Warn("half an archive was left and is removed", "file", path)
			}
		}
	}
}

// bookkeeping is what a gateway does for its books beside its work.
type bookkeeping struct {
	closer *closer
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// openLedger prepares audit and closing.
func (g *Gateway) openLedger(ctx context.Context) error {
	a, err := openAuditor(g.config.DataDir, g.store, g.log)
	if err != nil {
		return err
	}
	c := &closer{
		auditor: a, dir: g.config.DataDir, node: g.node, settled: g.booksSettled, board: &g.replays,
		settings: func() (catalog.Settings, error) { return g.catalogue.Snapshot().Settings, nil },
		append: func(_ context.Context, row events.Row) error {
			return g.journal.Commit(events.Append{Rows: []events.Row{row}}, events.May)
		},
	}
	a.elsewhere, a.tell = c.folder, func(h events.Head) { g.out.hooks.Head(h) }
	if _, _, err := c.load(ctx); err != nil {
		return err
	}
	g.ledger.closer = c
	return nil
}

// keepBooks signs heads and closes days until stopBooks.
func (g *Gateway) keepBooks() {
	ctx, stop := context.WithCancel(context.Background())
	g.ledger.stop = stop
	g.ledger.done.Go(func() {
		_ = g.journal.Sync(ctx) // so that the first head is there when the first fact is; its error is that of the context
		g.ledger.closer.auditor.run(ctx)
	})
	g.ledger.done.Go(func() { g.ledger.closer.run(ctx) })
}

func (g *Gateway) stopBooks() {
	if g.ledger.stop != nil {
		g.ledger.stop()
		g.ledger.done.Wait()
	}
}

// newOfflineCloser closes the books of a data folder that no gateway uses.
func newOfflineCloser(ctx context.Context, dir string, store events.Store, settled func(context.Context) error) (*closer, error) {
	a, err := openAuditor(dir, store, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	c := &closer{auditor: a, dir: dir, node: nodeName(), settled: settled}
	c.settings = func() (catalog.Settings, error) {
		state, err := actors.LoadState(ctx, store)
		if err != nil {
			return catalog.Settings{}, err
		}
		return catalog.Build(state, nil).Settings, nil
	}
	c.append = func(ctx context.Context, row events.Row) error {
		if err := events.Encode(&row); err != nil {
			return err
		}
		low, err := store.LowWater(ctx, 0)
		if err != nil {
			return err
		}
		results, err := store.Append(ctx, []events.Append{{Rows: []events.Row{row}}}, low)
		if err != nil {
			return err
		}
		return results[0].Err
	}
	a.elsewhere = c.folder
	_, _, err = c.load(ctx)
	return c, err
}
