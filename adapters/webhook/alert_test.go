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
	for _, f := range []events.Fact{&breaker.Opened{Upstream: "a"}, &breaker.Closed{Upstream: "a"}, &request.Settled{Unpriced: true}} {
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

// What the journal's writer pays for alerts per fact.
func BenchmarkConsider(b *testing.B) {
	var w Watch
	facts := []events.Fact{&request.Admitted{}, &request.Dispatched{}, &request.Settled{}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.Consider(facts[i%3], Occasion{})
	}
}
