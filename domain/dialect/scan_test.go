package dialect

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// plainStop is stop, a byte at a time.
func plainStop(b []byte, i int) (end int, ascii bool) {
	ascii = true
	for ; i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20; i++ {
		ascii = ascii && b[i] < 0x80
	}
	return i, ascii
}

func TestARunOfPlainBytesEndsAtEveryStopAndAtNothingElse(t *testing.T) {
	check := func(b []byte, from int) {
		t.Helper()
		end, high := stop(b, from, 0)
		if want, ascii := plainStop(b, from); end != want || high&highBits == 0 != ascii {
			t.Fatalf("%q from %d: ends at %d, high %x; want %d, ascii %v", b, from, end, high, want, ascii)
		}
	}
	for length := range 100 {
		for at := range length {
			for c := range 256 { // any byte at any place, before another stop that is right behind it
				b := bytes.Repeat([]byte("a"), length+1)
				b[at], b[at+1] = byte(c), '"'
				check(b, 0)
			}
		}
		check(bytes.Repeat([]byte{0x7f}, length), 0)
		check(bytes.Repeat([]byte{0xff}, length), 0)
	}
	r := rand.New(rand.NewPCG(1, 2))
	some := []byte{0x00, 0x1f, 0x20, 0x21, '"', '#', '[', '\\', ']', 0x7f, 0x80, 0x9f, 0xa0, 0xa2, 0xdc, 0xff}
	for range 200_000 {
		b := bytes.Repeat([]byte("z"), r.IntN(90))
		for range r.IntN(4) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = some[r.IntN(len(some))]
			}
		}
		check(b, r.IntN(len(b)+1))
	}
}
