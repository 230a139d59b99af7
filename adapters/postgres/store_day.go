package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// day is the partition of a row: year, month and day of its request in UTC (20261129), or one of those that are never
// removed.
type day int32

const (
	always day = iota // the catalogue, the ledger, and whatever has no other place: small, and read at each start
	actors            // what upstreams, accounts and nodes have gone through
)

// actorStreams are the beginnings of the names of the streams in actors.
var actorStreams = []string{"account/", "node/", "upstream/"}

// table is the partition's own name. The writer goes there directly, past all planning over partitions.
func (d day) table() string { return "events_" + strconv.Itoa(int(d)) }

func dayOfTime(t time.Time) day {
	y, m, d := t.UTC().Date()
	return day(y*10000 + int(m)*100 + d)
}

// past says that no row of the day is appended any more, as far as the clock says what day it is.
func (d day) past(now time.Time) bool {
	return d != always && d != actors && d < dayOfTime(now.Add(-24*time.Hour))
}

// dayOf is the partition of a stream. It depends on nothing but the name, so that all rows of a stream are together.
func dayOf(stream string) day {
	id, ok := strings.CutPrefix(stream, events.RequestStreams)
	if !ok {
		for _, beginning := range actorStreams {
			if strings.HasPrefix(stream, beginning) {
				return actors
			}
		}
		return always
	}
	ms, ok := timeOfUUID(id)
	if !ok {
		return always
	}
	if t := time.UnixMilli(ms).UTC(); t.Year() <= 9999 {
		return dayOfTime(t)
	}
	return always
}

// dayOfPrefix is the partition of all streams that begin so; false when they are in several.
func dayOfPrefix(prefix string) (d day, ok bool) {
	for _, beginning := range append([]string{events.RequestStreams}, actorStreams...) {
		if strings.HasPrefix(beginning, prefix) && beginning != prefix {
			return 0, false
		}
	}
	return dayOf(prefix), !strings.HasPrefix(prefix, events.RequestStreams)
}

// timeOfUUID is the time in a UUIDv7, in milliseconds since 1970; false for any other text.
func timeOfUUID(id string) (ms int64, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' || id[14] != '7' ||
		hexDigits[id[19]]&^3 != 8 {
		return 0, false
	}
	var digits, all byte
	for i := range 13 {
		if i != 8 {
			digits |= hexDigits[id[i]]
			ms = ms<<4 | int64(hexDigits[id[i]])
		}
	}
	for i := range len(id) {
		all |= hexDigits[id[i]]
	}
	return ms, digits < hyphen && all < noDigit
}

// What hexDigits has for bytes that are no hexadecimal digit.
const (
	hyphen  = 1 << 5
	noDigit = 1 << 6
)

var hexDigits = func() (value [256]byte) {
	for i := range value {
		value[i] = noDigit
	}
	value['-'] = hyphen
	for i, c := range "0123456789abcdef" {
		value[c] = byte(i)
	}
	for i, c := range "ABCDEF" {
		value[c] = byte(10 + i)
	}
	return value
}()

// loadDays reads which partitions there are.
func (w *session) loadDays(ctx context.Context) error {
	const sql = `SELECT d.day, d.last FROM days d JOIN pg_inherits i
		ON i.inhrelid = to_regclass('events_' || d.day) AND i.inhparent = 'events'::regclass`
	rows, err := w.conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	w.days = map[day]events.Position{}
	var d day
	var last events.Position
	_, err = pgx.ForEachRow(rows, []any{&d, &last}, func() error {
		w.days[d] = last
		return nil
	})
	return err
}

const (
	aheadLock  = "100ms"     // for the table of all events, which an ANALYZE or an index that is made may hold for minutes
	aheadAgain = time.Minute // after it was not to be had
)

// lookAhead makes the partitions of today and tomorrow, once a day, so that midnight costs no request anything. Nothing waits for it:
// it is soon enough when the first row of the day asks again.
func (s *Store) lookAhead(ctx context.Context, w *session) error {
	now := time.Now()
	today := dayOfTime(now)
	if w.ahead == today || now.Before(w.aheadNext) {
		return nil
	}
	w.aheadNext = now.Add(aheadAgain)
	err := s.makeDays(ctx, w, aheadLock, today, dayOfTime(now.Add(24*time.Hour)))
	if refused(err) {
		_, err = w.conn.Exec(ctx, `ROLLBACK`)
		return err
	}
	if err == nil {
		w.ahead = today
	}
	return err
}

// making are the statements that make a partition. Attaching lets readers of the whole table go on, which creating as a partition would
// not.
func (d day) making() []string {
	return []string{
		fmt.Sprintf(`CREATE TABLE %s (LIKE events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`, d.table()),
		fmt.Sprintf(`ALTER TABLE events ATTACH PARTITION %s FOR VALUES IN (%d)`, d.table(), d),
		fmt.Sprintf(`INSERT INTO days (day, first, last) VALUES (%d, 0, 0)
			ON CONFLICT (day) DO UPDATE SET first = 0, last = 0`, d),
	}
}

// makeDays makes those partitions that are missing, in a transaction of their own. It waits for locks for so long, "0" for as long as
// there is time.
func (s *Store) makeDays(ctx context.Context, w *session, wait string, days ...day) error {
	days = slices.DeleteFunc(days, func(d day) bool { _, there := w.days[d]; return there })
	if len(days) == 0 {
		return nil
	}
	if _, err := s.begin(ctx, w, nil); err != nil {
		return err
	}
	if err := w.loadDays(ctx); err != nil { // another writer may have been faster
		return err
	}
	made := []string{`SET LOCAL lock_timeout = '` + wait + `'`}
	for _, d := range days {
		if _, there := w.days[d]; there {
			continue
		}
		made = append(made, d.making()...)
	}
	for _, sql := range append(made, `COMMIT`) {
		if _, err := w.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return errors.Wrapf(err, "make partitions for %v", days)
		}
	}
	return w.loadDays(ctx)
}
