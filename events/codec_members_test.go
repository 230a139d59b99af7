package events

import (
	"bytes"
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
					if got := isPlain(string(text)); got != plain[c] {
						t.Fatalf("byte %#x at %d of %d among %#x: plain %v", c, at, length, among, got)
					}
				}
			}
		}
	}
	if !isPlain("") {
		t.Fatal("the empty text")
	}
}
