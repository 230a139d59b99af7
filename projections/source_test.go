package projections_test

import (
	"context"
	"slices"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
)

func TestWhatASelectiveProjectionNeedsIsInTheCatalogue(t *testing.T) {
	for _, p := range all {
		s, ok := p.(projections.Selective)
		if !ok {
			t.Errorf("%s needs every fact", p.Name())
			continue
		}
		for _, name := range s.Needs() {
			if !slices.Contains(events.Names(), name) {
				t.Errorf("%s needs %q, which is no fact", p.Name(), name)
			}
		}
	}
}

// unscanned is a store that is no events.Scanner.
type unscanned struct{ events.Store }

// Rows do not depend on whether a store can be scanned, and so on which facts are decoded; and progress only goes up.
func TestAFoldOfChosenFactsMakesTheRowsOfAFoldOfAll(t *testing.T) {
	list, err := lawtest.History{Seed: 21, Requests: 300}.Appends()
	noErr(t, err)
	store := memory.NewStore()
	head := end(lawtest.Commits(t, store, list, 7))
	for _, p := range all {
		var last projections.Progress
		ctx := projections.Watch(context.Background(), func(now projections.Progress) {
			if now.Projection != p.Name() || now.Position < last.Position || now.To != head {
				t.Errorf("%+v after %+v", now, last)
			}
			last = now
		})
		m := memory.NewReadModel(p)
		report, err := projections.Fold(ctx, store, p, m, 0)
		noErr(t, err)
		if last.Position != head || report.Events != int64(head) {
			t.Errorf("%s: %+v, %+v", p.Name(), last, report)
		}
		again, err := projections.Verify(context.Background(), unscanned{store}, m, p, shadow)
		noErr(t, err)
		if !again.Equal || again.Rows == 0 {
			t.Errorf("%s: %+v", p.Name(), again)
		}
	}
}
