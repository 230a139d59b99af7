package money

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseReadsWhatStringWrites(t *testing.T) {
	for _, c := range []struct {
		text  string
		units int64
		canon string // "" is text
	}{
		{"0", 0, ""},
		{"-0", 0, "0"},
		{"12", 120_000_000_000, ""},
		{"0012", 120_000_000_000, "12"},
		{"1.5", 15_000_000_000, ""},
		{"1.50", 15_000_000_000, "1.5"},
		{"-0.5", -5_000_000_000, ""},
		{"0.0000000001", 1, ""},
		{"-0.0000000001", -1, ""},
		{"10.01", 100_100_000_000, ""},
		{"922337203.6854775807", math.MaxInt64, ""},
		{"-922337203.6854775807", -math.MaxInt64, ""},
		{"-922337203.6854775808", math.MinInt64, ""},
	} {
		got, err := Parse(c.text)
		if err != nil || int64(got) != c.units {
			t.Errorf("Parse(%q) = %d, %v; want %d", c.text, got, err, c.units)
		}
		want := c.canon
		if want == "" {
			want = c.text
		}
		if s := Amount(c.units).String(); s != want {
			t.Errorf("String of %d = %q; want %q", c.units, s, want)
		}
	}
}

func TestParseRefusesWhatIsNoExactAmount(t *testing.T) {
	for _, s := range []string{
		"", "-", ".", "1.", ".5", "-.5", "+1", " 1", "1 ", "1e3", "0x1", "1,5", "1.2.3", "--1", "NaN", "1-", "١",
		"0.00000000001", "922337203.6854775808", "-922337203.6854775809", "9223372036854775807", strings.Repeat("9", 400),
	} {
		if a, err := Parse(s); !errors.Is(err, ErrAmount) {
			t.Errorf("Parse(%q) = %d, %v; want ErrAmount", s, a, err)
		}
	}
}

func TestAppendDecimalHasTheShortestFormForAnyNumberOfPlaces(t *testing.T) {
	for _, c := range []struct {
		n      int64
		places int
		want   string
	}{
		{0, 0, "0"}, {7, 0, "7"}, {-7, 0, "-7"}, {100, 0, "100"},
		{0, 6, "0"}, {1, 6, "0.000001"}, {1_000_000, 6, "1"}, {2_500_000, 6, "2.5"}, {10_000, 4, "1"}, {12_345, 4, "1.2345"},
		{math.MinInt64, 0, "-9223372036854775808"}, {math.MaxInt64, 0, "9223372036854775807"},
		{math.MinInt64, 18, "-9.223372036854775808"}, {math.MinInt64, 25, "-0.0000009223372036854775808"},
	} {
		if got := string(AppendDecimal([]byte("x"), c.n, c.places)); got != "x"+c.want {
			t.Errorf("AppendDecimal(%d, %d) = %q; want x%s", c.n, c.places, got, c.want)
		}
	}
}

func TestAmountIsAStringInJSON(t *testing.T) {
	var v struct {
		Cost Amount `json:"cost"`
	}
	if err := json.Unmarshal([]byte(`{"cost":"0.0123"}`), &v); err != nil || v.Cost != 123_000_000 {
		t.Fatalf("got %d, %v", v.Cost, err)
	}
	if b, err := json.Marshal(v); err != nil || string(b) != `{"cost":"0.0123"}` {
		t.Fatalf("got %s, %v", b, err)
	}
	before := v
	if err := json.Unmarshal([]byte(`{"cost":"much"}`), &v); !errors.Is(err, ErrAmount) || v != before {
		t.Fatalf("a bad amount gave %v and changed the value to %d", err, v.Cost)
	}
}

func FuzzEveryAmountSurvivesItsText(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 1e10, -1e10, math.MaxInt64, math.MinInt64} {
		f.Add(n, uint8(10))
	}
	f.Fuzz(func(t *testing.T, n int64, places uint8) {
		p := int(places % 26)
		s := string(AppendDecimal(nil, n, p))
		back, err := ParseDecimal(s, p)
		if err != nil || back != n {
			t.Fatalf("%d with %d places is %q, which reads as %d, %v", n, p, s, back, err)
		}
	})
}

func FuzzParseNeverPanicsAndIsCanonicalAfterOneTurn(f *testing.F) {
	for _, s := range []string{"0", "-0.10", "1.", "9e9", "-922337203.6854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := Parse(s)
		if err != nil {
			return
		}
		if b, err := Parse(a.String()); err != nil || b != a {
			t.Fatalf("%q = %d, but its text %q = %d, %v", s, a, a.String(), b, err)
		}
	})
}
