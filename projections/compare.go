package projections

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// compare walks both sides of a table in the order of its key and counts what differs.
func compare(ctx context.Context, t *Table, live, fresh Snapshot, report *Report) (err error) {
	a, err := live.Scan(ctx, t)
	if err != nil {
		return err
	}
	defer closing(a, &err)
	b, err := fresh.Scan(ctx, t)
	if err != nil {
		return err
	}
	defer closing(b, &err)
	have, more := a.Next()
	want, wanted := b.Next()
	for more || wanted {
		side := 0 // whose row comes first
		switch {
		case !more:
			side = 1
		case !wanted:
			side = -1
		default:
			side = t.CompareKeys(have, want)
		}
		switch {
		case side < 0:
			report.differs(t, have, "only in the living rows")
		case side > 0:
			report.differs(t, want, "missing in the living rows")
		case !slices.Equal(have, want):
			report.differs(t, want, t.difference(have, want))
		}
		if side >= 0 {
			report.Rows++
			want, wanted = b.Next()
		}
		if side <= 0 {
			have, more = a.Next()
		}
	}
	if err := a.Err(); err != nil {
		return err
	}
	return b.Err()
}

func (r *Report) differs(t *Table, row []Value, how string) {
	r.DifferingRows++
	if len(r.Differences) < DifferencesMax {
		r.Differences = append(r.Differences, fmt.Sprintf("%s %v: %s", t.Name, row[:t.Key], how))
	}
}

// difference names the columns that differ.
func (t *Table) difference(have, want []Value) string {
	var b strings.Builder
	for i, c := range t.Columns {
		if have[i] != want[i] {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s is %v, rebuilt %v", c.Name, have[i], want[i])
		}
	}
	return b.String()
}

// count is the number of rows of a table.
func count(ctx context.Context, t *Table, in Snapshot) (n int64, err error) {
	rows, err := in.Scan(ctx, t)
	if err != nil {
		return 0, err
	}
	defer closing(rows, &err)
	for _, more := rows.Next(); more; _, more = rows.Next() {
		n++
	}
	return n, rows.Err()
}

// Count counts the rows of a projection by table.
func Count(ctx context.Context, in ReadModel, p Projection) (rows map[string]int64, err error) {
	s, err := in.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer closing(s, &err)
	rows = map[string]int64{}
	for _, t := range p.Tables() {
		if rows[t.Name], err = count(ctx, t, s); err != nil {
			return nil, fmt.Errorf("count rows of %s: %w", t.Name, err)
		}
	}
	return rows, nil
}
