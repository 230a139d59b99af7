package postgres_test

import (
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

var markedProjections = append(everyProjection[:len(everyProjection):len(everyProjection)], requestlog.Marker{})

func TestTheMarksOfTheLogKeepTheLawsOfProjections(t *testing.T) {
	lawtest.Run(t, lawtest.Subject{
		Projections: markedProjections,
		Store:       memoryStore,
		Model:       func(t testing.TB) projections.ReadModel { return openMarked(t) },
		Shadow:      func() (projections.ReadModel, error) { return memory.NewReadModel(markedProjections...), nil },
		Seeds:       1,
	})
}

// Marks or no marks, a page is what the memory model says; with them, every filter is asked for in some blocks only.
func TestAPageOfTheLogThroughMarksIsThatOfTheMemoryModel(t *testing.T) {
	lawtest.Marks(t, markedProjections, memoryStore,
		func(t testing.TB) lawtest.Readers { return openMarked(t) },
		func(testing.TB) lawtest.Readers { return memory.NewReadModel(markedProjections...) })
}

func openMarked(t testing.TB) *postgres.ReadModel {
	return openRead(t, readDatabase(t), markedProjections...)
}
