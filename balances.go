package penstock

import (
	"context"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/domain/money"
)

// balanceEvery is how often balances are looked at, where anybody wants to know of low ones.
const balanceEvery = 5 * time.Second

// watchBalances alerts when a user's balance falls below the setting alerts.balance_low.
func (g *Gateway) watchBalances(ctx context.Context) {
	tick := time.NewTicker(balanceEvery)
	defer tick.Stop()
	var low lowBalances
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		limit := g.catalogue.Snapshot().Settings.BalanceLow
		if limit <= 0 {
			low = nil
			continue
		}
		for _, data := range low.of(g.accounts.Accounts(), limit) {
			g.alert(webhook.Alert{Name: webhook.BalanceLow, At: time.Now().UTC(), Data: data})
		}
	}
}

// lowBalances are the users whose low balance has been told of. The zero value has none.
type lowBalances map[string]bool

// of are those to tell of now: once each until their balance has been above the limit again.
func (low *lowBalances) of(accounts []actors.AccountView, limit money.Amount) (list []webhook.LowBalance) {
	now := lowBalances{}
	for i := range accounts {
		a := &accounts[i]
		balance := a.Credited - a.Spent
		if !a.OnBalance || balance >= limit {
			continue
		}
		if now[a.User] = true; !(*low)[a.User] {
			list = append(list, webhook.LowBalance{User: a.User, Balance: balance, Limit: limit})
		}
	}
	*low = now
	return list
}
