package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// Whoever acts in a world does so at instants of its own: nanoseconds since the start, modulo instants, are the number
// of the driver, of the store, or of one client. So no two of them ever act at once, and what follows from one act is
// over before the next begins.
const (
	instants   = 4096
	driverSlot = 0
	storeSlot  = 1
	clientSlot = 2 // of the first client; the others follow
)

// world is all that one seed makes: a store that survives crashes, upstreams, clients, an operator, and the process
// that is tested.
type world struct {
	seed  uint64
	start time.Time
	dice  *rand.Rand // the driver's
	store *disk
	state *catalog.State
	snap  atomic.Pointer[catalog.Snapshot]
	ups   []*catalog.Upstream
	accs  []*catalog.Account
	keys  []*catalog.Key
	nodes int
	node  *process
	level actors.Durability
	dies  bool // processes crash
	polls bool // the operator looks at every upstream at every step; else nothing but work wakes an actor

	quiet bool // nobody goes away, nothing is changed, and nothing dies: queues are judged to the last one
	crowd bool // long queues, of which the order is judged (crowd_test.go)

	clients []*client
	held    []actors.Lease // by the driver
	taken   int
	law     *law
	steps   int

	mu    sync.Mutex
	lines []string // of the trace
}

// run plays a seed to its end.
func run(seed uint64) *world {
	w := &world{seed: seed, start: time.Now(), dice: rand.New(rand.NewPCG(seed, 0)), state: catalog.NewState()}
	w.store = newDisk(w)
	w.law = newLaw(w)
	furnish, gap, step := w.furnish, w.gap, w.step
	if w.crowd = seed%crowdEvery == 0; w.crowd {
		furnish, gap, step = w.furnishCrowd, w.crowdGap, w.crowdStep
	}
	furnish()
	w.boot()
	for range 30 + w.dice.IntN(40) {
		w.sleep(gap(), driverSlot)
		step()
		synctest.Wait()
		w.law.rest()
		if w.polls {
			w.law.look()
		}
		if w.steps++; len(w.law.faults) > 0 {
			break
		}
	}
	w.end()
	return w
}

// sleep returns at an instant of the slot, no earlier than asked.
func (w *world) sleep(d time.Duration, slot int64) {
	w.law.turn()
	<-time.After(w.until(d, slot))
	w.law.turn()
}

// until is how long it is to such an instant; always more than nothing.
func (w *world) until(d time.Duration, slot int64) time.Duration {
	now := int64(time.Since(w.start))
	at := now + max(int64(d), 1)
	return time.Duration(at + ((slot-at)%instants+instants)%instants - now)
}

// since is the virtual time of the trace.
func (w *world) since() time.Duration { return time.Since(w.start) }

func (w *world) trace(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%d ", w.since())+fmt.Sprintf(format, args...))
}

// gap is the time to the driver's next step: bursts, and pauses in which blocks and breakers run out.
func (w *world) gap() time.Duration {
	switch w.dice.IntN(10) {
	case 0:
		return time.Duration(w.dice.Int64N(int64(4 * time.Second)))
	case 1, 2, 3:
		return time.Duration(w.dice.Int64N(int64(2 * time.Millisecond)))
	}
	return time.Duration(w.dice.Int64N(int64(300 * time.Millisecond)))
}

// furnish draws the catalogue of the seed.
func (w *world) furnish() {
	d := w.dice
	w.level = []actors.Durability{actors.AtDispatch, actors.AtSettlement, actors.Overlapped, actors.Relaxed}[d.IntN(4)]
	w.polls, w.dies, w.quiet = d.IntN(3) == 0, d.IntN(2) == 0, d.IntN(4) == 0
	ranks := []string{"", "", "low", "high"}
	if w.polls && d.IntN(2) == 0 {
		ranks = []string{"high"} // so that nobody ages, and turns are all that counts
	}
	w.apply(&catalog.Price{Model: "*", Input: "1", Output: "2"},
		&catalog.Setting{Name: "failover.max_attempts", Value: []string{"0", "2", "3", "6"}[d.IntN(4)]},
		&catalog.Setting{Name: "on_exhausted", Value: []string{"unified", "last_answer", "bad_gateway"}[d.IntN(3)]},
		&catalog.Setting{Name: "abandoned_billing", Value: []string{"none", "input", "last_progress"}[d.IntN(3)]},
		&catalog.Setting{Name: "affinity.mode", Value: []string{"bound_wins", "leading_run", "off"}[d.IntN(3)]},
		&catalog.Setting{Name: "block.default", Value: []string{"1s", "1s", "30s"}[d.IntN(3)]},
		&catalog.Setting{Name: "block.max", Value: []string{"1s", "2s", "5m"}[d.IntN(3)]},
		&catalog.Setting{Name: "keepalive.after", Value: []string{"0s", "1s", "1s", "2s"}[d.IntN(4)]},
		&catalog.Setting{Name: "keepalive.every", Value: "1s"})
	for i := range 2 + d.IntN(4) {
		u := &catalog.Upstream{
			ID: string(rune('a' + i)), Active: true, Weight: 1 + d.IntN(3), Priority: d.IntN(2), Capabilities: capabilities,
			BaseURL: fmt.Sprintf("http://%c.test", 'a'+i), Slots: w.slots(), OnDisconnect: []string{"cancel", "cancel", "drain", "drain_up_to:300ms"}[d.IntN(4)],
			Breaker: catalog.Breaker{
				Failures: 1 + d.IntN(4), Successes: 1 + d.IntN(3),
				OpenFor: span(d, 50*time.Millisecond, 2*time.Second), ProbeEvery: span(d, 20*time.Millisecond, time.Second),
			},
		}
		if d.IntN(4) == 0 && !w.polls {
			u.Breaker.Per = catalog.BreakerPerAccountModel
		}
		if d.IntN(3) > 0 {
			u.Queue = &catalog.Queue{Enabled: true, Timeout: span(d, 20*time.Millisecond, 4*time.Second), Discipline: []string{"fifo", "fair"}[d.IntN(2)]}
			if d.IntN(3) == 0 {
				u.Queue.MaxLength = count(1 + d.IntN(4))
			}
			if d.IntN(3) == 0 {
				u.Queue.AgeEvery = span(d, 10*time.Millisecond, time.Second)
			}
		}
		w.ups = append(w.ups, u)
		w.apply(u)
		accounts := 1 + d.IntN(3)
		if w.polls {
			accounts = 1 // so that everybody who waits can be served, and each queue is judged
		}
		for k := range accounts {
			a := &catalog.Account{ID: fmt.Sprint(u.ID, k+1), Upstream: u.ID, SecretVersion: 1, Active: true, Slots: w.slots()}
			a.Masked = catalog.Mask("secret-of-" + a.ID)
			w.accs = append(w.accs, a)
			w.apply(a)
		}
	}
	users := d.IntN(3)
	for i := range users {
		w.apply(&catalog.User{ID: fmt.Sprint("u", i), Name: "user", Slots: w.slots()})
	}
	for i := range 1 + d.IntN(4) {
		k := &catalog.Key{ID: fmt.Sprint("k", i), Access: "unrestricted", Hash: fmt.Sprintf("sha256:%064x", i+1), Slots: w.slots()}
		k.Priority, k.Weight = ranks[d.IntN(len(ranks))], count(1+d.IntN(3))
		if users > 0 && d.IntN(2) == 0 {
			k.User = fmt.Sprint("u", d.IntN(users))
		}
		w.keys = append(w.keys, k)
		w.apply(k)
	}
}

// slots are few, or none set.
func (w *world) slots() *int {
	if w.dice.IntN(4) == 0 {
		return nil
	}
	return count(1 + w.dice.IntN(5))
}

func count(n int) *int { return &n }

func span(d *rand.Rand, from, to time.Duration) catalog.Duration {
	return catalog.Duration(from + time.Duration(d.Int64N(int64(to-from))))
}

// apply changes the catalogue, as the operator's write would.
func (w *world) apply(resources ...catalog.Resource) {
	if w.node != nil {
		w.law.configured()
	}
	for _, r := range resources {
		w.decide(catalog.Apply{Resource: r})
	}
	w.enforce()
}

func (w *world) decide(c catalog.Command) {
	facts, err := catalog.Decide(w.state, c)
	if err != nil {
		panic(err) // the world is wrong
	}
	for _, f := range facts {
		w.state.Evolve(f, w.state.Revision+1)
	}
}

func (w *world) enforce() {
	snap := catalog.Build(w.state, w.snap.Load())
	if len(snap.Skipped) > 0 {
		panic(fmt.Sprint(snap.Skipped))
	}
	w.snap.Store(snap)
	if w.node != nil {
		w.node.system.Reconfigure(w.layout())
	}
}

func (w *world) layout() (l actors.Layout) {
	s := w.snap.Load()
	for _, u := range s.Upstreams() {
		l.Upstreams = append(l.Upstreams, *u.Upstream)
		for _, a := range u.Accounts {
			l.Accounts = append(l.Accounts, *a.Account)
		}
	}
	l.Users, l.Keys = s.Users(), s.Keys()
	return l
}

// step is one thing that happens to the process.
func (w *world) step() {
	d := w.dice
	switch n := d.IntN(100); {
	case n < 50:
		w.arrive(3)
	case n < 53:
		w.take()
	case n < 56:
		w.letGo(1 + d.IntN(6))
	case w.quiet && n < 98:
		w.arrive(3)
	case n < 64:
		w.abort()
	case n < 66:
		w.recall()
	case n < 73:
		w.operate()
	case n < 84:
		w.reconfigure()
	case n < 90:
		w.store.trouble(d)
	case n < 95:
		w.store.calm()
	case n < 97 && w.dies:
		w.crash()
	case n < 98:
		w.echo()
	case n >= 98:
		w.sleep(time.Duration(d.Int64N(int64(20*time.Second))), driverSlot)
	}
}

// arrive brings some clients, at most so many.
func (w *world) arrive(most int) {
	for range 1 + w.dice.IntN(most) {
		c := newClient(w, len(w.clients))
		w.clients = append(w.clients, c)
		w.trace("%s arrives with %s", c.id, c.call.Key.ID)
		w.node.serve(c)
		synctest.Wait()
	}
}

// abort lets a client go, whatever its request is doing.
func (w *world) abort() {
	var live []*client
	for _, c := range w.clients {
		if c.node == w.node && !c.over.Load() {
			live = append(live, c)
		}
	}
	if len(live) == 0 {
		return
	}
	c := live[w.dice.IntN(len(live))]
	w.trace("%s goes away", c.id)
	c.left = true
	c.call.Gone.Fire()
}

func (w *world) reconfigure() {
	d := w.dice
	switch d.IntN(9) {
	case 8:
		w.again()
	case 0, 1:
		i := d.IntN(len(w.ups))
		u := *w.ups[i]
		u.Slots = w.slots()
		w.put(i, &u)
	case 2:
		i := d.IntN(len(w.accs))
		a := *w.accs[i]
		a.Slots, a.Active = w.slots(), d.IntN(4) > 0
		w.accs[i] = &a
		w.trace("configured: account %s, %s slots, active %v", a.ID, some(a.Slots), a.Active)
		w.apply(&a)
	case 3:
		i := d.IntN(len(w.ups))
		u := *w.ups[i]
		u.Active = d.IntN(3) > 0
		w.put(i, &u)
	case 4:
		i := d.IntN(len(w.keys))
		k := *w.keys[i]
		k.Slots, k.Revoked = w.slots(), d.IntN(4) == 0
		w.keys[i] = &k
		w.trace("configured: key %s, %s slots, revoked %v", k.ID, some(k.Slots), k.Revoked)
		w.apply(&k)
	default:
		w.resize(w.slots)
	}
}

// resize gives all upstreams other slots at once, as by a file.
func (w *world) resize(slots func() *int) {
	var all []catalog.Resource
	for i := range w.ups {
		u := *w.ups[i]
		u.Slots = slots()
		w.ups[i], all = &u, append(all, &u)
		w.trace("configured: upstream %s, %s slots", u.ID, some(u.Slots))
	}
	w.apply(all...)
}

func (w *world) put(i int, u *catalog.Upstream) {
	w.ups[i] = u
	w.trace("configured: upstream %s, %s slots, active %v", u.ID, some(u.Slots), u.Active)
	w.apply(u)
}

func some(n *int) string {
	if n == nil {
		return "unlimited"
	}
	return fmt.Sprint(*n)
}

// crash ends the process without a word, and starts the next one on what the store has. That one may die as well.
func (w *world) crash() {
	w.trace("crash")
	w.held = nil
	w.node.die()
	w.store.calm()
	w.boot()
}

// end lets everybody finish, stops the process in order, and judges what is left.
func (w *world) end() {
	w.store.calm()
	w.letGo(len(w.held))
	for i, u := range w.ups {
		if w.quiet {
			break
		}
		c := *u
		c.Active = true
		w.put(i, &c)
	}
	for n := 0; w.node.live.Load() > 0 && len(w.law.faults) == 0; n++ {
		if n == 600 {
			w.law.fault("requests never end: %s", strings.Join(w.unfinished(), " "))
			break
		}
		w.sleep(time.Second, driverSlot)
		w.law.rest()
	}
	w.sleep(5*time.Second, driverSlot) // what follows of its own accord, such as a retry of the journal
	if len(w.law.faults) == 0 {
		w.law.empty()
		w.node.stop()
		w.law.judge()
	} else {
		w.node.die()
	}
	w.store.tell()
	w.law.tell()
}

func (w *world) unfinished() (ids []string) {
	for _, c := range w.clients {
		if c.node == w.node && !c.over.Load() {
			ids = append(ids, c.id)
		}
	}
	return ids
}

var background = context.Background()
