// Package sim plays the real actors, dispatcher and journal in virtual time, among scripted upstreams, clients, stores and
// operators, through crashes. A seed is a world; each is played twice, and both must tell the same story to the byte.
package sim

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag  = flag.Uint64("sim-seed", 0, "play only this seed, and log its story")
	seedsFlag = flag.Uint64("sim-seeds", 0, "play so many seeds (default 400; 30 with -short, and with -race)")
	onceFlag  = flag.Bool("sim-once", false, "play each seed once only, and compare nothing")
	firstFlag = flag.Uint64("sim-first", 1, "the first seed")
)

// batch is how many seeds share a bubble: emptying pools takes as long as a seed.
const batch = 20

// Whatever upstreams, clients, the store, the operator and crashes do: the laws of DESIGN §10 hold, and the same seed
// gives the same story.
func TestEveryWorldKeepsTheLaws(t *testing.T) {
	first, seeds := *firstFlag, *seedsFlag
	if seeds == 0 {
		if seeds = 400; testing.Short() || racing {
			seeds = 30
		}
	}
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	// One processor, and no collection within a world: what is ready at one instant then runs in the order in which it
	// became ready.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30)) // a world that runs wild takes its time instead of the machine
	eye := newWatch(func(seed uint64) string { return again(t, seed) })
	defer eye.end()
	played, steps, lines, began := seeds, 0, 0, time.Now()
	for ; seeds > 0; first, seeds = first+min(seeds, batch), seeds-min(seeds, batch) {
		stories := play(t, eye, first, min(seeds, batch))
		second := stories
		if !*onceFlag {
			second = play(t, eye, first, min(seeds, batch))
		}
		for i, s := range stories {
			steps, lines = steps+s.steps, lines+len(s.lines)
			if *seedFlag != 0 {
				t.Logf("%s\nsha256 %x", strings.Join(s.lines, "\n"), sha256.Sum256([]byte(strings.Join(s.lines, "\n"))))
			}
			switch {
			case i >= len(second):
				s.faults = append(s.faults, "its second story was not told to the end")
			case racing: // the scheduler shuffles what is ready, so that no two stories are equal; the laws hold in all of them
				s.faults = append(s.faults, second[i].faults...)
			default:
				if at := differ(s.lines, second[i].lines); at >= 0 {
					s.faults = append(s.faults, fmt.Sprintf("two stories of one seed, at line %d:\n  %s\n  %s", at, line(s.lines, at), line(second[i].lines, at)))
				}
			}
			if len(s.faults) > 0 {
				t.Fatalf("seed %d: %s\nrepeat: %s", s.seed, strings.Join(s.faults, "\n"), again(t, s.seed))
			}
		}
	}
	t.Logf("%d seeds, each twice: %d steps, %d lines of story, %.1f s", played, steps, lines, time.Since(began).Seconds())
}

// again is the command that plays a seed again.
func again(t *testing.T, seed uint64) string {
	return fmt.Sprintf("go test ./actors/sim -run '^%s$' -v -sim-seed %d", t.Name(), seed)
}

// story is what one seed told.
type story struct {
	seed   uint64
	lines  []string
	faults []string
	steps  int
}

// play runs seeds in a bubble of their own, up to the first that has a fault. Each begins at a whole hour, so that it
// is the same in whichever company it is played. A goroutine that is left by one of them never lets the bubble end.
func play(t *testing.T, eye *watch, first, seeds uint64) (stories []story) {
	emptyPools()
	defer eye.plays(0)
	synctest.Test(t, func(*testing.T) {
		before := runtime.NumGoroutine()
		for seed := first; seed < first+seeds; seed++ {
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			eye.plays(seed)
			w := run(seed)
			synctest.Wait()
			if n := runtime.NumGoroutine(); n > before {
				buf := make([]byte, 1<<16)
				w.law.fault("%d goroutines are left:\n%s", n-before, buf[:runtime.Stack(buf, true)])
			}
			stories = append(stories, story{seed, w.lines, w.law.faults, w.steps})
			if len(w.law.faults) > 0 {
				break
			}
		}
	})
	return stories
}

// emptyPools takes away what other bubbles have put into the pools of the product: a channel belongs to its bubble. A
// pool outlives one collection.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

func differ(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if line(a, i) != line(b, i) {
			return i
		}
	}
	return -1
}

func line(story []string, i int) string {
	if i >= len(story) {
		return "(no more)"
	}
	return story[i]
}
