package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/breaker"
)

// printBreaker shows a breaker, its last failures and how it came to its state.
func printBreaker(w io.Writer, title string, b *actors.BreakerStatus) {
	notes := []string{breakerState(b), fmt.Sprintf("%d failures in a row", b.Failures)}
	if !b.Since.IsZero() {
		notes = append(notes, "since "+clock(b.Since))
	}
	if b.Reopened > 0 {
		notes = append(notes, fmt.Sprintf("%d failed probes", b.Reopened))
	}
	if b.Probing {
		notes = append(notes, "a probe is under way")
	}
	fmt.Fprintf(w, "%-8s %s\n", plain(title), strings.Join(notes, ", "))
	for _, e := range b.Last {
		fmt.Fprintln(w, "         failure "+failureLine(e))
	}
	for _, t := range b.History {
		fmt.Fprintln(w, "         "+transitionLine(t))
	}
}

func failureLine(e breaker.Evidence) string {
	status := ""
	if e.Status != 0 {
		status = strconv.Itoa(e.Status)
	}
	return strings.Join(filled(clock(e.At), plain(e.Class), status, labelled("account", plain(e.Account)), labelled("model", plain(e.Model)),
		labelled("request", plain(e.Request)), labelled("said:", plain(e.Said))), " ")
}

func transitionLine(t breaker.Transition) string {
	until, failures := "", ""
	if t.Until != nil {
		until = "until " + clock(*t.Until)
	}
	if t.Failures > 0 {
		failures = fmt.Sprintf("after %d failures", t.Failures)
	}
	return strings.Join(filled(clock(t.At), t.To.String(), until, "by "+plain(t.By), failures, plain(t.Class)), " ")
}

// printAccounts shows accounts, and below each the models that are blocked on their own.
func printAccounts(w io.Writer, accounts []actors.AccountStatus) error {
	t := newTable(w, "ACCOUNT", "STATE", "SLOTS", "REASON", "UNTIL", "RESETS", "LEFT")
	for _, a := range accounts {
		t.row(a.ID, a.State, slotCount(a.Held, a.Slots), because(a.Reason, a.Source), clockOf(a.Until), clockOf(a.Resets), left(a.Quota))
		for _, m := range a.Models {
			t.row("  "+m.Model, m.State, "", because(m.Reason, m.Source), clockOf(m.Until), clockOf(m.Resets), "")
		}
	}
	return t.end()
}

// because is a reason with its source, where that says more.
func because(reason, source string) string {
	if source == "" || source == reason {
		return reason
	}
	return reason + " (" + source + ")"
}

func clockOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock(*t)
}
