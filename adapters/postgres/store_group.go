package postgres

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/events"
)

// group is one commit under way. It decides in memory, under the append lock, what becomes of each append.
type group struct {
	s        *Store
	batch    []events.Append
	lowWater events.Position

	days    []day // partitions of the batch
	rowDays []day // that of each row, in the order of the batch

	known known
	there map[day]events.Position // partitions; a row that goes on in another one belongs to a day that was removed
	draft
	results  []events.Result
	numbers  [][]int64 // versions of an append's rows; nil where nothing was numbered
	recalled []*past
	former   []formerTail // of the streams that the append under way has moved
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

// formerTail is the end of a stream before a row was added.
type formerTail struct {
	stream string
	tail
}

// spare is memory that one commit leaves to the next. It is the writer's: nothing of it is handed out, and what is kept
// beyond the commit (past, the tails of the store) is copied out of it.
type spare struct {
	rows   []placed
	days   []day
	hashes [][32]byte
	tails  map[string]tail
}

// spareRows is the size of a commit that leaves its memory: it is cleared each time.
const spareRows = 1 << 9

// leave gives back what the group has used, without what it refers to.
func (g *group) leave() {
	m := &g.s.spare
	clear(g.rows[:cap(g.rows)])
	clear(m.tails)
	if m.rows = g.rows[:0]; cap(m.rows) > spareRows {
		*m = spare{tails: map[string]tail{}}
	}
	g.draft = draft{}
}

// readDays finds the partitions of the batch, and says in which it may begin a stream.
func (g *group) readDays() (begun []day) {
	g.days, g.rowDays = nil, g.s.spare.days[:0]
	for i := range g.batch {
		for j := range g.batch[i].Rows {
			r := &g.batch[i].Rows[j]
			d := dayOf(r.Stream)
			g.rowDays = append(g.rowDays, d)
			if !slices.Contains(g.days, d) {
				g.days = append(g.days, d)
			}
			if r.Version <= 0 && !slices.Contains(begun, d) {
				begun = append(begun, d)
			}
		}
	}
	g.s.spare.days = g.rowDays
	return begun
}

// decide says for each append what becomes of it. false: something is not as expected, and what is known does not
// tell why.
func (g *group) decide() bool {
	clear(g.s.spare.tails)
	g.draft = draft{
		next: g.s.chain.head + 1, rows: g.s.spare.rows[:0], tails: g.s.spare.tails,
		earliest: 1<<63 - 1, latest: g.s.chain.latest,
	}
	g.results, g.numbers = make([]events.Result, len(g.batch)), make([][]int64, len(g.batch))
	g.recalled = nil
	days := g.rowDays
	for i := range g.batch {
		n := len(g.batch[i].Rows)
		if !g.append(i, days[:n]) {
			return false
		}
		days = days[n:]
	}
	return true
}

// append decides about one append, whose rows are of these days.
func (g *group) append(i int, days []day) bool {
	a := &g.batch[i]
	if p := g.recall(a); p != nil {
		g.results[i], g.numbers[i] = events.Result{First: p.rows[0].position}, p.versions()
		return true
	}
	before := g.draft
	g.former = g.former[:0]
	conflict := g.add(i, days)
	switch {
	case conflict == nil:
		g.results[i] = events.Result{First: before.next}
		return true
	case !g.known.complete:
		return false
	}
	g.draft, g.numbers[i] = before, nil
	for _, t := range slices.Backward(g.former) {
		g.tails[t.stream] = t.tail
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

func tooLong(name string) bool {
	return len(name) >= indexedMax/2 && len(text(name)) > indexedMax // stored, it is at most twice as long, and two bytes
}

// add puts an append into the draft. A conflict leaves behind what was put so far; former has the tails as they were.
func (g *group) add(i int, days []day) (conflict error) {
	a := &g.batch[i]
	for j := range a.Rows {
		r := &a.Rows[j]
		t := g.tail(r.Stream)
		g.former = append(g.former, formerTail{r.Stream, t})
		switch _, there := g.there[days[j]]; {
		case tooLong(r.Stream) || tooLong(r.Request):
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
		g.place(r, t.version, days[j])
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
func (g *group) place(r *events.Row, version int64, d day) {
	at := r.At.UnixMicro()
	g.earliest, g.latest = min(g.earliest, at), max(g.latest, at)
	g.rows = append(g.rows, placed{
		Row: r, version: version, position: g.next, day: d, hash: g.hash(r, version, g.next), payload: r.Payload,
	})
	if g.known.complete || r.Payload[0] != '[' {
		g.rows[len(g.rows)-1].payload = odd(r.Payload)
	}
	g.next += events.Position(len(r.Facts))
}

func (g *group) hash(r *events.Row, version int64, at events.Position) [32]byte {
	if r.Version == version {
		return g.s.hasher.Row(at, r)
	}
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
