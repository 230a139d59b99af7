package sim

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// law watches a world. It looks at the board and at what the process does to the outside; it never wakes an actor, so
// that one which forgets to act is not helped.
type law struct {
	w      *world
	mu     sync.Mutex
	faults []string
	p      *process

	ups, accs, callers map[string]*owner
	breakers           map[breaker.Key]map[string]*watched // by upstream
	turns              map[string][]turn                   // of the breaker of a whole upstream
	blocks             map[string]time.Time                // by account and model
	probed             map[string]bool                     // those that probes follow
	blocksSoFar        int
	queues             map[string]lookAt              // the last look
	spells             map[pair]*spell                // of two keys that wait at one upstream
	totals             map[string]actors.TotalsStatus // at the end
	returned           map[string][]time.Duration     // upstreams that were removed and came back
}

// owner is what has slots.
type owner struct {
	ceiling int // above the slots after they were cut, until enough are freed
	calls   int // at upstreams now
	live    int // requests, of callers
	most    int
}

// watched is one breaker as its facts tell.
type watched struct {
	state breaker.State
	until time.Time
	// Of its outcomes, while it has been closed since the process began: nothing that is told of then is stale.
	fresh               bool
	successes, failures uint64
	running             int // failures since the last success
}

// turn is one change of a breaker, or the beginning of a process.
type turn struct {
	at   time.Duration
	boot bool
	to   breaker.State
}

func newLaw(w *world) *law {
	return &law{w: w, turns: map[string][]turn{}, returned: map[string][]time.Duration{}, blocks: map[string]time.Time{}, probed: map[string]bool{}}
}

func (l *law) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blame(format, args...)
}

// blame is fault for who has the lock.
func (l *law) blame(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf("at %s: ", l.w.since())+fmt.Sprintf(format, args...))
}

// turn ends or begins the turn of whoever acts: for the race detector, to which instants of one's own say nothing.
func (l *law) turn() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

func (l *law) must(what string, err error) {
	if err != nil {
		l.fault("%s: %v", what, err)
	}
}

func (l *law) booted(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.p = p
	l.ups, l.accs, l.callers = map[string]*owner{}, map[string]*owner{}, map[string]*owner{}
	l.breakers, l.queues = map[breaker.Key]map[string]*watched{}, map[string]lookAt{}
	l.spells, l.totals = map[pair]*spell{}, map[string]actors.TotalsStatus{}
	l.blocks, l.probed = map[string]time.Time{}, map[string]bool{}
	for _, u := range l.w.ups {
		l.turns[u.ID] = append(l.turns[u.ID], turn{l.w.since(), true, breaker.StateClosed})
	}
}

func (l *law) died(*process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.p = nil
}

// restored follows a stored fact of a breaker; states has those of whole upstreams.
func (l *law) restored(f events.Fact, states map[string]breaker.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(f)
	if id, key, ok := breaker.KeyOf(f); ok && key == (breaker.Key{}) {
		states[id] = l.breaker(id, key).state
		t := l.turns[id]
		t[len(t)-1].to = states[id]
	}
	if b, ok := f.(*account.Blocked); ok {
		l.blocks[b.Account+"/"+b.Model], l.probed[b.Account+"/"+b.Model] = b.Until, b.Probed
	}
	if b, ok := f.(*account.Unblocked); ok {
		delete(l.blocks, b.Account+"/"+b.Model)
	}
}

func (l *law) breaker(upstream string, key breaker.Key) *watched {
	if l.breakers[key] == nil {
		l.breakers[key] = map[string]*watched{}
	}
	b := l.breakers[key][upstream]
	if b == nil {
		b = &watched{fresh: key == (breaker.Key{})}
		l.breakers[key][upstream] = b
	}
	return b
}

// follow sets the state that a fact tells of.
func (l *law) follow(f events.Fact) {
	id, key, ok := breaker.KeyOf(f)
	if !ok {
		return
	}
	b := l.breaker(id, key)
	switch f := f.(type) {
	case *breaker.Opened:
		b.state, b.until = breaker.StateOpen, f.Until
	case *breaker.HalfOpened:
		b.state = breaker.StateHalfOpen
	case *breaker.Closed:
		b.state = breaker.StateClosed
	}
}

// recorded judges a fact of a breaker or a block when it happens. It runs inside the actor.
func (l *law) recorded(p *process, f events.Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch f := f.(type) {
	case *account.Blocked:
		key := f.Account + "/" + f.Model
		if was := l.blocks[key]; was.After(now) && f.Until.Before(was) || !f.Until.After(now) {
			l.blame("the block of %s was shortened from %s to %s", key, was.Sub(l.w.start), f.Until.Sub(l.w.start))
		}
		l.blocks[key], l.probed[key] = f.Until, f.Probed
		l.blocksSoFar++
	case *account.Unblocked:
		delete(l.blocks, f.Account+"/"+f.Model)
	}
	id, key, ok := breaker.KeyOf(f)
	if !ok {
		return
	}
	b, spec := l.breaker(id, key), l.spec(id)
	by, from := "", b.state
	if key == (breaker.Key{}) {
		l.count(p, spec)
	}
	switch f := f.(type) {
	case *breaker.Opened:
		by = f.By
		switch {
		case by == "failures" && (from != breaker.StateClosed || f.Failures < spec.Breaker.Failures):
			l.blame("breaker of %s opened by %d failures while %v", id, f.Failures, from)
		case by == "failures" && b.fresh && f.Failures != b.running:
			l.blame("breaker of %s opened by %d failures in a row, there were %d", id, f.Failures, b.running)
		case by == "probe" && from != breaker.StateHalfOpen, !f.Until.After(now):
			l.blame("breaker of %s opened by %s until %s while %v", id, by, f.Until.Sub(l.w.start), from)
		}
	case *breaker.HalfOpened:
		if from != breaker.StateOpen || now.Before(b.until) {
			l.blame("breaker of %s half-opened while %v until %s", id, from, b.until.Sub(l.w.start))
		}
	case *breaker.Closed:
		by = f.By
		if by == "probes" && from != breaker.StateHalfOpen || from == breaker.StateClosed {
			l.blame("breaker of %s closed by %s while %v", id, by, from)
		}
	}
	l.follow(f)
	b.fresh = false
	l.w.trace("breaker of %s %+v: %v by %s", id, key, b.state, by)
	if key == (breaker.Key{}) {
		l.turns[id] = append(l.turns[id], turn{l.w.since(), false, b.state})
	}
}

// count follows the outcomes that the actor of an upstream has heard.
func (l *law) count(p *process, u *catalog.Upstream) {
	f, ok := p.system.Board().Figures(u.ID)
	if !ok {
		return
	}
	b := l.breaker(u.ID, breaker.Key{})
	if u.Breaker.PerAccountModel() {
		b.fresh = false // what is of one account is told to another breaker
	}
	s, n := f.Successes-b.successes, f.Failures-b.failures
	b.successes, b.failures = f.Successes, f.Failures
	switch {
	case s > 0 && n > 0:
		b.fresh = false // who knows in which order
	case s > 0:
		b.running = 0
	default:
		b.running += int(n)
	}
}

func (l *law) spec(id string) *catalog.Upstream {
	for _, u := range l.w.ups {
		if u.ID == id {
			return u
		}
	}
	panic(id)
}

// forced: an operator sets a breaker.
func (l *law) forced(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breaker(id, breaker.Key{}).fresh = false
}

// obeyed: the command is in force when it returns.
func (l *law) obeyed(id, action string) {
	f, _ := l.p.system.Board().Figures(id)
	if want := map[string]breaker.State{"open": breaker.StateOpen, "close": breaker.StateClosed}[action]; f.Breaker != want {
		l.fault("breaker of %s is %v after %s", id, f.Breaker, action)
	}
}

// returns: these are removed, and come back with nothing known of them but their calls.
func (l *law) returns(all []catalog.Resource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range all {
		switch r := r.(type) {
		case *catalog.Upstream:
			for _, of := range l.breakers {
				delete(of, r.ID)
			}
			l.turns[r.ID] = append(l.turns[r.ID], turn{l.w.since(), false, breaker.StateClosed})
			l.returned[r.ID] = append(l.returned[r.ID], l.w.since())
			delete(l.queues, r.ID)
		case *catalog.Account:
			for key := range l.blocks {
				if strings.HasPrefix(key, r.ID+"/") {
					delete(l.blocks, key)
					delete(l.probed, key)
				}
			}
			for key, of := range l.breakers {
				if key.Account == r.ID {
					delete(of, r.Upstream)
				}
			}
			l.returned[r.Upstream] = append(l.returned[r.Upstream], l.w.since())
		}
	}
}

// configured: slots are about to change. Whoever has one keeps it.
func (l *law) configured() {
	l.mu.Lock()
	defer l.mu.Unlock()
	board := l.p.system.Board()
	for id, o := range l.ups {
		f, _ := board.Figures(id)
		o.ceiling = f.Held
	}
	for id, o := range l.accs {
		f, _ := board.AccountFigures(id)
		o.ceiling = f.Held
	}
	for _, o := range l.callers {
		o.ceiling = o.live
	}
}

func limit(slots *int) int {
	if slots == nil {
		return math.MaxInt
	}
	return *slots
}

func of(owners map[string]*owner, id string) *owner {
	if owners[id] == nil {
		owners[id] = &owner{}
	}
	return owners[id]
}

// within judges how many hold a slot. Who had one keeps it when slots are cut.
func (l *law) within(what, id string, o *owner, held, bound int, slots *int) {
	ceiling := max(o.ceiling, limit(slots))
	if held > ceiling {
		l.blame("%d hold slots of %s %s, which has %s", held, what, id, some(slots))
	}
	o.ceiling = min(o.ceiling, bound)
	o.most = max(o.most, held)
}

// rest judges a moment at which nobody is at work.
func (l *law) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.p == nil || l.p.system == nil || l.w.node != l.p {
		return
	}
	board := l.p.system.Board()
	for _, a := range l.w.accs {
		f, _ := board.AccountFigures(a.ID)
		o := of(l.accs, a.ID)
		l.within("account", a.ID, o, f.Held, f.Held, a.Slots)
		if o.calls > f.Held {
			l.blame("%d calls with %s, %d slots held for them", o.calls, a.ID, f.Held)
		}
	}
	for _, u := range l.w.ups {
		f, _ := board.Figures(u.ID)
		o := of(l.ups, u.ID)
		l.within("upstream", u.ID, o, f.Held, f.Held, u.Slots)
		if o.calls > f.Held {
			l.blame("%d calls to %s, %d slots held for them", o.calls, u.ID, f.Held)
		}
		l.count(l.p, u)
		if b := l.breaker(u.ID, breaker.Key{}); b.fresh && b.state == breaker.StateClosed && b.running >= u.Breaker.Failures {
			l.blame("breaker of %s is closed after %d failures in a row", u.ID, b.running)
		}
		if f.Waiting > 0 && u.Active && f.Breaker == breaker.StateClosed && f.Held < limit(u.Slots) && l.ready(board, u.ID) && l.whole(u.ID) {
			l.blame("%d wait for %s, which has %s slots and holds %d", f.Waiting, u.ID, some(u.Slots), f.Held)
		}
	}
	for _, k := range l.w.keys {
		o := of(l.callers, "key/"+k.ID)
		l.within("key", k.ID, o, o.calls, o.live, k.Slots)
	}
	for _, u := range l.w.snap.Load().Users() {
		o := of(l.callers, "user/"+u.ID)
		l.within("user", u.ID, o, o.calls, o.live, u.Slots)
	}
}

// whole says that no breaker of a single account and model is in the way.
func (l *law) whole(upstream string) bool {
	for key, of := range l.breakers {
		if b := of[upstream]; b != nil && key != (breaker.Key{}) && b.state != breaker.StateClosed {
			return false
		}
	}
	return true
}

// blocked says that a block of an account, or of a model at it, is in the way, or may be: it is followed by single probes.
func (l *law) blocked(account string) bool {
	for key, until := range l.blocks {
		if strings.HasPrefix(key, account+"/") && (until.After(time.Now()) || l.probed[key]) {
			return true
		}
	}
	return false
}

// ready says that each account of an upstream could serve.
func (l *law) ready(board *actors.Board, upstream string) bool {
	for _, a := range l.w.accs {
		if a.Upstream != upstream {
			continue
		}
		f, _ := board.AccountFigures(a.ID)
		if !a.Active || l.blocked(a.ID) || f.Held >= limit(a.Slots) {
			return false
		}
	}
	return true
}

// owners are all whose slots a call takes.
func (l *law) owners(k *call) []*owner {
	all := []*owner{of(l.ups, k.upstream), of(l.accs, k.account), of(l.callers, "key/"+k.c.call.Key.ID)}
	if u := k.c.call.Key.User; u != "" {
		all = append(all, of(l.callers, "user/"+u))
	}
	return all
}

// sent judges a call that reaches an upstream.
func (l *law) sent(k *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := k.c
	l.w.trace("%s sends %d to %s as %s", c.id, k.n, k.upstream, k.account)
	if stored, ended := l.w.store.has(c.id); l.w.level == actors.AtDispatch && (stored < k.n || ended) {
		l.blame("%s sent %d to %s; %d are stored, ended %v", c.id, k.n, k.upstream, stored, ended)
	}
	for _, o := range l.owners(k) {
		o.calls++
	}
}

func (l *law) left(k *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.p != k.c.node {
		return
	}
	for _, o := range l.owners(k) {
		o.calls--
	}
}

// serves counts the requests of a caller.
func (l *law) serves(c *client, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.p != c.node {
		return
	}
	of(l.callers, "key/"+c.call.Key.ID).live += by
	if u := c.call.Key.User; u != "" {
		of(l.callers, "user/"+u).live += by
	}
}

// firstByte: nothing of an answer leaves before the dispatch is stored, or the store is away.
func (l *law) firstByte(c *client) {
	stored, _ := l.w.store.has(c.id)
	if l.w.level == actors.Overlapped && stored < len(c.calls) && c.node.journal.Fault() == nil {
		l.fault("%s gets an answer; %d of %d attempts are stored", c.id, stored, len(c.calls))
	}
}

// answered judges what a client got.
func (l *law) answered(c *client) {
	if c.answer.Status < 200 {
		l.fault("%s got status %d", c.id, c.answer.Status)
	}
	r, ok := c.refused()
	if _, settled := l.w.store.has(c.id); l.w.level == actors.AtSettlement && len(c.calls) > 0 && !ok && c.err == nil && !settled {
		l.fault("%s has an answer to its end; its settlement is not stored", c.id)
	}
	if c.opened && !c.left && c.err == nil && (ok || c.got.Len() == 0 || !bytes.HasSuffix(c.got.Bytes(), []byte("\n\n"))) {
		l.fault("%s got a head while it waited, and behind it no stream: %s", c.id, c.got.Bytes())
	}
	if !ok {
		return
	}
	if r.Code == "" || *r.Sent != (len(c.calls) > 0) {
		l.fault("%s was refused with code %q, did_send_upstream %v after %d calls", c.id, r.Code, *r.Sent, len(c.calls))
	}
}
