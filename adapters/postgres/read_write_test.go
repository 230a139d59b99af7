package postgres

import (
	"testing"

	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// BenchmarkRowsAsArrays is what a row of the request log costs before it is sent.
func BenchmarkRowsAsArrays(b *testing.B) {
	tables, err := readTables(requestlog.Projection{})
	if err != nil {
		b.Fatal(err)
	}
	row := []projections.Value{
		projections.Int(1234567), projections.Text("019ed8f0-0000-7000-8000-000000000000"), projections.Int(1_772_000_000_000_000),
		projections.Text("team-a"), projections.Text("gpt-5-mini"), projections.Text("gpt-5-mini"), projections.Text("openai-main"),
		projections.Text("completed"), projections.Int(200), projections.Money(13_579_500), projections.Money(12_345_000),
		projections.Int(2_346_789), projections.Text(`{"attempts":[{"n":1,"upstream":"openai-main","account":"openai-main-1","status":200}],"user":"alice"}`),
	}
	batch := &readBatch{table: tables[0], columns: make([][]byte, len(row)), nulls: make([]bool, len(row))}
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.add(row); err != nil {
			b.Fatal(err)
		}
		if batch.rows == chunkRows {
			batch.arrays()
			batch.reset()
		}
	}
}
