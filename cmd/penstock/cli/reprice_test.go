package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/history"
)

// listed is a book of one price for everything but one model.
type listed struct{ sheet pricing.Sheet }

func (b *listed) Sheets(model, _, _ string, _ time.Time) pricing.Sheets {
	if model == "fast" {
		return pricing.Sheets{}
	}
	return pricing.Sheets{Manual: &b.sheet}
}

// counting is a desk whose gateway has a real history to price anew, one day of which is closed.
func counting(t *testing.T) *desk {
	d := newDesk(t)
	store := memory.NewStore()
	history, err := history.History{Seed: 4, Requests: 120, ASCII: true, Step: 10 * time.Minute}.Appends()
	require.NoError(t, err)
	for _, a := range history {
		_, err := store.Append(t.Context(), []events.Append{a}, 1)
		require.NoError(t, err)
	}
	head, err := store.Head(t.Context())
	require.NoError(t, err)
	j := events.NewJournal(events.JournalOptions{Store: store, Head: head})
	s := actors.NewSystem(actors.Options{Now: time.Now, Recorder: j})
	t.Cleanup(func() {
		_ = s.Stop(context.Background())
		_ = j.Close(context.Background())
	})
	var ledger books.Ledger
	ledger.Evolve(&books.Closed{Day: "2026-03-01", Span: books.Span{First: 1, Last: 40, Through: 90}})
	book := &listed{pricing.Sheet{Ladder: pricing.Ladder{Flat: pricing.Rates{Input: 1e6, Output: 1e6}}, Version: "p@2", Origin: pricing.Manual}}
	srv, err := admin.New(admin.Config{Token: adminToken, Version: "test", Logger: slog.New(slog.DiscardHandler), Reprice: &actors.Repricer{
		Store: store, Journal: j, System: s, Now: time.Now,
		Prices: func() actors.PriceBook { return actors.PriceBook{Book: book, Version: "abc123"} },
		Books:  func(_ context.Context, do func(*books.Ledger) error) error { return do(&ledger) },
	}})
	require.NoError(t, err)
	web := httptest.NewServer(srv.Handler())
	t.Cleanup(web.Close)
	d.env["PENSTOCK_ADMIN_URL"] = web.URL
	return d
}

func TestRepricePreviewsAndSaysHowToBookIt(t *testing.T) {
	d := counting(t)
	preview := d.ok("reprice", "--model", "gp*")
	for _, text := range []string{
		"KEY    MODEL", "DIFFERENCE", "key-a  gpt-5", "total  -", "days up to 2026-03-01 are closed", "nothing was changed; to book it: penstock reprice --model 'gp*' --apply --prices abc123",
	} {
		require.Contains(t, preview, text)
	}
	require.NotContains(t, preview, "claude")
	closed := d.ok("reprice", "--since", "2026-03-01")
	require.Contains(t, closed, "not changed: the books of that day are closed: 2026-03-01 (")
	require.Contains(t, closed, "no price for fast at ")

	var shown, done actors.Repricing
	require.NoError(t, json.Unmarshal([]byte(d.ok("reprice", "--json")), &shown))
	require.Contains(t, d.fails(1, "reprice", "--apply", "--prices", "old"), "prices: they were changed since")
	require.Contains(t, d.fails(1, "reprice", "--apply", "--difference", "17"), "it would be "+shown.Difference.String()+", not 17")
	require.NoError(t, json.Unmarshal([]byte(d.ok("reprice", "--apply", "--prices", "abc123", "--difference", shown.Difference.String(), "--json")), &done))
	require.True(t, done.Applied)
	require.Equal(t, shown.RepriceSums, done.RepriceSums)
	require.Contains(t, d.ok("reprice"), "there is nothing to book")
	require.Contains(t, d.ok("reprice", "--apply"), "there was nothing to book")

	for _, c := range [][]string{
		{"--difference: \"much\"", "--apply", "--difference", "much"}, {"beside --apply", "--prices", "x"}, {"--since", "--since", "soon"},
		{"--until: is not after --since", "--since", "2026-04-01", "--until", "2026-03-01"},
	} {
		require.Contains(t, d.fails(2, append([]string{"reprice"}, c[1:]...)...), c[0])
	}
}

func TestTheStoryOfARequestTellsItsRepricings(t *testing.T) {
	at := noon.Add(time.Minute)
	said := sayRepriced(&request.Repriced{Reprice: "fix-1", Changes: []request.Repricing{
		{N: 1, At: at, Was: request.Charge{Unpriced: true}, Is: request.Charge{PriceVersion: "p@2", PriceOrigin: pricing.Manual, UpstreamCost: 15e9}},
		{N: 2, At: at, Was: request.Charge{PriceVersion: "p@1", Cost: 2e10, UpstreamCost: 2e10}, Is: request.Charge{PriceVersion: "p@2", Cost: 1e10, UpstreamCost: 1e10}},
		{N: 0, At: at},
	}})
	require.Equal(t, "by run fix-1; attempt 1 of 2026-06-01 12:01:00 UTC was unpriced, is 0 USD by price p@2 (manual) (owed to the upstream: 0, now 1.5); "+
		"attempt 2 of 2026-06-01 12:01:00 UTC was 2 USD by price p@1, is 1 USD by price p@2", said)
	require.False(t, strings.Contains(said, "the end"))
}
