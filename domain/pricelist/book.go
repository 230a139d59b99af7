package pricelist

import (
	"encoding/json"
	"fmt"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
)

// ReadBook reads a price book: a JSON array of price resources. Each is taken as synced, whatever it says. The error
// names the entry and the field.
func ReadBook(text []byte) (List, error) {
	var documents []json.RawMessage
	if err := json.Unmarshal(text, &documents); err != nil {
		return List{}, fmt.Errorf("is not a price book, which is a JSON array of price resources (%v)", err)
	}
	l := List{Report: Report{Entries: len(documents)}}
	for i, d := range documents {
		r, _, err := catalog.DecodeResource(catalog.KindPrice, d)
		if err != nil {
			return List{}, fmt.Errorf("entry %d: %w", i+1, err)
		}
		p := r.(*catalog.Price)
		p.Source, p.EffectiveFrom, p.ID = string(pricing.Synced), nil, catalog.SyncedID(p.Upstream, p.Model)
		if _, err := p.Compile(""); err != nil {
			return List{}, fmt.Errorf("entry %d: %w", i+1, err)
		}
		l.Prices = append(l.Prices, p)
	}
	return l, nil
}
