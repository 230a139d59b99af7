package postgres

import (
	"database/sql"
	"errors"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/penstock/penstock/events"
)

// feedBatch is how many messages one transaction of a consumer group handles.
const feedBatch = 100

// feedSchema lets watermill-sql read the table of events as a topic. Positions are in the order of commits (an append
// holds a lock), so what is behind a checkpoint is complete.
type feedSchema struct{}

// InsertQuery refuses: facts are appended by the store.
func (feedSchema) InsertQuery(wsql.InsertQueryParams) (wsql.Query, error) {
	return wsql.Query{}, errors.New("facts are appended by the store")
}

// SchemaInitializingQueries is empty: the migrations do it.
func (feedSchema) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// SubscribeIsolationLevel is enough: rows do not change.
func (feedSchema) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }

// selectFeed takes the rows behind a checkpoint apart into facts. Table days says which partitions to look into; in
// each one the first row may begin at or before the checkpoint and reach beyond it.
const selectFeed = `
SELECT e.position + f.i - 1, e.stream, e.version + f.i - 1, split_part(e.types, ' ', f.i::int), e.at,
	coalesce(e.node, ''), coalesce(e.request, ''), coalesce(e.key, ''), coalesce(e.upstream, ''), f.object, c.position
FROM checkpoint c, days d CROSS JOIN LATERAL (
	SELECT * FROM events WHERE day = d.day AND position + n - 1 > c.position AND position >= coalesce(
		(SELECT p.position FROM events p WHERE p.day = d.day AND p.position <= c.position ORDER BY p.position DESC LIMIT 1), 0)
	ORDER BY position LIMIT $2) e
CROSS JOIN LATERAL json_array_elements(CASE json_typeof(e.payload) WHEN 'array' THEN e.payload ELSE '[]' END)
	WITH ORDINALITY f (object, i)
WHERE d.first > 0 AND d.last > c.position AND e.position + f.i - 1 > c.position
ORDER BY e.position, f.i LIMIT $2`

// SelectQuery reads the next facts of a group, and locks its checkpoint.
func (feedSchema) SelectQuery(p wsql.SelectQueryParams) (wsql.Query, error) {
	next, err := p.OffsetsAdapter.NextOffsetQuery(wsql.NextOffsetQueryParams{Topic: p.Topic, ConsumerGroup: p.ConsumerGroup})
	if err != nil {
		return wsql.Query{}, err
	}
	return wsql.Query{
		Query: `WITH checkpoint AS MATERIALIZED (` + next.Query + `)` + selectFeed,
		Args:  append(next.Args, feedBatch),
	}, nil
}

// UnmarshalMessage makes one message of a page, which goes beside it.
func (feedSchema) UnmarshalMessage(p wsql.UnmarshalMessageParams) (wsql.Row, error) {
	rows, ok := p.Row.(*feedRows)
	if !ok {
		return wsql.Row{}, errors.New("the feed reads on a connection of its own")
	}
	rows.conn.hold(rows.page)
	return wsql.Row{Offset: int64(rows.page[len(rows.page)-1].at), Msg: message.NewMessage("page", nil)}, nil
}

// readFact makes a message of a fact. checkpoint is that of the group.
func readFact(row wsql.Scanner) (f feedFact, checkpoint events.Position, err error) {
	var position, version int64
	var at time.Time
	var stream, types, node, request, key, upstream, object []byte
	if err := row.Scan(&position, &stream, &version, &types, &at, &node, &request, &key, &upstream, &object, &checkpoint); err != nil {
		return f, 0, err
	}
	payload := append(append(append(make([]byte, 0, len(object)+2), '['), object...), ']')
	list, err := events.Messages(&events.Committed{Position: events.Position(position), Row: events.Row{
		Stream: plain(stream), Version: version, At: at, Node: plain(node), Types: plain(types),
		Request: plain(request), Key: plain(key), Upstream: plain(upstream), Payload: payload,
	}})
	f = feedFact{at: events.Position(position), fault: err}
	if err == nil {
		f.m = list[0]
	}
	return f, checkpoint, nil
}

// feedOffsets keeps the checkpoints of groups.
type feedOffsets struct {
	from events.Position
	conn *feedConn
}

// SchemaInitializingQueries is empty: the migrations do it.
func (feedOffsets) SchemaInitializingQueries(wsql.OffsetsSchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil
}

// BeforeSubscribingQueries give a new group its place.
func (o feedOffsets) BeforeSubscribingQueries(p wsql.BeforeSubscribingQueriesParams) ([]wsql.Query, error) {
	const begin = `INSERT INTO feed_checkpoints (name, position, at) SELECT $1, CASE WHEN $2::bigint >= 0 THEN $2::bigint ELSE
		coalesce((SELECT first + n - 1 FROM commits ORDER BY first DESC LIMIT 1), 0) END, now() ON CONFLICT (name) DO NOTHING`
	return []wsql.Query{{Query: begin, Args: []any{text(p.ConsumerGroup), int64(o.from)}}}, nil
}

// NextOffsetQuery locks the checkpoint, so that one process at a time works for a group.
func (feedOffsets) NextOffsetQuery(p wsql.NextOffsetQueryParams) (wsql.Query, error) {
	return wsql.Query{Query: `SELECT position FROM feed_checkpoints WHERE name = $1 FOR UPDATE`, Args: []any{text(p.ConsumerGroup)}}, nil
}

// ConsumedMessageQuery is empty.
func (feedOffsets) ConsumedMessageQuery(wsql.ConsumedMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{}, nil
}

// AckMessageQuery moves the checkpoint behind the last message that was acknowledged.
func (o feedOffsets) AckMessageQuery(p wsql.AckMessageQueryParams) (wsql.Query, error) {
	return wsql.Query{Query: saveCheckpoint, Args: []any{text(p.ConsumerGroup), int64(o.conn.come())}}, nil
}
