package memory_test

import (
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/storetest"
)

func TestTheMemoryStoreKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) events.Store { return memory.NewStore() })
}

func TestAMemoryStoreIsMoved(t *testing.T) {
	storetest.Move(t, storetest.Kinds{"memory": func(*testing.T) storetest.Movable { return memory.NewStore() }})
}
