package postgres

import "github.com/penstock/penstock/events"

// SearchSQL is the statement of a search for rows that were found through the index, in the partitions of these days.
func SearchSQL(f events.Query, places []events.Position, days ...int32) (string, []any) {
	q := search{filter: f, terms: f.Terms()}
	for _, d := range days {
		q.days = append(q.days, span{day(d), 1, 1 << 40})
	}
	return q.sql(places)
}

// SearchBlocksSQL is the statement that asks the index.
const SearchBlocksSQL = selectOffsets
