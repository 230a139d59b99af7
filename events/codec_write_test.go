package events

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/penstock/penstock/domain/request"
)

// Payloads share memory: one that is written later, one that outgrows what is left of it, and one whose owner appends to it must
// leave the others as they are.
func TestAPayloadStaysAsItWasWritten(t *testing.T) {
	sizes := []int{10, 700, 1, leafLeast - 100, 90, leafSize - 400, 3, 2 * leafSize, 40, 5000}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var rows []Row
			var was [][]byte
			for i := range 300 {
				r := Row{Facts: []Fact{&request.Rejected{Reason: strings.Repeat(string(rune('a'+i%26)), sizes[i%len(sizes)])}}}
				if err := Encode(&r); err != nil {
					t.Error(err)
				}
				rows, was = append(rows, r), append(was, bytes.Clone(r.Payload))
			}
			for i := range rows {
				_ = append(rows[i].Payload, strings.Repeat("#", 100)...)
			}
			for i := range rows {
				if !bytes.Equal(rows[i].Payload, was[i]) || cap(rows[i].Payload) > 4*leafSize {
					t.Errorf("row %d: %.60q in %d bytes, was %.60q", i, rows[i].Payload, cap(rows[i].Payload), was[i])
				}
			}
		})
	}
	all.Wait()
}
