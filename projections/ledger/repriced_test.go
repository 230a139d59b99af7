package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/ledger"
)

// What a repricing tells of a settlement only since nothing of its request is without a price any more moves nothing and counts no
// attempt (pain 80).
func TestASettlementThatIsOnlyToldCountsNoAttempt(t *testing.T) {
	b := newBook(t)
	failed := &request.Failed{N: 1, Class: "http_5xx", Unpriced: true, UnpricedReason: "price_not_found"}
	settled := &request.Settled{Outcome: request.Completed, Status: 200, Sent: true, Attempts: 2, Cost: 10, UpstreamCost: 5, PriceVersion: "p1"}
	b.tell("2026-03-01 09:00", "r", &request.Admitted{Ask: request.Ask{Key: "k", Model: "m"}},
		&request.Dispatched{N: 1, Upstream: "a"}, failed, &request.Dispatched{N: 2, Upstream: "b"}, settled)
	end := request.Charge{PriceVersion: "p1", Cost: 10, UpstreamCost: 5}
	b.tell("2026-03-02 09:00", "r", &request.Repriced{Reprice: "run", UpstreamCost: 3, Changes: []request.Repricing{
		{N: 1, Position: 3, At: at("2026-03-01 09:00"), Was: request.Charge{Unpriced: true}, Is: request.Charge{PriceVersion: "p1", UpstreamCost: 3}},
		{N: 2, Position: int64(b.settled["r"]), At: at("2026-03-01 09:00"), Was: end, Is: end},
	}})
	sums, err := b.Posted(t.Context(), ledger.PostedQuery{By: []string{"reprice", "upstream"}})
	require.NoError(t, err)
	repriced := map[string]ledger.Sum{}
	for _, s := range sums {
		if s.Reprice != "" {
			repriced[s.Upstream] = s
		}
	}
	require.Len(t, repriced, 1)
	require.Equal(t, int64(1), repriced["a"].Attempts)
	require.EqualValues(t, 3, repriced["a"].UpstreamCost)
}

// The difference of a settlement behind the end of its last attempt is that of the upstream at which the bill has it.
func TestTheDifferenceOfALateEndIsThatOfItsUpstream(t *testing.T) {
	b := newBook(t)
	b.tell("2026-03-01 09:00", "r", &request.Admitted{Ask: request.Ask{Key: "k", Model: "m"}},
		&request.Dispatched{N: 1, Upstream: "a", ResolvedModel: "x"}, &request.Failed{N: 1, Class: "http_5xx"},
		&request.Settled{Outcome: request.FailedOutcome, Status: 502, Sent: true, Attempts: 1, Cost: 10, UpstreamCost: 5})
	b.tell("2026-03-02 09:00", "r", &request.Repriced{Reprice: "run", Cost: 4, UpstreamCost: 2, Changes: []request.Repricing{{
		Position: int64(b.settled["r"]), At: at("2026-03-01 09:00"), Was: request.Charge{Cost: 10, UpstreamCost: 5}, Is: request.Charge{Cost: 14, UpstreamCost: 7},
	}}})
	bill, err := b.Bill(t.Context(), billing.Query{By: []string{"model", "upstream"}})
	require.NoError(t, err)
	sums, err := b.Posted(t.Context(), ledger.PostedQuery{By: []string{"model", "upstream"}})
	require.NoError(t, err)
	require.Len(t, bill, 1)
	require.Len(t, sums, 1)
	require.Equal(t, []string{"x", "a"}, []string{sums[0].Model, sums[0].Upstream})
	require.EqualValues(t, 14, bill[0].Cost)
	require.Equal(t, bill[0].Cost, sums[0].Cost)
	require.Equal(t, bill[0].UpstreamCost, sums[0].UpstreamCost)
}
