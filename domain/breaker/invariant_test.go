package breaker

import (
	"flag"
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"
)

var seed = flag.Int64("seed", 0, "run only this seed")

// TestRandomOutcomesKeepTheLaws: open never lets anyone through before its time; half-open has at most one probe in
// flight; closed opens exactly at the threshold; a state changes only with its fact; facts alone rebuild it; and an
// upstream that is well is in service again within the time that is running plus its probes.
func TestRandomOutcomesKeepTheLaws(t *testing.T) {
	for s := int64(1); s <= 500; s++ {
		if *seed != 0 {
			s = *seed
		}
		if err := run(s); err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test ./domain/breaker -run '%s' -seed %d", s, err, t.Name(), s)
		}
		if *seed != 0 {
			return
		}
	}
}

func run(seed int64) error {
	r := rand.New(rand.NewSource(seed))
	p := Policy{Failures: 1 + r.Intn(4), Successes: 1 + r.Intn(3), OpenFor: 50 * time.Second, ProbeEvery: 10 * time.Second,
		Growth: []float64{0, 1, 1.5, 10}[r.Intn(4)], OpenMax: 40 * time.Second}
	now := t0
	b, rebuilt := New("u", p, now), New("u", p, now)
	var flying []Permit
	consecutive := 0
	for step := range 400 {
		before := b.State()
		var fact any
		switch k := r.Intn(10); {
		case k < 4:
			wasOpen, until, probing := before == StateOpen, b.Until(), b.Probing()
			permit, ok, f := b.Acquire(now)
			if f != nil {
				fact = f
			}
			if ok && wasOpen && now.Before(until) {
				return fmt.Errorf("step %d: let through %v too early", step, until.Sub(now))
			}
			if ok && before == StateHalfOpen && probing {
				return fmt.Errorf("step %d: a second probe", step)
			}
			if ok && permit.Probe != (b.State() == StateHalfOpen) {
				return fmt.Errorf("step %d: %+v in state %v", step, permit, b.State())
			}
			if ok {
				flying = append(flying, permit)
			}
		case k < 8 && len(flying) > 0:
			i := r.Intn(len(flying))
			permit := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			counts := before == StateClosed && b.Valid(permit)
			result := Result(r.Intn(3))
			fact = b.Record(permit, result, Evidence{At: now})
			if counts && result == Failure {
				consecutive++
				if (consecutive >= p.Failures) != (b.State() == StateOpen) {
					return fmt.Errorf("step %d: %d failures of %d, state %v", step, consecutive, p.Failures, b.State())
				}
			} else if counts && result == Success {
				consecutive = 0
			}
		case k == 8:
			now = now.Add(time.Duration(r.Intn(30)) * time.Second)
		case r.Intn(8) == 0:
			if f := b.ForceClose(now); f != nil {
				fact = f
			}
			consecutive = 0
		}
		if fact == nil && b.State() != before {
			return fmt.Errorf("step %d: %v became %v without a fact", step, before, b.State())
		}
		if fact != nil {
			consecutive = 0
			rebuilt.Evolve(fact, now)
		}
		if rebuilt.State() != b.State() || !rebuilt.Until().Equal(b.Until()) || !rebuilt.since.Equal(b.since) {
			return fmt.Errorf("step %d: facts give %v until %v, live is %v until %v", step, rebuilt.State(), rebuilt.Until(), b.State(), b.Until())
		}
		if live, again := b.History(), rebuilt.History(); fact != nil && (rebuilt.reopened != b.reopened || !reflect.DeepEqual(live, again) || len(live) > 20) {
			return fmt.Errorf("step %d: facts give the history %+v, live is %+v", step, again, live)
		}
		if b.State() == StateOpen && b.Until().Sub(b.since) > max(p.OpenFor, p.OpenMax) {
			return fmt.Errorf("step %d: open for %v", step, b.Until().Sub(b.since))
		}
	}
	return recovers(b, p, now, flying)
}

// recovers gives up what is in flight and lets the upstream be well from now on.
func recovers(b *Breaker, p Policy, now time.Time, flying []Permit) error {
	for _, permit := range flying {
		b.Cancel(permit)
	}
	if b.State() == StateOpen && b.Until().After(now) {
		now = b.Until()
	}
	for range p.Successes {
		permit, ok, _ := b.Acquire(now)
		if !ok {
			return fmt.Errorf("a well upstream gets no probe in state %v", b.State())
		}
		b.Record(permit, Success, Evidence{At: now})
	}
	if b.State() != StateClosed {
		return fmt.Errorf("%v after %d good probes", b.State(), p.Successes)
	}
	return nil
}
