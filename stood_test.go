package penstock_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/projections/billing"
)

// A bill as of a position or a time is the one that was shown then, whatever came later; running or stopped.
func TestABillAsOfAMomentIsTheOneThatWasShownThen(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("a", fixed(), nil)
	r.apply(map[string]any{"kind": "price", "model": "*", "input": "1.25", "output": "10"})
	key := r.key("team", nil)
	call := func(n int) {
		for i := range n {
			if resp, body := r.post("/v1/chat/completions", chatBody(fmt.Sprint("call ", i)), "Authorization", key); resp.StatusCode != 200 {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
		}
	}
	bill := func(query string) string {
		status, body := r.admin("GET", "/api/v1/billing?by=day,key,upstream"+query, nil)
		require.Equal(t, 200, status, "%s", body)
		return string(body)
	}
	newest := func() string {
		_, body := r.admin("GET", "/api/v1/events?newest=true&limit=1", nil)
		var page struct{ Items []struct{ Position int64 } }
		require.NoError(t, json.Unmarshal(body, &page))
		highest := int64(0)
		for _, e := range page.Items {
			highest = max(highest, e.Position)
		}
		return strconv.FormatInt(highest, 10)
	}
	call(3)
	then, position, at := bill(""), newest(), time.Now()
	require.Contains(t, then, `"requests":3`)
	call(2)
	now := bill("")
	require.Contains(t, now, `"requests":5`)
	require.JSONEq(t, then, bill("&as_of="+position))
	require.JSONEq(t, then, bill("&as_of="+url.QueryEscape(at.UTC().Format(time.RFC3339Nano))))
	require.JSONEq(t, now, bill("&as_of="+newest()))
	status, body := r.admin("GET", "/api/v1/billing?as_of=1000000", nil)
	require.Equal(t, 422, status, "%s", body)
	require.Contains(t, string(body), "the events end at position")
	status, body = r.admin("GET", "/api/v1/billing?as_of=soon", nil)
	require.Equal(t, 422, status, "%s", body)
	require.Contains(t, string(body), "as_of")
	r.verify()

	if !strings.HasPrefix(r.config.Store, "postgres") {
		r.close()
		o := offline(t, r)
		n, err := strconv.ParseInt(position, 10, 64)
		require.NoError(t, err)
		q := billing.Query{}
		require.NoError(t, q.ParseAsOf(position))
		require.EqualValues(t, n, q.AsOf)
		lines, err := o.Bill(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, lines, 1)
		require.EqualValues(t, 3, lines[0].Requests)
		require.NotEqual(t, pricing.Usage{}, lines[0].Usage)
		lines, err = o.Bill(t.Context(), billing.Query{AsOfTime: at.Add(-time.Hour)})
		require.NoError(t, err)
		require.Len(t, lines, 1)
		require.Zero(t, lines[0].Requests)
	}
}
