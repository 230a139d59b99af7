package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	mutantsFlag = flag.Bool("sim-mutants", false, "plant faults in the machines and demand that worlds find them (minutes)")
	mutantFlag  = flag.String("sim-mutant", "", "plant only those whose name matches this; implies -sim-mutants")
)

// mutant is one fault that somebody could make. Its text must occur exactly once in the file.
type mutant struct {
	name     string
	file     string // below the module
	was, now string
}

var mutants = []mutant{
	{"the slot is kept after a time-out", "actors/attempt_failed.go",
		"l.closeAnswer()\n\tl.release()\n\tl.add(", "l.closeAnswer()\n\tif t.class != failure.FirstByteTimeout {\n\t\tl.release()\n\t}\n\tl.add("},
	{"the slot is kept when the client goes", "actors/dispatch_life.go",
		"l.closeAnswer()\n\tl.release()\n", "l.closeAnswer()\n\tif !l.c.Gone.Fired() {\n\t\tl.release()\n\t}\n"},
	{"the caller's slot is kept when the client goes", "actors/dispatch_life.go", "if l.hasPass {", "if l.hasPass && !l.c.Gone.Fired() {"},
	{"a lease is freed twice, and the second time another's", "actors/upstream.go",
		"h := u.gate.Holder(m.id)\n\tif h == nil ||", "h := u.gate.Holder(m.id)\n\tfor o := range u.gate.Holders {\n\t\tif h == nil {\n\t\t\th = u.gate.Holder(o.ID)\n\t\t}\n\t}\n\tif h == nil ||"},
	{"one slot too many", "domain/gate/gate.go", "g.holders.Len() < *g.policy.Slots", "g.holders.Len() <= *g.policy.Slots"},
	{"the newest waiter is served first", "domain/gate/line.go",
		"for w := range l.rank(level) {\n\t\t\tif may(w) {\n\t\t\t\treturn w\n\t\t\t}\n\t\t}\n",
		"var last *Waiter\n\t\tfor w := range l.rank(level) {\n\t\t\tif may(w) {\n\t\t\t\tlast = w\n\t\t\t}\n\t\t}\n\t\tif last != nil {\n\t\t\treturn last\n\t\t}\n"},
	{"two probes at once", "domain/breaker/breaker.go", "case b.state == StateHalfOpen && b.probe != 0:", "case b.state == StateHalfOpen && b.probe != 0 && b.successes > 99:"},
	{"a success does not end a row of failures", "domain/breaker/breaker.go", "if r == Success {\n\t\tb.failures = 0\n", "if r == Success {\n"},
	{"good probes never close", "domain/breaker/breaker.go", "if b.successes < b.policy.Successes {", "if b.successes < 1000*b.policy.Successes {"},
	{"it half-opens too early", "domain/breaker/breaker.go", "case b.state == StateOpen && now.Before(b.until):", "case b.state == StateOpen && now.Add(time.Second/5).Before(b.until):"},
	{"a restart forgets until when a breaker is open", "domain/breaker/breaker.go", "b.until, b.failures = f.Until, f.Failures", "b.failures = f.Failures"},
	{"a waiter is lost when the accounts are full", "actors/grant_steps.go", "case g.faulted:\n\t\treason = LocalFault\n\tcase g.queued:\n\t\treturn", "case g.faulted:\n\t\treason = LocalFault\n\tcase g.queued:\n\t\tu.gate.Leave(g.id, gate.Moved)\n\t\treturn"},
	{"who timed out stays in the queue", "actors/upstream.go", "u.expire(now)\n", "\n"},
	{"no settlement when the client goes", "actors/dispatch_settle.go", "leave()\n\tl.end(stored)\n", "leave()\n\tif s.Outcome != request.Cancelled {\n\t\tl.end(stored)\n\t}\n"},
	{"the dispatch is not awaited", "actors/dispatch_append.go", "if err := l.d.Journal.Commit(l.take(false), events.May); err != nil {", "l.d.Journal.Put(l.take(false), events.Must)\n\t\tif err := error(nil); err != nil {"},
	{"the settlement is not awaited", "actors/dispatch_seal.go", "err := l.sealing.Wait()\n", "err := error(nil)\n"},
	{"a block is shortened", "domain/account/block.go", "|| !f.Until.After(b.until) {", "|| f.Until.Equal(b.until) {"},
	{"failover goes to the same upstream", "actors/attempt_failed.go", "default:\n\t\t\tc.dead = true", "default:\n\t\t\tc.dead = c.dead || c.reason != \"\""},
	{"the budget of attempts is ignored", "domain/routing/budget.go", "calls: s.MaxAttempts, perUpstream", "calls: 0, perUpstream"},
	{"the lease is kept when the key is lost while waiting", "actors/dispatch_lease.go", "if r == nil && !useful {", "if r != nil {\n\t\tl.leased = false\n\t}\n\tif r == nil && !useful {"},
	{"usage is counted twice", "actors/attempt.go", "t.usage, t.source, t.clamped = a.Usage, pricing.Reported, a.Clamped", "t.usage, t.source, t.clamped = a.Usage, pricing.Reported, a.Clamped\n\t\tt.usage.Input += a.Usage.Input"},
	{"a request that failed is billed to the caller", "actors/dispatch_settle.go", "b.free = !l.served && ", "b.free = false && !l.served && "},
	{"a failed attempt is billed to the caller", "actors/dispatch_bill.go", "f.PriceVersion, f.PriceOrigin, f.Inherited, f.Multipliers = ", "f.Cost = b.Caller.Total\n\tf.PriceVersion, f.PriceOrigin, f.Inherited, f.Multipliers = "},
	{"freeing a slot twice frees another's", "domain/gate/gate.go", "h := g.holders.Remove(id.Request, id.Attempt)\n",
		"h := g.holders.Remove(id.Request, id.Attempt)\n\tif h == nil {\n\t\tfor o := range g.holders.All {\n\t\t\tif h == nil || o.ID.Request < h.ID.Request {\n\t\t\t\th = o\n\t\t\t}\n\t\t}\n\t\tif h != nil {\n\t\t\tg.holders.Remove(h.ID.Request, h.ID.Attempt)\n\t\t}\n\t}\n"},
	{"a freed holder is given out twice", "domain/roll/roll.go", "\t\tr.spare = s.next\n", "\t\tif s.next != nil {\n\t\t\tr.spare = s.next\n\t\t}\n"},
	{"a claim is won twice", "actors/lease.go", "return c.v.CompareAndSwap(claimWaiting, claimGranted)", "return c.v.CompareAndSwap(claimWaiting, claimGranted) || c.v.Load() == claimGranted"},
	{"a grant that lost its claim keeps the account", "actors/grant_steps.go", "!g.win():\n\t\tu.giveBack(g)", "!g.win():\n\t\tif g.void != \"\" {\n\t\t\tu.giveBack(g)\n\t\t}\n\t\tu.drop(g)"},
	{"recovery forgets requests that were only queued", "actors/recover.go", "for _, o := range f.open {\n", "for _, o := range f.open {\n\t\tif len(o.Story.Attempts) == 0 {\n\t\t\tcontinue\n\t\t}\n"},
	{"a waiter whose accounts refuse is served in a circle", "actors/own.go", "c.marks[g.scope] = mark{until, g.last}", "_ = until"},
	{"classes are ignored", "domain/gate/line.go", "l.stand(w, w.Class.level())", "l.stand(w, 0)"},
	{"nobody ages", "domain/gate/line.go", "if l.ageEvery <= 0 {", "if l.ageEvery > 0 {"},
	{"one key has all the turns", "domain/gate/fair.go", "t.clock = max(t.clock, ln.tag)\n\t\tt.mark(ln)", "t.clock = max(t.clock, ln.tag)"},
	{"weights are ignored", "domain/gate/fair.go", "strideOne/uint64(max(1, weight))", "strideOne/uint64(max(1, min(weight, 1)))"},
	{"a recall cuts nothing", "actors/recall.go", "is.cut.Fire()", "_ = is.cut"},
	{"a recall frees the slot under its call", "actors/recall.go", "\tis := &recalled{holder: *h, free: u.awaited(id)}", "\tis := &recalled{holder: *h, free: u.awaited(id)}\n\tdefer u.cancel(id, u.sys.now())"},
	{"a time-out is not counted", "actors/queue.go", "u.gate.Leave(w.ID, gate.TimedOut)", "u.gate.Leave(w.ID, gate.Served)"},
	{"who was served stays in the queue", "actors/grant_steps.go", "u.gate.Leave(g.id, gate.Served)", "_ = gate.Served"},
	{"a breaker of an account never gets its probe back", "actors/own.go", "u.own.Cancel(breaker.Key{Account: account, Model: n.model}, n.own)", "_ = n.model"},
	{"a block never gets its probe back", "actors/account.go", "\t\tdelete(a.trials, id)\n\t\ta.blocks.Release(p)\n", "\t\tdelete(a.trials, id)\n\t\t_ = p\n"},
	{"a restart forgets bindings", "domain/affinity/memory.go", "if s != nil && Binds(x) {", "if s != nil && Binds(x) && x.Attempts < 2 {"},
	{"a head is sent twice", "domain/dialect/keepalive.go", "head = !h.committed", "head = true"},
	{"a refusal behind a head is one with a status", "actors/dispatch_alive.go", "if !l.alive.Committed() {\n\t\treturn Refused", "if true {\n\t\treturn Refused"},
	{"a wait that led to nothing is not told", "actors/dispatch_settle.go", "l.facts = append(l.facts, kept...)", "_ = kept"},
	{"who asked for a place has waited", "actors/dispatch_lease.go", "if queued { // else", "if true { // else"},
	{"an upstream that comes back has forgotten its calls", "actors/layout.go", "if r := was.holder(spec.ID); r != nil {", "if r := was.holder(spec.ID); r != nil && r.id == \"\" {"},
	{"an account that comes back has forgotten its calls", "actors/leaving.go", "either(id, d.accounts, d.leaving.accounts)", "d.accounts[id]"},
	{"a key that comes back has forgotten its requests", "actors/leaving.go", "own.Adopt(h.ID, h.Key, h.Since) // of", "_ = own // of"},
	{"did_send_upstream is a guess", "actors/dispatch_settle.go", "return l.refusal(r, l.sent)", "return l.refusal(r, true)"},
}

var caught = regexp.MustCompile(`(?m)seed (\d+): (.*)`)

// Each planted fault is found by some world. The product is not touched: the compiler gets the changed file in place of
// the real one.
func TestWorldsFindPlantedFaults(t *testing.T) {
	if !*mutantsFlag && *mutantFlag == "" {
		t.Skip("compiles and plays once per fault; run with -sim-mutants")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	which, err := regexp.Compile(*mutantFlag)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, m := range mutants {
		if !which.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			out := m.play(t, root)
			found := caught.FindStringSubmatch(out)
			if found == nil {
				fmt.Fprintf(&table, "%-58s NOT FOUND\n", m.name)
				t.Fatalf("no world has found it:\n%s", clip(out, 3000))
			}
			line := fmt.Sprintf("%-58s seed %-5s %s\n", m.name, found[1], clip(found[2], 120))
			t.Log(line)
			table.WriteString(line)
		})
	}
	t.Logf("\n%s", table.String())
}

// A fault whose place is no longer there would find nothing, and nobody would notice: the table says what is planted where.
func TestPlantedFaultsFitTheFiles(t *testing.T) {
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.was); n != 1 {
			t.Errorf("%q: %s has the text %d times, not once: %q", m.name, m.file, n, m.was)
		}
	}
}

// play compiles the simulation with the fault in it and runs it.
func (m mutant) play(t *testing.T, root string) string {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, overlay, program := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{changed: strings.Replace(string(text), m.was, m.now, 1), overlay: string(files)} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-overlay", overlay, "-c", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("does not compile: %s", out)
	}
	seeds := *seedsFlag
	if seeds == 0 {
		seeds = 1000
	}
	out, err := exec.Command(program, "-test.run", "^TestEveryWorldKeepsTheLaws$", "-test.timeout", "10m",
		"-sim-once", "-sim-seeds", fmt.Sprint(seeds), "-sim-patience", "10s").CombinedOutput()
	if err == nil {
		t.Logf("%d worlds went well", seeds)
		return ""
	}
	return string(out)
}

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return s
}
