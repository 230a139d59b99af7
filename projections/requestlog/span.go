package requestlog

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/penstock/penstock/projections"
)

// Spans say when the lines of a block were made: a row has the times of the first and of the last one of a minute. Lines are
// written in order of position, which is that of time but for what came late, by a spool or by a clock. So a page, which is by
// time, looks at the blocks whose rows reach far enough, from the newest on: see Page. Ids of requests are in that order, too, so
// that one is in few of the blocks whose rows have it between their ids. They are one row for many lines, where an index on
// the time or on the id would cost every line.
var Spans = &projections.Table{
	Name: "request_spans",
	Key:  2,
	Columns: []projections.Column{
		{Name: "block", Kind: projections.KindInt},  // position / 256
		{Name: "minute", Kind: projections.KindInt}, // since 1970; minuteUnsure: every time
		{Name: "low", Kind: projections.KindInt},    // microseconds since 1970
		{Name: "high", Kind: projections.KindInt},
		{Name: "id_low", Kind: projections.KindInt}, // see NumberOf
		{Name: "id_high", Kind: projections.KindInt},
	},
	Indexes: [][]string{{"high", "block", "minute"}},
}

// Span is a row of Spans without its other bounds: where a walk from the newest line on stands.
type Span struct {
	High, Block, Minute int64
}

// minuteUnsure is the minute of a row that knows no bounds: lines of its block were taken away, and a rebuilding, which does not
// meet those, must come to the same rows.
const minuteUnsure = math.MinInt64

const minuteMicros = int64(time.Minute / time.Microsecond)

// minuteOf is the number of the minute, from 1970.
func minuteOf(us int64) int64 {
	minute := us / minuteMicros
	if us%minuteMicros < 0 {
		minute--
	}
	return minute
}

// span notes the time and the id of a line.
func span(first, at int64, id string, out *projections.Changes) {
	us, number := projections.Int(at), projections.Int(NumberOf(id))
	out.Widen(Spans, projections.Int(first/MarkSize), projections.Int(minuteOf(at)), us, us, number, number)
}

// NumberOf is a number that rises with the ids that the gateway makes: the first 63 bits of a UUID. Other texts have one, too,
// in no order.
func NumberOf(id string) int64 {
	var n uint64
	digits := 0
	for i := 0; i < len(id) && digits < 16; i++ {
		switch c := id[i]; {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		case c == '-':
			continue
		default:
			return digest(id)
		}
		digits++
	}
	if digits < 16 {
		return digest(id)
	}
	return int64(n >> 1)
}

func digest(text string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return int64(h.Sum64() >> 1)
}

// unspan forgets the times of lines that are gone.
func unspan(from, to int64, out *projections.Changes) {
	out.Cut(projections.Cut{Table: Spans, From: from / MarkSize, To: to / MarkSize})
	for _, at := range []int64{from, to} {
		low, high := projections.Int(math.MinInt64), projections.Int(math.MaxInt64)
		out.Widen(Spans, projections.Int(at/MarkSize), projections.Int(minuteUnsure), low, high, low, high)
	}
}
