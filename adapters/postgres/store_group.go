package postgres

import (
	"fmt"
	"iter"

	"github.com/penstock/penstock/events"
)

// group is one commit under way. It decides in memory, under the append lock, what becomes of each append.
type group struct {
	s        *Store
	batch    []events.Append
	lowWater events.Position

	known known
	there map[day]events.Position // partitions; a row that goes on in another one belongs to a day that was removed
	draft
	results  []events.Result
	numbers  [][]int64 // versions of an append's rows; nil where nothing was numbered
	recalled []*past
}

// draft is what the group will have stored.
type draft struct {
	next             events.Position
	rows             []placed
	secrets          []*events.Secret
	tails            map[string]tail // of the streams that it appends to
	earliest, latest int64
}

// placed is a row with its place. The row is the caller's and keeps the version it came with.
type placed struct {
	*events.Row
	version  int64
	position events.Position
	day      day
	hash     [32]byte
	payload  []byte // as it is stored
}

func (p *placed) last() events.Position { return p.position + events.Position(len(p.Facts)) - 1 }

// tail is the end of a stream.
type tail struct {
	version int64
	ended   bool // by a terminal row
}

// days are the partitions of the batch: those in which it may begin a stream, and all.
func (g *group) days() (begun, all []day) {
	seen, beginning := map[day]bool{}, map[day]bool{}
	for i := range g.batch {
		for j := range g.batch[i].Rows {
			r := &g.batch[i].Rows[j]
			d := dayOf(r.Stream)
			if !seen[d] {
				seen[d] = true
				all = append(all, d)
			}
			if r.Version <= 0 && !beginning[d] {
				beginning[d] = true
				begun = append(begun, d)
			}
		}
	}
	return begun, all
}

// decide says for each append what becomes of it. false: something is not as expected, and what is known does not
// tell why.
func (g *group) decide() bool {
	g.draft = draft{next: g.s.chain.head + 1, tails: map[string]tail{}, earliest: 1<<63 - 1, latest: g.s.chain.latest}
	g.results, g.numbers = make([]events.Result, len(g.batch)), make([][]int64, len(g.batch))
	g.recalled = nil
	for i := range g.batch {
		if !g.append(i) {
			return false
		}
	}
	return true
}

func (g *group) append(i int) bool {
	a := &g.batch[i]
	if p := g.recall(a); p != nil {
		g.results[i], g.numbers[i] = events.Result{First: p.rows[0].position}, p.versions()
		return true
	}
	before, tails := g.draft, map[string]tail{}
	conflict := g.add(i, tails)
	switch {
	case conflict == nil:
		g.results[i] = events.Result{First: before.next}
		return true
	case !g.known.complete:
		return false
	}
	g.draft, g.numbers[i] = before, nil
	for stream, was := range tails {
		g.tails[stream] = was
	}
	if first := g.repeated(a); first != 0 {
		g.results[i] = events.Result{First: first}
	} else {
		g.results[i] = events.Result{Err: conflict}
	}
	return true
}

// indexedMax bounds what is in an index: PostgreSQL takes 2,700 bytes. Such a row is refused, for it would hold up all that
// come behind it.
const indexedMax = 2000

// add puts an append into the draft. A conflict leaves behind what was put so far; before gets the tails as they were.
func (g *group) add(i int, before map[string]tail) (conflict error) {
	a := &g.batch[i]
	for j := range a.Rows {
		r := &a.Rows[j]
		t := g.tail(r.Stream)
		if _, seen := before[r.Stream]; !seen {
			before[r.Stream] = t
		}
		switch _, there := g.there[dayOf(r.Stream)]; {
		case max(len(text(r.Stream)), len(text(r.Request))) > indexedMax:
			return fmt.Errorf("%w: a stream or request of more than %d bytes", events.ErrConflict, indexedMax)
		case !there:
			return fmt.Errorf("%w: %s: the events of its day were removed", events.ErrConflict, r.Stream)
		case r.Version == events.AnyVersion:
			if g.numbers[i] == nil {
				g.numbers[i] = make([]int64, len(a.Rows))
			}
		case r.Version != t.version:
			return conflictOf(r, t.version)
		}
		if r.Terminal && t.ended {
			return fmt.Errorf("%w: %s has ended", events.ErrConflict, r.Stream)
		}
		if g.numbers[i] != nil {
			g.numbers[i][j] = t.version
		}
		g.place(r, t.version)
		g.tails[r.Stream] = tail{t.version + int64(len(r.Facts)), t.ended || r.Terminal}
	}
	for j := range a.Secrets {
		v := &a.Secrets[j]
		if g.secret(v) != nil {
			return fmt.Errorf("%w: secret %s has version %d already", events.ErrConflict, v.ID, v.Version)
		}
		g.secrets = append(g.secrets, v)
	}
	return nil
}

// place gives a row the next position.
func (g *group) place(r *events.Row, version int64) {
	at := r.At.UnixMicro()
	g.earliest, g.latest = min(g.earliest, at), max(g.latest, at)
	p := placed{r, version, g.next, dayOf(r.Stream), g.hash(r, version, g.next), r.Payload}
	if g.known.complete || r.Payload[0] != '[' {
		p.payload = odd(r.Payload)
	}
	g.rows = append(g.rows, p)
	g.next += events.Position(len(r.Facts))
}

func (g *group) hash(r *events.Row, version int64, at events.Position) [32]byte {
	numbered := *r
	numbered.Version = version
	return g.s.hasher.Row(at, &numbered)
}

// tail is where a stream ends: in the draft, as it was looked up, as remembered, or at its beginning.
func (g *group) tail(stream string) tail {
	if t, ok := g.tails[stream]; ok {
		return t
	}
	if t, ok := g.known.tails[stream]; ok || g.known.complete {
		return t
	}
	return tail{version: g.s.tails[stream]}
}

// secret is the stored version of a secret that v would be, nil when there is none.
func (g *group) secret(v *events.Secret) *events.Secret {
	for _, was := range g.secrets {
		if was.ID == v.ID && was.Version == v.Version {
			return was
		}
	}
	return g.known.secrets[secretPlace{v.ID, v.Version}]
}

// repeated finds an append that was stored before with the same content in all its rows: its caller could not know
// whether the first try had succeeded. 0: it is another one. Rows that the store was to number are not found here.
func (g *group) repeated(a *events.Append) (first events.Position) {
	var next events.Position
	for i := range a.Rows {
		at := g.same(&a.Rows[i])
		if at == 0 || i > 0 && at != next {
			return 0
		}
		if i == 0 {
			first = at
		}
		next = at + events.Position(len(a.Rows[i].Facts))
	}
	for i := range a.Secrets {
		if was := g.secret(&a.Secrets[i]); was == nil || !sameSecret(was, &a.Secrets[i]) {
			return 0
		}
	}
	return first
}

// same is the position of the row that is stored at r's place in its stream, 0 when it says anything else than r.
func (g *group) same(r *events.Row) events.Position {
	found, ok := g.known.rows[place{r.Stream, r.Version}]
	for i := 0; i < len(g.rows) && !ok; i++ {
		if p := &g.rows[i]; p.Stream == r.Stream && p.version == r.Version {
			found, ok = stored{p.position, p.hash}, true
		}
	}
	if !ok || g.hash(r, r.Version, found.position) != found.hash {
		return 0
	}
	return found.position
}

// partitions are the rows of each day, days in the order in which they come first.
func (g *group) partitions() iter.Seq2[day, []*placed] {
	var order []day
	rows := map[day][]*placed{}
	for i := range g.rows {
		p := &g.rows[i]
		if rows[p.day] == nil {
			order = append(order, p.day)
		}
		rows[p.day] = append(rows[p.day], p)
	}
	return func(yield func(day, []*placed) bool) {
		for _, d := range order {
			if !yield(d, rows[d]) {
				return
			}
		}
	}
}
