package lawtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// Environment variables that make a test program the victim of Killed: what it rebuilds, and where.
const (
	victimWork    = "PENSTOCK_TEST_REBUILD"
	victimAddress = "PENSTOCK_TEST_REBUILD_AT"
)

// Data is a store and a read model of whoever opened them.
type Data struct {
	Store events.Store
	Model projections.ReadModel
}

// Killed rebuilds the first projection in another process that is killed in the middle of it, first by hand, then as a
// program with a later version of it that starts; and goes on here each time. The data at the address is empty. The other
// process runs the test again that calls this.
func Killed(t *testing.T, place func(testing.TB) string, list []projections.Projection, open func(testing.TB, string, ...projections.Projection) (d Data, done func())) {
	ctx := context.Background()
	later := append([]projections.Projection{newer{list[0]}}, list[1:]...)
	if work := os.Getenv(victimWork); work != "" {
		victim(t, work, list, later, func(list ...projections.Projection) Data {
			d, _ := open(t, os.Getenv(victimAddress), list...)
			return d
		})
		return
	}
	address := place(t)
	history, err := History{Seed: 4, Requests: 400}.Appends()
	must(t, err)
	d, done := open(t, address, list...)
	Commits(t, d.Store, history, 50)
	bring(t, d, list)
	want, _ := Dump(t, d.Model, list[0])
	done()

	die(t, "replay", address)
	d, done = open(t, address, list...)
	report, err := projections.Rebuild(ctx, d.Store, d.Model, list[0], nil)
	must(t, err)
	head, err := d.Store.Head(ctx)
	must(t, err)
	if report.ResumedFrom == 0 || report.ResumedFrom >= head || report.Rows != int64(len(want)) {
		t.Errorf("after the kill of a replay: %+v of %d events", report, head)
	}
	alike(t, "rows", first(Dump(t, d.Model, list[0])), want)
	done()

	die(t, "start", address)
	d, done = open(t, address, later...)
	whole := &held{ReadModel: d.Model, commits: 1 << 30, found: map[string]events.Position{}}
	bring(t, Data{d.Store, whole}, later)
	if whole.found[list[0].Name()] == 0 {
		t.Errorf("after the kill of a starting program the next one began from the start")
	}
	alike(t, "rows", first(Dump(t, d.Model, later[0])), want)
	(&law{}).nothingBeside(t, d.Model, later[0])
	done()
}

func first[A, B any](a A, _ B) A { return a }

// bring brings the projections to the head, rebuilt where they are of another version.
func bring(t testing.TB, d Data, list []projections.Projection) {
	t.Helper()
	r := projections.NewRunner(projections.Options{Store: d.Store, Model: d.Model, Projections: list})
	must(t, r.Start(context.Background()))
	must(t, r.Rebuilt(context.Background()))
	must(t, r.Stop(context.Background()))
}

// die runs this test in another process, which must be killed.
func die(t testing.TB, work, address string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	c.Env = append(os.Environ(), victimWork+"="+work, victimAddress+"="+address)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the other process was not killed: %v\n%s", err, out)
	}
}

// victim kills this process in the middle of its work.
func victim(t *testing.T, work string, list, later []projections.Projection, open func(...projections.Projection) Data) {
	switch work {
	case "replay":
		d := open(list...)
		ctx := projections.WatchEvery(context.Background(), 200, func(p projections.Progress) {
			if p.Position > p.To/2 {
				kill()
			}
		})
		_, err := projections.Rebuild(ctx, d.Store, d.Model, list[0], nil)
		must(t, err)
	case "start":
		d := open(later...)
		model := &held{ReadModel: d.Model, commits: 3, found: map[string]events.Position{}}
		r := projections.NewRunner(projections.Options{Store: d.Store, Model: model, Projections: later, Stride: 200})
		must(t, r.Start(context.Background()))
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if lag := r.Lag()[0]; lag.Rebuilding && lag.Position > 200 {
				kill()
			}
		}
	}
	t.Fatalf("%s was not interrupted", work)
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
