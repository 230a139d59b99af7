package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock/penstock/projections"
)

// checkpointsTable holds one row per projection; its other tables are the projections'.
const checkpointsTable = "checkpoints"

// indexBytesMax is what an index entry may come to: the server refuses more than 2,704 bytes.
const indexBytesMax = 2600

// readTable is a declaration with what follows from it.
type readTable struct {
	*projections.Table
	kinds []*readKind
	names []bool // columns that are part of an index of the projection, so that texts in them are kept short everywhere
}

// readTables are the tables of a projection.
func readTables(p projections.Projection) ([]*readTable, error) {
	named := map[string]bool{}
	for _, t := range p.Tables() {
		if err := t.Check(); err != nil {
			return nil, err
		}
		for _, index := range append(t.Indexes[:len(t.Indexes):len(t.Indexes)], keyOf(t)) {
			size := 0
			for _, name := range index {
				named[name] = true
				if size += 8; !t.Columns[t.Column(name)].Number() {
					size += nameMax
				}
			}
			if size > indexBytesMax {
				return nil, errors.Newf("table %s: indexes: %v: too many texts for one index of PostgreSQL", t.Name, index)
			}
		}
	}
	list := make([]*readTable, 0, len(p.Tables()))
	for _, t := range p.Tables() {
		table := &readTable{Table: t}
		for _, c := range t.Columns {
			table.kinds = append(table.kinds, kindOf(c))
			table.names = append(table.names, named[c.Name])
		}
		list = append(list, table)
	}
	return list, nil
}

func keyOf(t *projections.Table) []string {
	names := make([]string, t.Key)
	for i := range names {
		names[i] = t.Columns[i].Name
	}
	return names
}

// createSchema makes the schema with the table of checkpoints. Of several programs that start at once, one does it. That
// of a shadow gets its mark as a comment.
func (w *readWriter) createSchema(ctx context.Context, mark string) error {
	var encoding string
	if err := w.conn.QueryRow(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return errors.Newf("the database is in %s; it must be in UTF8", encoding)
	}
	if _, err := w.conn.Exec(ctx, "SELECT pg_advisory_xact_lock($1, 0)", lockReadSetUp); err != nil {
		return err
	}
	var there, ours bool // asked first, for who may not create schemas may still use one
	err := w.conn.QueryRow(ctx, `SELECT count(*) > 0, coalesce(bool_and(obj_description(oid, 'pg_namespace') = $2), false)
		FROM pg_namespace WHERE nspname = $1`, w.schema, mark).Scan(&there, &ours)
	if err != nil {
		return err
	}
	if mark != "" && there && !ours {
		return errors.Newf("schema %s is somebody else's: it is in the way of a shadow", w.schema)
	}
	statements := []string{}
	if !there {
		statements = append(statements, "CREATE SCHEMA "+quote(w.schema))
	}
	if mark != "" && !there {
		statements = append(statements, "COMMENT ON SCHEMA "+quote(w.schema)+" IS '"+mark+"'")
	}
	statements = append(statements, "CREATE "+ifSet(mark != "", "UNLOGGED ")+"TABLE IF NOT EXISTS "+w.table(checkpointsTable)+` (
		projection text COLLATE "C" PRIMARY KEY,
		version    integer NOT NULL,
		position   bigint NOT NULL,
		tables     text[] NOT NULL
	)`)
	return errors.Wrapf(w.run(ctx, statements...), "create schema %s", w.schema)
}

// create makes the tables of a projection that are missing.
func (w *readWriter) create(ctx context.Context, p projections.Projection) error {
	tables, err := readTables(p)
	if err != nil {
		return err
	}
	w.batches = nil // of tables that may be no more
	for _, t := range tables {
		var there bool // asked first: even what finds nothing to do waits for who writes the table
		if err := w.conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", w.table(t.Name)).Scan(&there); err != nil {
			return err
		}
		if there {
			w.known[t.Name] = t
			continue
		}
		if err := w.run(ctx, w.createTable(t, p)...); err != nil {
			return errors.Wrapf(err, "create table %s", t.Name)
		}
		w.known[t.Name] = t
	}
	return nil
}

func (w *readWriter) createTable(t *readTable, p projections.Projection) []string {
	name := w.table(t.Name)
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE %sTABLE %s (", ifSet(w.shadow, "UNLOGGED "), name)
	for i, c := range t.Columns {
		fmt.Fprintf(&b, "%s %s%s, ", quote(c.Name), t.kinds[i].sql, ifSet(i < t.Key, " NOT NULL"))
	}
	fmt.Fprintf(&b, "PRIMARY KEY (%s))", quoteAll(keyOf(t.Table)))
	list := []string{b.String()}
	for i, index := range t.Indexes {
		if w.shadow { // it is only ever read whole
			break
		}
		list = append(list, fmt.Sprintf("CREATE INDEX %s ON %s (%s)",
			quote(fmt.Sprintf("%s_by_%d", t.Name, i+1)), name, quoteAll(index)))
	}
	comment := fmt.Sprintf("projection %s, version %d; made from the events: do not write. Amounts are USD, …_us are microseconds",
		p.Name(), p.Version())
	return append(list, "COMMENT ON TABLE "+name+" IS '"+strings.ReplaceAll(comment, "'", "''")+"'")
}

func ifSet(b bool, s string) string {
	if b {
		return s
	}
	return ""
}

// anew drops the tables of a projection, those of an older version too, and creates them.
func (w *readWriter) anew(ctx context.Context, p projections.Projection) error {
	if err := w.drop(ctx, p); err != nil {
		return err
	}
	return w.create(ctx, p)
}

// drop drops the tables of a projection, those of an older version too.
func (w *readWriter) drop(ctx context.Context, p projections.Projection) error {
	var names []string
	err := w.conn.QueryRow(ctx, "SELECT tables FROM "+w.table(checkpointsTable)+" WHERE projection = $1", p.Name()).Scan(&names)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	for _, t := range p.Tables() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := w.run(ctx, "DROP TABLE IF EXISTS "+w.table(name)); err != nil {
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Detail != "" { // such as views of the operator's, which stay his to drop
				err = errors.Wrap(err, refused.Detail)
			}
			return errors.Wrapf(err, "drop table %s", name)
		}
		delete(w.known, name)
	}
	return nil
}

// table is the name of a table with its schema.
func (w *readWriter) table(name string) string { return tableIn(w.schema, name) }

func tableIn(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func quoteAll(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = quote(name)
	}
	return strings.Join(list, ", ")
}

func columnNames(t *projections.Table) []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// selectFrom is the start of a query for whole rows.
func selectFrom(schema string, t *projections.Table) string {
	return "SELECT " + quoteAll(columnNames(t)) + " FROM " + tableIn(schema, t.Name)
}
