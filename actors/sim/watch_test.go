package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

var patienceFlag = flag.Duration("sim-patience", 30*time.Second, "how long one seed may take by the clock on the wall")

// watch ends the program when a seed does not: one that hangs in a bubble stops the time of its bubble, too, and nothing
// inside could tell. It is started outside.
type watch struct {
	seed atomic.Uint64 // that is played, 0 none
	stop chan struct{}
}

const lookEvery = 100 * time.Millisecond

func newWatch(command func(seed uint64) string) *watch {
	w := &watch{stop: make(chan struct{})}
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		seed, looks := uint64(0), time.Duration(0)
		for {
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
			if is := w.seed.Load(); is != seed {
				seed, looks = is, 0
			}
			if looks += lookEvery; looks < *patienceFlag || seed == 0 {
				continue
			}
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "seed %d: hangs: it has not ended in %s\nrepeat: %s\n%s\n", seed, *patienceFlag, command(seed), buf[:runtime.Stack(buf, true)])
			os.Exit(2)
		}
	}()
	return w
}

// plays says which seed is played from now on; 0: none.
func (w *watch) plays(seed uint64) { w.seed.Store(seed) }

func (w *watch) end() { close(w.stop) }
