package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// A day that goes as a whole is dropped with its partition. Everything that takes time (hashes move to archived, rows that stay
// to a new partition) is done on a connection of its own, in one transaction that nobody waits for: no row of the day is
// appended to any more. Only then the table of all events is locked, for as long as it takes to take one partition out of it.
// Who reads then holds that up, and whoever comes next waits behind it, writers of other days among them when they look at their
// partition for the first time: so the lock is waited for shortly, and again after a pause.
//
// DETACH PARTITION … CONCURRENTLY would need no such lock. But it can not be in the transaction that moves the hashes: a reader
// of the chain would find the rows twice or not at all, and a crash would leave a partition that is half detached.
const (
	dropChunks = 8    // a day that has more rows than so many chunks is dropped
	restMax    = 2000 // streams that may stay of it, which were committed after its last closing

	dropMax  = 10 * time.Minute // for all of it
	dropLock = "50ms"
	dropRest = 100 * time.Millisecond // between two tries for the lock
	dropTry  = 50                     // before the day is deleted in chunks instead
)

// keptDays are days that were not dropped, with the removal that it was tried for.
type keptDays struct {
	mu   sync.Mutex
	days map[day]events.Removal
}

func (k *keptDays) has(d day, r events.Removal) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, tried := k.days[d]
	return tried && was == r
}

func (k *keptDays) note(d day, r events.Removal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.days == nil {
		k.days = map[day]events.Removal{}
	}
	k.days[d] = r
}

// dropDays drops the partition of one past day that a removal takes away as a whole, or nearly, and says how many rows went.
// 0: there is none; what is left goes in chunks.
func (s *Store) dropDays(ctx context.Context, r events.Removal, limit int) (removed int, err error) {
	var days []day
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
		days, err = daysBetween(ctx, c, r.First, r.Through)
		return err
	})
	if err != nil {
		return 0, err
	}
	now := time.Now()
	for _, d := range days {
		if !d.past(now) || s.kept.has(d, r) {
			continue
		}
		if removed, err = s.dropDay(ctx, d, r, limit); removed > 0 || err != nil {
			return removed, err
		}
		s.kept.note(d, r)
	}
	return 0, nil
}

func (s *Store) dropDay(ctx context.Context, d day, r events.Removal, limit int) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, dropMax)
	defer cancel()
	c, err := s.dialer.connect(ctx)
	if err != nil {
		return 0, s.unavailable(err)
	}
	defer drop(c)
	drop := dropping{c: c, day: d, removal: r, limit: limit}
	whole, err := drop.run(ctx)
	if err != nil {
		return 0, s.unavailable(fmt.Errorf("drop the partition of %d: %w", d, err))
	}
	if !whole {
		return 0, nil
	}
	return drop.removed, s.write(ctx, func(_ context.Context, w *session) error { // it need not find out by an error
		if len(drop.rest) == 0 {
			delete(w.days, d)
		}
		s.dropped(r)
		return nil
	})
}

// dropped notes the blocks of the search index that name rows which are no more.
func (s *Store) dropped(r events.Removal) {
	s.blocks.end = chain{first: -1}
	for n := events.BlockOf(r.First); n <= events.BlockOf(r.Through); n++ {
		s.thinned.Note(events.BlockStart(n))
	}
}

// dropping is the end of one day.
type dropping struct {
	c       *pgx.Conn
	day     day
	removal events.Removal
	limit   int

	last    int64    // position in the partition
	rest    []string // streams that stay
	removed int
}

// run does all of it in one transaction; false: the day is to go in another way, and nothing was changed.
func (p *dropping) run(ctx context.Context) (bool, error) {
	begin := fmt.Sprintf(`BEGIN; SET LOCAL enable_seqscan = on; SET LOCAL statement_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '%s'`,
		dropMax.Milliseconds(), dropLock)
	if err := p.exec(ctx, begin); err != nil {
		return false, err
	}
	for _, step := range []func(context.Context) (bool, error){p.look, p.move, p.lock, p.swap} {
		if goOn, err := step(ctx); !goOn || err != nil {
			return false, err // the connection is closed, and the transaction with it
		}
	}
	return true, p.exec(ctx, `COMMIT`)
}

func (p *dropping) exec(ctx context.Context, sql string) error {
	_, err := p.c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// look finds what stays of the day, and whether dropping it is worth its while.
func (p *dropping) look(ctx context.Context) (bool, error) {
	var rows int
	table := p.day.table()
	if err := p.c.QueryRow(ctx, `SELECT count(*), coalesce(max(position), 0) FROM `+table).Scan(&rows, &p.last); err != nil {
		return false, err
	}
	if rows <= dropChunks*p.limit {
		return false, nil
	}
	streams, err := p.c.Query(ctx, `SELECT stream FROM `+table+` WHERE version = 0 AND (position < $1 OR position > $2) LIMIT $3`,
		int64(p.removal.First), int64(p.removal.Last), restMax+1)
	if err != nil {
		return false, err
	}
	p.rest, err = pgx.CollectRows(streams, pgx.RowTo[string])
	return len(p.rest) <= restMax, err
}

// move copies what is left of the rows, and those that stay.
func (p *dropping) move(ctx context.Context) (bool, error) {
	table := p.day.table()
	moved, err := p.c.Exec(ctx, `INSERT INTO archived (position, n, hash) SELECT position, n, hash FROM `+table+` WHERE stream <> ALL ($1)`, p.rest)
	p.removed = int(moved.RowsAffected())
	if err != nil || len(p.rest) == 0 {
		return p.removed > 0, err
	}
	if err := p.exec(ctx, fmt.Sprintf(`CREATE TABLE %s_rest (LIKE events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`, table)); err != nil {
		return false, err
	}
	_, err = p.c.Exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s_rest SELECT * FROM %[1]s WHERE stream = ANY ($1)`, table), p.rest)
	return p.removed > 0, err
}

// lock gets the table for itself. false: somebody reads it all the time, or the day has got one more row.
func (p *dropping) lock(ctx context.Context) (bool, error) {
	take := fmt.Sprintf(`SAVEPOINT alone; LOCK TABLE ONLY events IN ACCESS EXCLUSIVE MODE; LOCK TABLE %s IN ACCESS EXCLUSIVE MODE`, p.day.table())
	for range dropTry {
		err := p.exec(ctx, take)
		if err == nil {
			var last int64
			err = p.c.QueryRow(ctx, `SELECT coalesce(max(position), 0) FROM `+p.day.table()).Scan(&last)
			return last == p.last, err
		}
		if code := codeOf(err); code != lockNotAvailable && code != deadlockDetected {
			return false, err
		}
		if err := p.exec(ctx, `ROLLBACK TO alone`); err != nil {
			return false, err
		}
		if pause(ctx, dropRest); ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return false, nil
}

// swap takes the partition away, and puts what stays in its place.
func (p *dropping) swap(ctx context.Context) (bool, error) {
	table := p.day.table()
	swap := []string{`DROP TABLE ` + table, fmt.Sprintf(`DELETE FROM days WHERE day = %d`, p.day)}
	if len(p.rest) > 0 {
		swap = []string{
			`DROP TABLE ` + table, fmt.Sprintf(`ALTER TABLE %[1]s_rest RENAME TO %[1]s`, table),
			fmt.Sprintf(`ALTER TABLE events ATTACH PARTITION %s FOR VALUES IN (%d)`, table, p.day),
			fmt.Sprintf(`UPDATE days SET first = (SELECT min(position) FROM %s) WHERE day = %d`, table, p.day),
		}
	}
	for _, sql := range swap {
		if err := p.exec(ctx, sql); err != nil {
			return false, err
		}
	}
	return true, nil
}
