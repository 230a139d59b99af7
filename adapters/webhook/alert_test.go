package webhook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

func TestEverySourceOfAlertsIsAFactOfTheCatalogue(t *testing.T) {
	for name, from := range sources {
		require.Contains(t, events.Names(), name)
		require.Subset(t, AlertNames(), from.alerts)
	}
	for _, f := range []events.Fact{&breaker.Opened{Upstream: "a"}, &breaker.Closed{Upstream: "a"}, &request.Settled{Unpriced: true},
		&request.Settled{Inherited: true}, &request.Settled{Clamped: true}, &request.Failed{Unpriced: true}, &request.Failed{Inherited: true}} {
		var w Watch
		a, ok := w.Consider(f, Occasion{At: time.Unix(1, 0)})
		require.True(t, ok, "%T", f)
		require.Contains(t, AlertNames(), a.Name)
		row := events.Row{Stream: "s", At: time.Unix(1, 0), Facts: []events.Fact{f}}
		require.NoError(t, events.Encode(&row))
		list, err := events.Messages(&events.Committed{Position: 1, Row: row})
		require.NoError(t, err)
		same, ok, err := new(Watch).message(list[0])
		require.NoError(t, err)
		require.True(t, ok, "what the store holds of %T gives no alert", f)
		require.Equal(t, a.Name, same.Name)
	}
}

func TestEachBreakerOfAnUpstreamIsToldOfOnItsOwn(t *testing.T) {
	var w Watch
	told := func(f events.Fact) bool {
		_, ok := w.Consider(f, Occasion{At: time.Unix(1, 0)})
		return ok
	}
	require.True(t, told(&breaker.Opened{Upstream: "a"}))
	require.False(t, told(&breaker.Opened{Upstream: "a", Reopened: 1}), "a failed probe is no news")
	require.True(t, told(&breaker.Opened{Upstream: "a", Account: "a-1", Model: "m"}))
	require.True(t, told(&breaker.Opened{Upstream: "a", Account: "a-1", Model: "n"}))
	require.True(t, told(&breaker.Closed{Upstream: "a"}))
	require.False(t, told(&breaker.Opened{Upstream: "a", Account: "a-1", Model: "m"}), "another one has closed")
	require.True(t, told(&breaker.Opened{Upstream: "a"}))
}

// Each kind of trouble with money is told of once an hour and upstream, those of failed attempts too.
func TestTroubleWithMoneyIsToldOfOnceAnHourPerUpstreamAndKind(t *testing.T) {
	var w Watch
	told := func(minute int, upstream string, f events.Fact) string {
		a, _ := w.Consider(f, Occasion{At: time.Unix(int64(60*minute), 0), Upstream: upstream})
		return a.Name
	}
	both := &request.Settled{Unpriced: true, Clamped: true}
	require.Equal(t, Unpriced, told(0, "a", both))
	require.Equal(t, UsageClamped, told(1, "a", both), "the other half of it is news")
	require.Empty(t, told(2, "a", both))
	require.Equal(t, Unpriced, told(3, "b", &request.Failed{Unpriced: true}))
	require.Equal(t, PriceInherited, told(4, "b", &request.Settled{Inherited: true}))
	require.Equal(t, PriceInherited, told(5, "b", &request.Failed{Inherited: true}), "where a failed attempt went its row does not tell")
	require.Empty(t, told(6, "c", &request.Failed{Inherited: true}))
	require.Empty(t, told(6, "c", &request.Settled{}))
	require.Equal(t, Unpriced, told(60, "a", both))
}

// What the journal's writer pays for alerts per fact.
func BenchmarkConsider(b *testing.B) {
	var w Watch
	facts := []events.Fact{&request.Admitted{}, &request.Dispatched{}, &request.Settled{}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Consider(facts[i%3], Occasion{})
	}
}
