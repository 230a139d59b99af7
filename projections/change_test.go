package projections

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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
	of := Told{N: 1, Texts: [5]string{"a"}}
	again := func(want bool, table *Table, of Told, when string) {
		t.Helper()
		if c.Again(table, of) != want {
			t.Errorf("%s: %v", when, !want)
		}
	}
	again(false, rows, of, "the first time")
	again(true, rows, of, "the second time")
	again(false, rows, Told{N: 1, Texts: [5]string{"", "a"}}, "of something else")
	again(false, others, of, "of another table")
	c.Cut(Cut{Table: rows, From: 1, To: 1})
	again(false, rows, of, "behind a cut")
	again(true, others, of, "behind a cut of another table")
	c.Reset()
	again(false, rows, of, "anew")
	again(false, others, of, "anew")
}

func TestBoundsMoveApartAndNeverTogether(t *testing.T) {
	var c Changes
	bounds := &Table{Name: "bounds", Key: 1, Columns: []Column{{Name: "n", Kind: KindInt}, {Name: "low", Kind: KindInt}, {Name: "high", Kind: KindInt}}}
	widen := func(low, high int64) { c.Widen(bounds, Int(1), Int(low), Int(high)) }
	widen(4, 6)
	widen(5, 5)
	widen(-2, 3)
	widen(5, math.MaxInt64)
	c.Widen(bounds, Int(2), Int(7), Int(8))
	var have []string
	for change := range c.All() {
		if change.Op != Widen {
			t.Errorf("operation %d", change.Op)
		}
		have = append(have, fmt.Sprint(change.Values))
	}
	if want := []string{fmt.Sprintf("[1 -2 %d]", math.MaxInt64), "[2 7 8]"}; !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// Rows are found again whichever was touched last, also behind cuts, which move them, and a Reset, which forgets them.
func TestARowIsFoundAgainWhicheverWasTouchedLast(t *testing.T) {
	sums := &Table{Name: "sums", Key: 2, Columns: []Column{{Name: "n", Kind: KindInt}, {Name: "key"}, {Name: "sum", Kind: KindInt}}}
	dice := rand.New(rand.NewPCG(3, 3))
	var c Changes
	for range 200 {
		want := map[string]int64{}
		for range dice.IntN(60) {
			n, key := int64(dice.IntN(3)), []string{"a", "b", ""}[dice.IntN(3)]
			for range 1 + dice.IntN(3) {
				c.Add(sums, Int(n), Text(key), Int(1))
				want[fmt.Sprint(n, key)]++
			}
			if dice.IntN(20) == 0 {
				c.Cut(Cut{Table: sums, From: n, To: n})
				maps.DeleteFunc(want, func(k string, _ int64) bool { return strings.HasPrefix(k, fmt.Sprint(n)) })
			}
		}
		have := map[string]int64{}
		for change := range c.All() {
			have[fmt.Sprint(change.Values[0].Int(), change.Values[1].Text())] += change.Values[2].Int()
		}
		if !maps.Equal(have, want) || c.Len()-len(c.cuts) != len(want) {
			t.Fatalf("have %v in %d rows, want %v", have, c.Len(), want)
		}
		c.Reset()
	}
}
