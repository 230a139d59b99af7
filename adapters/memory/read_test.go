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

func TestReadModelKeepsTheLawsOfProjections(t *testing.T) {
	all := []projections.Projection{requestlog.Projection{}, billing.Projection{}, stats.Projection{}, ledger.Projection{}}
	lawtest.Run(t, lawtest.Subject{
		Projections: all,
		Store:       func(testing.TB) events.Store { return memory.NewStore() },
		Model:       func(testing.TB) projections.ReadModel { return memory.NewReadModel(all...) },
		Shadow:      func() (projections.ReadModel, error) { return memory.NewReadModel(all...), nil },
		Seeds:       10,
	})
}
