package cli

import (
	"context"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/projections/requestlog"
)

// Offline is the data of a gateway that does not run. Reading changes nothing; only Replay without verify and CloseBooks write.
type Offline interface {
	requestlog.Reader
	admin.Events
	admin.Billing
	admin.Statements
	admin.Replay
	admin.Past
	admin.Audit
	admin.Books

	// Probe makes sure that the store takes a write.
	Probe(ctx context.Context) error
	// Unopened names the accounts whose credential the secret key does not open; an error when there is no usable key.
	Unopened(ctx context.Context) ([]string, error)
	// Upstreams are those of the catalogue.
	Upstreams(ctx context.Context) ([]*catalog.Upstream, error)
	Close() error
}
