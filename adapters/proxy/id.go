package proxy

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// newID is a UUID of version 7 (RFC 9562): milliseconds, their fraction in 4096ths, and 62 bits of chance. It names a
// request and protects nothing, so that chance need not come from the kernel.
func newID(now time.Time) string {
	fraction := uint64(now.Nanosecond()%1e6) * 4096 / 1e6
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|7<<12|fraction)
	binary.BigEndian.PutUint64(id[8:], 1<<63|rand.Uint64()>>2)
	var text [36]byte
	at := 0
	for i, b := range id {
		switch i {
		case 4, 6, 8, 10:
			text[at] = '-'
			at++
		}
		text[at], text[at+1] = hexDigits[b>>4], hexDigits[b&15]
		at += 2
	}
	return string(text[:])
}

const hexDigits = "0123456789abcdef"
