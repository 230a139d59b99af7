package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/penstock/penstock/events"
)

// known is what was looked up for a group under the append lock.
type known struct {
	complete bool // everything that the group may ask for; else only the ends of streams that are certainly not new
	tails    map[string]tail
	rows     map[place]stored
	secrets  map[secretPlace]*events.Secret
}

// place is a row's place in its stream.
type place struct {
	stream  string
	version int64
}

// stored is what is found at a place.
type stored struct {
	position events.Position
	hash     [32]byte
}

type secretPlace struct {
	id      string
	version int64
}

// The table is filled in: a partition is asked by its own name. q.i is the place in the array, from 1.
const (
	selectTails = `SELECT q.i, e.version + e.n, EXISTS (SELECT FROM %[1]s t WHERE t.day = %[2]d AND t.stream = q.stream AND t.terminal)
		FROM unnest($1::text[]) WITH ORDINALITY AS q (stream, i) CROSS JOIN LATERAL (
			SELECT version, n FROM %[1]s WHERE day = %[2]d AND stream = q.stream ORDER BY version DESC LIMIT 1) e`
	selectPlaces = `SELECT q.i, e.position, e.hash
		FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS q (stream, version, i) CROSS JOIN LATERAL (
			SELECT position, hash FROM %[1]s WHERE day = %[2]d AND stream = q.stream AND version = q.version) e`
	selectSecrets = `SELECT q.i, e.sealed, e.digest
		FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS q (id, version, i) JOIN secrets e USING (id, version)`
)

// ask queues the look-ups of the group; their answers are known when the batch is done.
func (g *group) ask(b *pgx.Batch, complete bool) {
	g.known = known{complete: complete}
	var streams map[day][]string // made when there is something to ask for, as rarely
	var places map[day][]place
	var seen map[string]bool
	if complete {
		places = map[day][]place{}
	}
	row := 0
	for i := range g.batch {
		for j := range g.batch[i].Rows {
			r, d := &g.batch[i].Rows[j], g.rowDays[row]
			row++
			if _, there := g.there[d]; !there {
				continue
			}
			if complete && r.Version != events.AnyVersion {
				places[d] = append(places[d], place{r.Stream, r.Version})
			}
			if _, cached := g.s.tails[r.Stream]; !complete && (cached || r.Version == 0) || seen[r.Stream] {
				continue
			}
			if seen == nil {
				seen, streams = map[string]bool{}, map[day][]string{}
			}
			seen[r.Stream] = true
			streams[d] = append(streams[d], r.Stream)
		}
	}
	for d, names := range streams {
		g.askTails(b, d, names)
	}
	for d, list := range places {
		g.askPlaces(b, d, list)
	}
	if complete {
		g.askSecrets(b)
	}
}

func (g *group) askTails(b *pgx.Batch, d day, names []string) {
	if g.known.tails == nil {
		g.known.tails = map[string]tail{}
	}
	b.Queue(fmt.Sprintf(selectTails, d.table(), d), texts(names)).Query(func(rows pgx.Rows) error {
		var i int
		var t tail
		_, err := pgx.ForEachRow(rows, []any{&i, &t.version, &t.ended}, func() error {
			g.known.tails[names[i-1]] = t
			return nil
		})
		return err
	})
}

func (g *group) askPlaces(b *pgx.Batch, d day, list []place) {
	if g.known.rows == nil {
		g.known.rows = map[place]stored{}
	}
	names, versions := make([]string, len(list)), make([]int64, len(list))
	for i, p := range list {
		names[i], versions[i] = text(p.stream), p.version
	}
	b.Queue(fmt.Sprintf(selectPlaces, d.table(), d), names, versions).Query(func(rows pgx.Rows) error {
		var i int
		var at events.Position
		var hash []byte
		_, err := pgx.ForEachRow(rows, []any{&i, &at, &hash}, func() error {
			found := stored{position: at}
			copy(found.hash[:], hash)
			g.known.rows[list[i-1]] = found
			return nil
		})
		return err
	})
}

func (g *group) askSecrets(b *pgx.Batch) {
	var ids []string
	var versions []int64
	var list []*events.Secret
	for i := range g.batch {
		for j := range g.batch[i].Secrets {
			v := &g.batch[i].Secrets[j]
			ids, versions, list = append(ids, text(v.ID)), append(versions, v.Version), append(list, v)
		}
	}
	if len(list) == 0 {
		return
	}
	g.known.secrets = map[secretPlace]*events.Secret{}
	b.Queue(selectSecrets, ids, versions).Query(func(rows pgx.Rows) error {
		var i int
		var sealed, digest []byte
		_, err := pgx.ForEachRow(rows, []any{&i, &sealed, &digest}, func() error {
			v := list[i-1]
			g.known.secrets[secretPlace{v.ID, v.Version}] = &events.Secret{
				ID: v.ID, Version: v.Version, Sealed: append([]byte{}, sealed...), Digest: append([]byte{}, digest...),
			}
			return nil
		})
		return err
	})
}

func texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}
