package billing_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
)

// A closing brings back what was summed up, with every class of usage and who set the price; one that was written before
// those were told still opens.
func TestAClosingOpensToTheLinesThatItHas(t *testing.T) {
	for name, text := range map[string]string{
		"every class": `{"day":"2026-03-01","key":"k","model":"m","upstream":"u","price_version":"p@1","price_origin":"synced","paid_by":"subscription/gold","requests":2,"attempts":3,
			"usage":{"input":1,"cached_input":2,"cache_write_5m":3,"cache_write_1h":4,"output":5,"reasoning":4,"audio_input":7,"audio_output":8,
			"image_input":9,"image_output":10,"images":11,"web_searches":12,"file_searches":13},"cost":"1.5","upstream_cost":"1.25","unpriced_requests":1}`,
		"of an earlier version": `{"day":"2026-03-01","key":"k","price_version":"p@1","requests":1,"attempts":1,
			"usage":{"input":1,"cached_input":0,"cache_write_5m":0,"cache_write_1h":0,"output":5,"reasoning":0},"cost":"1"}`,
	} {
		var line books.Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		var out projections.Changes
		if err := (billing.Projection{}).Open(&books.Closed{Lines: []books.Line{line}}, &out); err != nil {
			t.Fatal(err)
		}
		var rows [][]projections.Value
		for c := range out.All() {
			rows = append(rows, c.Values)
		}
		if have := billing.Lines(rows); !reflect.DeepEqual(have, []books.Line{line}) {
			t.Errorf("%s:\nhave %+v\nwant %+v", name, have, line)
		}
	}
}
