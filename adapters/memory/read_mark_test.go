package memory_test

import (
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/ledger"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

func TestTheMarksOfTheLogKeepTheLawsOfProjections(t *testing.T) {
	list := []projections.Projection{requestlog.Projection{}, billing.Projection{}, stats.Projection{}, ledger.Projection{}, requestlog.Marker{}}
	lawtest.Run(t, lawtest.Subject{
		Projections: list,
		Store:       func(testing.TB) events.Store { return memory.NewStore() },
		Model:       func(testing.TB) projections.ReadModel { return memory.NewReadModel(list...) },
		Shadow:      func() (projections.ReadModel, error) { return memory.NewReadModel(list...), nil },
		Seeds:       2,
	})
}
