package limit_test

import (
	"testing"

	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/limit"
)

// A33, A34, A36, B72: every code is one of the table of refusals, with its status, and says nothing was sent.
func TestEveryCodeIsInTheTableOfRefusals(t *testing.T) {
	for code, status := range map[limit.Code]int{
		limit.RateLimited: 429, limit.QuotaExceeded: 429, limit.BalanceExhausted: 429, limit.SubscriptionExhausted: 429,
		limit.BudgetExceeded: 429, limit.BudgetUnboundable: 400,
	} {
		r := failure.New(string(code), "")
		if r.Code != string(code) || r.Status != status || (r.Stage != failure.StageAuthFilter) != (status == 400) {
			t.Errorf("%s: %+v", code, r)
		}
	}
}
