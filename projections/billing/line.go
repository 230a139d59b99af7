package billing

import (
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Line is one line of a bill. A field that the bill is not grouped by is nil and left out of the JSON; one that it is
// grouped by is there even when it is "" (a request without a user).
type Line struct {
	Day          *string `json:"day,omitempty"` // UTC, 2006-01-02
	Key          *string `json:"key,omitempty"`
	User         *string `json:"user,omitempty"`
	Group        *string `json:"group,omitempty"`
	Model        *string `json:"model,omitempty"` // resolved
	Upstream     *string `json:"upstream,omitempty"`
	Account      *string `json:"account,omitempty"`
	PriceVersion *string `json:"price_version,omitempty"`
	PriceOrigin  *string `json:"price_origin,omitempty"` // manual, synced, or "" when nobody told
	PaidBy       *string `json:"paid_by,omitempty"`      // balance, subscription/<id>, or "" when no money of a user was spent

	Requests         int64         `json:"requests"` // settled ones that were sent; by upstream: that ended there
	Attempts         int64         `json:"attempts"`
	Usage            pricing.Usage `json:"usage"`
	Cost             money.Amount  `json:"cost"`
	UpstreamCost     money.Amount  `json:"upstream_cost"`
	UnpricedRequests int64         `json:"unpriced_requests"` // of which an attempt has no price
}

// Nothing says that nothing is left on a line: all that was there was priced anew, and is on another one.
func (l *Line) Nothing() bool {
	return l.Requests == 0 && l.Attempts == 0 && l.Usage.IsZero() && l.Cost == 0 && l.UpstreamCost == 0 && l.UnpricedRequests == 0
}
