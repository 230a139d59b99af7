package books_test

import (
	"errors"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/books"
)

func ledger(facts ...any) *books.Ledger {
	var l books.Ledger
	for _, f := range facts {
		l.Evolve(f)
	}
	return &l
}

func closed(day string, first, last int64) *books.Closed {
	return &books.Closed{Day: day, Span: books.Span{First: first, Last: last, Through: last + 1}}
}

func TestRetentionTakesWholeClosedDaysInOrderAndEachOnce(t *testing.T) {
	today := time.Date(2026, 3, 10, 7, 0, 0, 0, time.UTC)
	l := ledger(closed("2026-03-01", 1, 5), closed("2026-03-03", 6, 9), closed("2026-03-09", 10, 12), &books.Removed{Day: "2026-03-01"})
	for _, c := range []struct {
		keep int
		want []string
	}{{0, nil}, {1, []string{"2026-03-03"}}, {6, []string{"2026-03-03"}}, {7, nil}, {8, nil}, {-1, nil}} {
		var have []string
		for _, f := range l.Forget(today, c.keep) {
			have = append(have, f.Day)
		}
		if len(have) != len(c.want) || len(have) > 0 && have[0] != c.want[0] {
			t.Errorf("kept for %d days: %v, want %v", c.keep, have, c.want)
		}
	}
	if f := l.Trim(today, 6); f == nil || f.Day != "2026-03-03" {
		t.Errorf("trim: %v", f)
	}
	l.Evolve(&books.Trimmed{Day: "2026-03-03"})
	if f := l.Trim(today, 6); f != nil {
		t.Errorf("trimmed twice: %v", f)
	}
	if f := l.Trim(today, 0); f != nil {
		t.Errorf("trimmed although all is kept: %v", f)
	}
}

func TestARequestOfAClosedDayIsRefusedWithTheReason(t *testing.T) {
	l := ledger(closed("2026-03-01", 1, 5), closed("2026-03-03", 6, 9), &books.Removed{Day: "2026-03-01"})
	for first, want := range map[int64]string{
		5: "the books of that day are closed: 2026-03-01, and its events were removed: what they say is in the archive only",
		6: "the books of that day are closed: 2026-03-03",
	} {
		err := l.Refusal(first)
		if !errors.Is(err, books.ErrClosed) || err.Error() != want {
			t.Errorf("position %d: %v", first, err)
		}
	}
	if err := l.Refusal(10); err != nil {
		t.Error(err)
	}
}

func TestADayIsADateInUTC(t *testing.T) {
	day, err := books.ParseDay("2026-03-01")
	if err != nil || !day.Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Error(day, err)
	}
	for _, text := range []string{"", "2026-3-1", "2026-02-30", "2026-03-01T00:00:00Z"} {
		if _, err := books.ParseDay(text); !errors.Is(err, books.ErrDay) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if day := books.DayOf(time.Date(2026, 3, 1, 0, 30, 0, 0, time.FixedZone("east", 3600))); day != "2026-02-28" {
		t.Error(day)
	}
}
