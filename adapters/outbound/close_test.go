package outbound

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
)

// Also a check for leaks: after Close there is no goroutine of ours, no connection and no descriptor left, whatever
// became of the calls.
func TestManyCallsAtOnceLeaveNothingBehind(t *testing.T) {
	before := descriptors(t)
	u := serve(t, func(p *peer) {
		for i := 0; p.request() != nil; i++ {
			switch (p.n + i) % 5 {
			case 0:
				p.say(head + "Content-Length: 9\r\n\r\ncut") // and closes
				return
			case 1:
				p.say(head + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
			default:
				p.say(plainOK)
			}
		}
	})
	tr := New(Egress{})
	var all sync.WaitGroup
	counts := make([]map[actors.Phase]int, 32)
	for g := range counts {
		counts[g] = map[actors.Phase]int{}
		all.Go(func() {
			for i := range 60 {
				o := call(u)
				if (g+i)%7 == 0 {
					go o.Gone.Fire()
				}
				in, err := tr.Send(o)
				if err == nil {
					var b []byte
					if b, err = io.ReadAll(in); err == nil && string(b) != "ok" {
						t.Errorf("read %q", b)
					}
					in.Close()
				}
				if err != nil {
					counts[g][err.(*actors.SendError).Phase]++
				} else {
					counts[g][""]++
				}
			}
		})
	}
	all.Wait()
	total := map[actors.Phase]int{}
	for _, c := range counts {
		for p, n := range c {
			total[p] += n
		}
	}
	require.Positive(t, total[""])
	require.Positive(t, total[actors.PhaseBody])
	for p := range total {
		require.Contains(t, []actors.Phase{"", actors.PhaseBody, actors.PhaseCancelled, actors.PhaseStale}, p, "%v", total)
	}
	tr.Close()
	tr.Close() // again
	eventually(t, "no descriptor but the listener is left", func() bool { return descriptors(t) <= before+1 })
	stacks := make([]byte, 1<<20)
	eventually(t, "no goroutine is left", func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "outbound.(*Transport)")
	})
}

func TestACallUnderWayAtCloseGoesOnAndItsConnectionIsClosedThen(t *testing.T) {
	closed := make(chan struct{}, 2)
	u := serve(t, func(p *peer) {
		for p.request() != nil {
			p.say(plainOK)
		}
		closed <- struct{}{}
	})
	tr := New(Egress{})
	in := send(t, tr, call(u))
	tr.Close()
	b, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "ok", string(b))
	require.NoError(t, in.Close())
	<-closed
	other := &upstream{host: strings.Replace(u.host, "127.0.0.1", "localhost", 1)} // had no pool before Close
	require.Equal(t, "ok", whole(t, tr, call(other)))
	<-closed
}
