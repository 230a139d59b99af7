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
	mutantFlag  = flag.String("sim-mutant", "", "plant only those whose name contains this; implies -sim-mutants")
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
	{"one slot too many", "domain/gate/gate.go", "len(g.holders) < *g.policy.Slots", "len(g.holders) <= *g.policy.Slots"},
	{"the newest waiter is served first", "domain/gate/line.go",
		"for w := range l.rank(level) {\n\t\t\tif may(w) {\n\t\t\t\treturn w\n\t\t\t}\n\t\t}\n",
		"var last *Waiter\n\t\tfor w := range l.rank(level) {\n\t\t\tif may(w) {\n\t\t\t\tlast = w\n\t\t\t}\n\t\t}\n\t\tif last != nil {\n\t\t\treturn last\n\t\t}\n"},
	{"two probes at once", "domain/breaker/breaker.go", "case b.state == StateHalfOpen && b.probe != 0:", "case b.state == StateHalfOpen && b.probe != 0 && b.successes > 99:"},
	{"a success does not end a row of failures", "domain/breaker/breaker.go", "if r == Success {\n\t\tb.failures = 0\n", "if r == Success {\n"},
	{"good probes never close", "domain/breaker/breaker.go", "if b.successes < b.policy.Successes {", "if b.successes < 1000*b.policy.Successes {"},
	{"it half-opens too early", "domain/breaker/breaker.go", "case b.state == StateOpen && now.Before(b.until):", "case b.state == StateOpen && now.Add(time.Second/5).Before(b.until):"},
	{"failures are not counted after a restart", "domain/breaker/breaker.go", "b.until, b.failures = f.Until, f.Failures", "b.failures = f.Failures"},
	{"a waiter is lost when the accounts are full", "actors/grant_steps.go", "case g.faulted:\n\t\treason = LocalFault\n\tcase g.queued:\n\t\treturn", "case g.faulted:\n\t\treason = LocalFault\n\tcase g.queued:\n\t\tu.gate.Leave(g.id, gate.Moved)\n\t\treturn"},
	{"who timed out stays in the queue", "actors/upstream.go", "u.expire(now)\n", "\n"},
	{"no settlement when the client goes", "actors/dispatch_settle.go", "l.end(stored)\n\tl.leave()\n}\n\n// describe", "if s.Outcome != request.Cancelled {\n\t\tl.end(stored)\n\t}\n\tl.leave()\n}\n\n// describe"},
	{"the dispatch is not awaited", "actors/dispatch_append.go", "if err := l.d.Journal.Commit(l.take(false), events.May); err != nil {", "l.d.Journal.Put(l.take(false), events.Must)\n\t\tif err := error(nil); err != nil {"},
	{"a block is shortened", "domain/account/block.go", "|| !f.Until.After(b.until) {", "|| f.Until.Equal(b.until) {"},
	{"failover goes to the same upstream", "actors/attempt_failed.go", "default:\n\t\t\tc.dead = true", "default:\n\t\t\tc.dead = c.dead || c.reason != \"\""},
	{"the budget of attempts is ignored", "actors/attempt_failed.go", "budget > 0 && l.attempts >= budget", "budget > 1000 && l.attempts >= budget"},
	{"the lease is kept when the key is lost while waiting", "actors/dispatch_lease.go", "case r != nil:\n\t\treturn r\n\tcase !useful:", "case r != nil:\n\t\tl.leased = false\n\t\treturn r\n\tcase !useful:"},
	{"usage is counted twice", "actors/attempt.go", "t.usage, t.source = a.Usage, pricing.Reported", "t.usage, t.source = a.Usage, pricing.Reported\n\t\tt.usage.Input += a.Usage.Input"},
	{"a failed attempt is billed to the caller", "actors/dispatch_settle.go", "b.caller = 0 //", "_ = 0 //"},
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
	var table strings.Builder
	for _, m := range mutants {
		if !strings.Contains(m.name, *mutantFlag) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			out := m.play(t, root)
			found := caught.FindStringSubmatch(out)
			if found == nil {
				fmt.Fprintf(&table, "%-58s NOT FOUND\n", m.name)
				t.Fatalf("no world has found it:\n%s", clip(out, 3000))
			}
			fmt.Fprintf(&table, "%-58s seed %-5s %s\n", m.name, found[1], clip(found[2], 120))
		})
	}
	t.Logf("\n%s", table.String())
}

// play compiles the simulation with the fault in it and runs it.
func (m mutant) play(t *testing.T, root string) string {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.was); n != 1 {
		t.Fatalf("%s has the text %d times, not once; the fault must be planted anew: %q", m.file, n, m.was)
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
	out, err := exec.Command(program, "-test.run", "^TestEveryWorldKeepsTheLaws$", "-test.timeout", "5m", "-sim-seeds", fmt.Sprint(seeds)).CombinedOutput()
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
