package actors

import "math"

// ReadStreamsOneByOne lets a history look for the rows of each stream that it reads again, or read all rows again for them,
// until undo.
func ReadStreamsOneByOne(always bool) (undo func()) {
	was := rowsForAStream
	if rowsForAStream = math.MaxInt32; always {
		rowsForAStream = 0
	}
	return func() { rowsForAStream = was }
}
