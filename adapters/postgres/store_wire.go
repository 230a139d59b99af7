package postgres

import (
	"context"
	"encoding/binary"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgproto3"
)

// wire carries prepared statements whose form is known beforehand, COPY among them, in the messages of the server's protocol:
// they are made in one buffer, written at once and answered at once, which spares a commit most of what pgx does for
// statements that it does not know. It belongs to whoever has the connection to himself, and uses it between two calls of
// pgx; an end of the context means the same to it as to pgx.
//
// All is written before an answer is read. That cannot block for good: before the server has read everything, it says
// some bytes per statement and no row of a table.
type wire struct {
	conn    *pgx.Conn
	watcher *ctxwatch.ContextWatcher
	out     []byte // messages that wait
	open    int    // where the length belongs of the message that is being made

	apart [][]byte    // parameters that are sent from where they are; the caller's, until the trip is over
	at    int         // their place in out
	parts net.Buffers // what is written then
}

func newWire(c *pgx.Conn) wire {
	return wire{conn: c, watcher: ctxwatch.NewContextWatcher(c.Config().BuildContextWatcherHandler(c.PgConn()))}
}

// wireKept is the size of a buffer that outlives its use.
const wireKept = 1 << 20

// message begins a message; end gives it its length.
func (x *wire) message(kind byte) {
	x.out = append(x.out, kind, 0, 0, 0, 0)
	x.open = len(x.out) - 4
}

func (x *wire) end() {
	binary.BigEndian.PutUint32(x.out[x.open:], uint32(len(x.out)-x.open))
}

// bind begins the execution of a prepared statement. Its parameters follow, in binary form, and then execute.
func (x *wire) bind(statement string, parameters int) {
	x.message('B')
	x.out = append(x.out, 0) // the portal without a name
	x.out = append(append(x.out, statement...), 0)
	x.out = append(x.out, 0, 1, 0, 1) // binary, all of them
	x.out = binary.BigEndian.AppendUint16(x.out, uint16(parameters))
}

func (x *wire) execute() {
	x.out = append(x.out, 0, 1, 0, 1) // results are binary, too
	x.end()
	x.message('E')
	x.out = append(x.out, 0, 0, 0, 0, 0) // the same portal, all rows
	x.end()
}

func (x *wire) int4(v int32) { x.out = appendInt4(x.out, v) }

func (x *wire) int8(v int64) { x.out = appendInt8(x.out, v) }

func (x *wire) bytes(b []byte) { x.out = appendBytes(x.out, b) }

// moment is a time in microseconds since 1970.
func (x *wire) moment(us int64) { x.int8(us - epoch) }

// plain executes a statement without parameters.
func (x *wire) plain(statement string) {
	x.bind(statement, 0)
	x.execute()
}

// copyChunk is the size from which the data of a COPY go on in another message: the server keeps a message in memory.
const copyChunk = 64 << 10

// beginCopy executes a COPY FROM STDIN BINARY. Its rows are appended to out, each with nextRow behind it, and then endCopy.
func (x *wire) beginCopy(statement string) {
	x.plain(statement)
	x.message('d')
	x.out = append(x.out, copyHead...)
}

func (x *wire) nextRow() {
	if len(x.out)-x.open > copyChunk {
		x.end()
		x.message('d')
	}
}

func (x *wire) endCopy() {
	x.out = append(x.out, 0xff, 0xff) // no more rows
	x.end()
	x.message('c')
	x.end()
}

// copyOf executes a COPY of tuples; of none it executes none.
func (x *wire) copyOf(statement string, tuples []byte) {
	if len(tuples) > 0 {
		x.beginCopy(statement)
		x.out = append(x.out, tuples...)
		x.endCopy()
	}
}

// sync ends what is sent at once: after an error the server passes over everything up to here.
func (x *wire) sync() {
	x.message('S')
	x.end()
}

// arrays executes a statement with large parameters, each behind its length. One trip takes one such statement.
func (x *wire) arrays(statement string, parameters [][]byte) {
	x.bind(statement, len(parameters))
	x.apart, x.at = parameters, len(x.out)
	bind := x.open
	x.execute()
	size := binary.BigEndian.Uint32(x.out[bind:])
	for _, p := range parameters {
		size += uint32(len(p))
	}
	binary.BigEndian.PutUint32(x.out[bind:], size)
}

// trip sends what waits, behind it a sync, and reads the answers. The first error of the server is returned as it is
// (*pgconn.PgError); any other ends the connection. row, when it is not nil, gets the rows of all statements; their values
// are the connection's buffer.
func (x *wire) trip(ctx context.Context, row func(values [][]byte)) error {
	x.sync()
	defer x.reset()
	if err := ctx.Err(); err != nil {
		return err
	}
	x.watcher.Watch(ctx)
	defer x.watcher.Unwatch()
	var refusal error
	err := x.write()
	for err == nil {
		var m pgproto3.BackendMessage
		// The context is watched once for all messages.
		if m, err = x.conn.PgConn().ReceiveMessage(context.Background()); err != nil {
			break
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			if row != nil {
				row(m.Values)
			}
		case *pgproto3.ErrorResponse:
			if refusal == nil {
				refusal = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			return refusal
		}
	}
	_ = x.conn.PgConn().Conn().Close() // nobody shall take an answer that still comes for another one
	if refusal != nil {                // it says why the server has gone
		return refusal
	}
	return err
}

func (x *wire) write() (err error) {
	c := x.conn.PgConn().Conn()
	if x.apart == nil {
		_, err = c.Write(x.out)
	} else {
		x.parts = append(append(append(x.parts[:0], x.out[:x.at]), x.apart...), x.out[x.at:])
		all := x.parts // writing consumes it
		_, err = all.WriteTo(c)
		clear(x.parts)
	}
	return err
}

func (x *wire) reset() {
	if x.out = x.out[:0]; cap(x.out) > wireKept {
		x.out = nil
	}
	x.apart = nil
}

// The binary form of values, each behind its length.

func appendInt4(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(v))
}

func appendInt8(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(v))
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}
