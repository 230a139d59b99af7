package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/penstock/penstock/actors"
)

// printWaits sums up how it serves, the queue and what came of it.
func printWaits(w io.Writer, s *actors.UpstreamStatus) {
	fmt.Fprintf(w, "health   the first content comes after %s, %.0f %% of late have failed\n", estimate(s.Health.TTFT), 100*s.Health.Failing)
	if q := &s.Waits; q.Discipline != "" {
		fmt.Fprintf(w, "waits    %s, %d waiting", plain(q.Discipline), q.Waiting)
		if q.Waiting > 0 {
			fmt.Fprintf(w, " for up to %s", took(q.Oldest*1000))
		}
		fmt.Fprintf(w, "; a newcomer expects %s\n", estimate(q.Newcomer))
	}
	if s.Waits.HeldFor != nil {
		fmt.Fprintf(w, "pace     a slot is held for %s\n", estimate(s.Waits.HeldFor))
	}
	if s.Bindings != nil {
		fmt.Fprintf(w, "affinity %d sessions\n", *s.Bindings)
	}
	t := &s.Totals
	fmt.Fprintf(w, "totals   %d queued, %d granted, %d timed out, %d aborted, %d moved, %d freed by hand\n",
		t.Queued, t.Granted, t.TimedOut, t.Aborted, t.Moved, t.Freed)
}

// estimate is a time in milliseconds, as far as it is known.
func estimate(ms *int64) string {
	if ms == nil {
		return "an unknown time"
	}
	return took(*ms * 1000)
}

// left is how much of an account's limits is left, and when they are renewed; "": its upstream tells nothing of them.
func left(q *actors.QuotaStatus) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("%.0f %% until %s", 100*q.Left, clockOf(q.Until))
	if q.Lapses != nil {
		text += ", lapses " + clockOf(q.Lapses)
	}
	return text
}

// The tables of an upstream; nil: there is nothing to show.

func shares(w io.Writer, s *actors.UpstreamStatus) *table {
	if len(s.Shares) == 0 {
		return nil
	}
	t := newTable(w, "SHARE OF", "HELD", "WAITING", "SERVED")
	for _, k := range s.Shares {
		t.row(k.Key, strconv.Itoa(k.Held), strconv.Itoa(k.Waiting), strconv.FormatUint(k.Served, 10))
	}
	if o := s.Others; o != (actors.OtherShares{}) {
		t.row(fmt.Sprintf("%d other keys", o.Keys), strconv.Itoa(o.Held), strconv.Itoa(o.Waiting), strconv.FormatUint(o.Served, 10))
	}
	return &t
}

func held(w io.Writer, slots []actors.HeldSlot, now time.Time) *table {
	if len(slots) == 0 {
		return nil
	}
	t := newTable(w, "HELD BY", "TRY", "KEY", "ACCOUNT", "PHASE", "FOR")
	for _, h := range slots {
		phase := h.Phase
		if h.Recalled != "" {
			phase += ", to be freed: " + h.Recalled
		}
		t.row(h.RequestID, strconv.Itoa(h.Attempt), h.Key, h.Account, phase, took(now.Sub(h.Since).Microseconds()))
	}
	return &t
}

func waiting(w io.Writer, places []actors.WaitingPlace, now time.Time) *table {
	if len(places) == 0 {
		return nil
	}
	t := newTable(w, "PLACE", "WAITING", "KEY", "CLASS", "FOR", "EXPECTED", "AT MOST UNTIL")
	for _, q := range places {
		expected := ""
		if q.Expected != nil {
			expected = took(*q.Expected * 1000)
		}
		t.row(strconv.Itoa(q.Position), q.RequestID, q.Key, q.Class, took(now.Sub(q.Since).Microseconds()), expected, clock(q.Deadline))
	}
	return &t
}
