package events

import (
	"bytes"
	"fmt"
	"math"
	"testing"
)

// Each byte at each place of texts of each length around the eight that are looked at together, among bytes of all kinds.
func TestAStringIsWrittenAsItIsOnlyWhenEachByteStandsForItself(t *testing.T) {
	for length := range 26 {
		for at := range length {
			for _, among := range []byte{' ', '!', '#', '[', ']', 'a', 0x7f} {
				text := bytes.Repeat([]byte{among}, length)
				for c := range 256 {
					text[at] = byte(c)
					into := make([]byte, length)
					switch got := copyPlain(into, string(text)); {
					case got != plain[c]:
						t.Fatalf("byte %#x at %d of %d among %#x: plain %v", c, at, length, among, got)
					case got && !bytes.Equal(into, text):
						t.Fatalf("%q was copied as %q", text, into)
					}
				}
			}
		}
	}
	if !copyPlain(nil, "") {
		t.Fatal("the empty text")
	}
}

func TestAWholeNumberIsWrittenInDecimal(t *testing.T) {
	numbers := []int64{0, math.MaxInt64, math.MinInt64, -1}
	for n := int64(1); n < math.MaxInt64/10; n *= 10 {
		numbers = append(numbers, n-1, n, n+1, 9*n, -n)
	}
	for _, n := range numbers {
		var m members
		m.writeInteger(`,"n":`, n)
		if got, want := string(m.out), fmt.Sprintf(`,"n":%d`, n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
