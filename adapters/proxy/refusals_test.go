package proxy

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// told is one report.
type told struct {
	address string
	count   int
	minute  time.Time
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func refusalsAt(t *testing.T, at time.Time) (*refusals, *clock, func() []told) {
	var mu sync.Mutex
	var list []told
	c := &clock{at: at}
	r := newRefusals(func(address string, n int, minute time.Time) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, told{address, n, minute})
	}, c.now)
	t.Cleanup(r.close)
	return r, c, func() []told {
		mu.Lock()
		defer mu.Unlock()
		return append([]told(nil), list...)
	}
}

// Anonymous traffic never fills the journal.
func TestTenRefusalsPerAddressAndMinuteAreSingleTheRestIsCounted(t *testing.T) {
	r, c, list := refusalsAt(t, noon.Add(5*time.Second))
	for i := range 25 {
		require.Equal(t, i < 10, r.single("10.0.0.1"), "refusal %d", i+1)
	}
	for range 10 {
		require.True(t, r.single("10.0.0.2"), "each address has its own ten")
	}
	c.set(noon.Add(59 * time.Second))
	require.False(t, r.single("10.0.0.1"), "the minute is not over")
	require.Empty(t, list())
	c.set(noon.Add(61 * time.Second))
	require.True(t, r.single("10.0.0.1"), "a new minute")
	require.Equal(t, []told{{"10.0.0.1", 16, noon}}, list(), "only what was not single, for its minute")
	for range 11 {
		r.single("10.0.0.1")
	}
	c.set(noon.Add(30 * time.Second)) // a clock that is set back opens no minute
	require.False(t, r.single("10.0.0.1"))
	r.close()
	require.Equal(t, told{"10.0.0.1", 3, noon.Add(time.Minute)}, list()[1], "closing tells what is left")
	r.close()
	require.Len(t, list(), 2)
}

func TestTheNumberOfAddressesIsBounded(t *testing.T) {
	r, c, list := refusalsAt(t, noon)
	for i := range addressMax {
		if !r.single("a" + itoa(i)) {
			t.Fatalf("address %d is new", i)
		}
	}
	require.False(t, r.single("one more"))
	require.False(t, r.single("another"))
	require.True(t, r.single("a0"), "known ones go on")
	c.set(noon.Add(time.Minute))
	r.single("a0")
	require.Equal(t, []told{{"", 2, noon}}, list())
}

func TestCountsAreExactUnderLoad(t *testing.T) {
	r, c, list := refusalsAt(t, noon)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 1000 {
				if g == 0 && i%100 == 0 {
					c.set(noon.Add(time.Duration(i/100) * time.Minute))
				}
				r.single("x")
			}
		})
	}
	all.Wait()
	r.close()
	counted, minutes := 0, map[time.Time]bool{}
	for _, x := range list() {
		require.False(t, minutes[x.minute], "a minute is told once")
		minutes[x.minute] = true
		counted += x.count
	}
	require.LessOrEqual(t, counted, 8000-10)
	require.GreaterOrEqual(t, counted, 8000-10*10)
}
