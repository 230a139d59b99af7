package actors

import (
	"strings"
	"time"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/failure"
)

// heldFor is the longest wait for the same account during which the slot is kept: giving it back and queueing again would
// take as long.
const heldFor = 100 * time.Millisecond

// asksFor is the model as the upstream knows it: the scope of its limits.
func (l *life) asksFor() string { return l.cand.Asks(l.c.Ask.Model) }

// others says whether anybody else is left to ask: another account of this upstream or another upstream.
func (l *life) others() bool {
	for i := range l.tries {
		c := &l.tries[i]
		if !c.dead && (c.Upstream.ID != l.lease.Upstream || len(c.accounts) > 1) {
			return true
		}
	}
	return false
}

// repeat waits for the same account, as long as the upstream asked for and an eighth at most, and has it asked once more.
// Meanwhile it holds nothing, unless the wait is very short. The client's going ends the wait.
func (l *life) repeat(t *tried, after time.Duration) (Answer, bool) {
	l.repeats++
	l.closeAnswer()
	after += time.Duration(float64(after) / 8 * float64(l.d.Random()>>11) / (1 << 53))
	if after >= heldFor || l.tell.Result != breaker.Neutral { // a breaker that has counted it decides anew
		l.release()
	}
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.c.Gone.Done():
			return l.clientWent(t)
		}
	}
	l.add(l.story(t))
	return Answer{}, false
}

// soonest is the wait until the first of those that are out of service is back, or until when the last of them asked for;
// 0: nothing is known of that.
func (l *life) soonest(asked time.Duration) time.Duration {
	now, board := l.now(), l.d.System.Board()
	opens := l.opens
	if asked > 0 {
		opens = append(opens, now.Add(asked))
	}
	for i := range l.tries {
		t := &l.tries[i]
		if t.until.After(now) {
			opens = append(opens, t.until)
		}
		if f, ok := board.Figures(t.Upstream.ID); ok && f.Breaker == breaker.StateOpen {
			opens = append(opens, f.Until)
		}
	}
	return failure.Soonest(now, opens...)
}

func isRetryAfter(h Header) bool { return strings.EqualFold(h.Name, "Retry-After") }
