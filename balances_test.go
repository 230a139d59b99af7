package penstock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
)

func TestALowBalanceIsToldToWebhooks(t *testing.T) {
	r := newRig(t, nil)
	r.cheap(0)
	r.apply(map[string]any{"kind": "user", "id": "ann"}, map[string]any{"kind": "user", "id": "eve"})
	key := r.key("team-a", map[string]any{"user": "ann"})
	box := newMailbox(t)
	r.apply(hookOf("ops", box.URL, "alert.balance_low"), map[string]any{"kind": "setting", "name": "alerts.balance_low", "value": "10"})
	r.book(&ledger.Credited{User: "ann", ID: "first", Amount: 10 * money.USD})
	r.chat(key)
	box.has(t, "alert.balance_low")
	require.Equal(t, map[string]any{"user": "ann", "balance": "9.993", "limit": "10"}, box.facts[0].Data)
}

func TestALowBalanceIsToldOfOnceForEachFall(t *testing.T) {
	look := penstock.LowBalances()
	told := func(spent ...money.Amount) (users []string) {
		var accounts []actors.AccountView
		for i, s := range spent {
			accounts = append(accounts, actors.AccountView{User: string(rune('a' + i)), OnBalance: i < 2, Credited: 10, Spent: s, Overdraft: 100, Left: 110 - s})
		}
		for _, low := range look(accounts, 5) {
			users = append(users, low.User)
		}
		return users
	}
	require.Empty(t, told(5, 0, 9), "the limit is reached, and c does not live on a balance")
	require.Equal(t, []string{"a"}, told(6, 0, 9))
	require.Equal(t, []string{"b"}, told(12, 6, 9), "a was told of")
	require.Empty(t, told(4, 7, 9))
	require.Equal(t, []string{"a"}, told(6, 7, 9))
	require.Empty(t, told())
	require.Equal(t, []string{"a"}, told(6), "it was not there")
}
