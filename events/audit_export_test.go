package events

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client may say anything: JSON has no way to write bytes that are no UTF-8, and they were hashed.
func TestTextsThatAreNoUTF8AreIntactInAnExport(t *testing.T) {
	var h Hasher
	r := RawRow{Position: 1, N: 1, Row: Row{Stream: "node/\xff", Types: "node.started", Key: "\x00k", Upstream: "a\xc3", Payload: []byte(`["` + "\xfe" + `"]`)}}
	r.Hash = h.Row(1, &r.Row)
	c := Commit{First: 1, N: 1, Bounds: Bounds{LowWater: 1, Earliest: r.At.UnixMicro(), Latest: r.At.UnixMicro()}}
	c.Hash = h.Commit([32]byte{}, 1, 1, c.Bounds, [][32]byte{r.Hash})
	var file bytes.Buffer
	_, err := Export(context.Background(), &former{[]Commit{c}, []RawRow{r}}, 1, 1, nil, &file)
	require.NoError(t, err)
	f, err := ReadExport(&file)
	require.NoError(t, err)
	report, err := VerifyExport(context.Background(), f, nil)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
}
