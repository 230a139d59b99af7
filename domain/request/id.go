package request

import (
	"encoding/hex"
	"strings"
	"time"
)

// TimeOf is when a request came, by its id: to the millisecond, in UTC. false: the id is not of our making (a UUIDv7) and does not say.
func TimeOf(id string) (time.Time, bool) {
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(b) != 16 || b[6]>>4 != 7 {
		return time.Time{}, false
	}
	var ms int64
	for _, x := range b[:6] {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms).UTC(), true
}
