package projections

import (
	"math"
	"testing"
)

func TestASumThatNoColumnHoldsIsTheLargestNumberAndNeverADebt(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{1, 2, 3}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64}, {math.MinInt64, math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MinInt64, -1},
	} {
		if got := Sum(Int(c.a), Int(c.b)).Int(); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestWhatRowsWereMadeOfIsToldAgainOnlyWhileTheyAreThere(t *testing.T) {
	var c Changes
	rows := &Table{Name: "rows", Key: 1, Columns: []Column{{Name: "n", Kind: KindInt}}}
	others := &Table{Name: "others", Key: 1, Columns: []Column{{Name: "n", Kind: KindInt}}}
	of := Told{N: 1, Texts: [4]string{"a"}}
	again := func(want bool, table *Table, of Told, when string) {
		t.Helper()
		if c.Again(table, of) != want {
			t.Errorf("%s: %v", when, !want)
		}
	}
	again(false, rows, of, "the first time")
	again(true, rows, of, "the second time")
	again(false, rows, Told{N: 1, Texts: [4]string{"", "a"}}, "of something else")
	again(false, others, of, "of another table")
	c.Cut(Cut{Table: rows, From: 1, To: 1})
	again(false, rows, of, "behind a cut")
	again(true, others, of, "behind a cut of another table")
	c.Reset()
	again(false, rows, of, "anew")
	again(false, others, of, "anew")
}
