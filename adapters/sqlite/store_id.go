package sqlite

import (
	"strings"

	"github.com/penstock/penstock/events"
)

// A row is found by the time in its request's id when it is at most slack older than the id, and in a commit before which no row was
// more than window younger: that bounds what is looked through for a request, whether there is one or not. All others are listed.
// In microseconds; what is stored rests on both.
const (
	slack  = 1_000_000
	window = 60_000_000
)

// requestID is what a request's stream tells when the id is a UUIDv7, lower case, as the gateway makes them.
type requestID struct {
	at     int64  // microseconds since 1970
	chance uint64 // the last 64 bits: all but a few are random
}

// mark is by what a block of the index knows the id.
func (id requestID) mark() uint32 { return uint32(id.chance) }

// found says that a row of the time is found by the time of the id. before is the time that had been reached before its commit.
func (id requestID) found(at, before int64) bool { return id.reached(at) && before <= id.at+window }

// reached says that a row may be found from a commit on that has reached the time.
func (id requestID) reached(latest int64) bool { return latest >= id.at-slack }

// idOf is the id of a stream; false: it has none of that form, and all its rows are listed.
func idOf[T ~string | ~[]byte](stream T) (id requestID, ok bool) {
	const begin = len(events.RequestStreams)
	if len(stream) != begin+36 || string(stream[:begin]) != events.RequestStreams || stream[begin+14] != '7' {
		return id, false
	}
	var high uint64
	for i := range 36 {
		c := stream[begin+i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return id, false
			}
			continue
		}
		digit := digits[c]
		if digit > 15 {
			return id, false
		}
		if i < 13 {
			high = high<<4 | uint64(digit)
		} else if i > 18 {
			id.chance = id.chance<<4 | uint64(digit)
		}
	}
	id.at = int64(high) * 1000
	return id, true
}

// digits are the values of lower-case hex digits, 255 for all else.
var digits = func() (values [256]byte) {
	for c := range values {
		values[c] = 255
		if i := strings.IndexByte("0123456789abcdef", byte(c)); i >= 0 {
			values[c] = byte(i)
		}
	}
	return values
}()

// names are those under which a row is listed, "" for none. late: it stands behind the end of its stream.
func (id requestID) names(regular, late bool, stream, request string, at, before int64) (names [2]string) {
	if !regular || late || !id.found(at, before) {
		names[0] = stream
	}
	if own, _ := aboutOf(stream); request != "" && own != request {
		names[1] = events.RequestStreams + request
	}
	return names
}

// aboutOf is the request that a stream's name tells of. Rows of such a stream hold the name of another one only.
func aboutOf(stream string) (request string, known bool) {
	if request, known = strings.CutPrefix(stream, events.RequestStreams); !known {
		return "", false
	}
	return request, true
}
