package admin

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
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections/lawtest"
)

// onePrice is a book of one price for everything.
type onePrice struct{ pricing.Sheet }

func (b *onePrice) Sheets(string, string, string, time.Time) pricing.Sheets {
	return pricing.Sheets{Manual: &b.Sheet}
}

// repricer is a real one, over a store in memory.
func repricer(t testing.TB, store events.Store) *actors.Repricer {
	head, err := store.Head(context.Background())
	require.NoError(t, err)
	j := events.NewJournal(events.JournalOptions{Store: store, Head: head})
	s := actors.NewSystem(actors.Options{Now: time.Now, Recorder: j})
	t.Cleanup(func() {
		_ = s.Stop(context.Background())
		_ = j.Close(context.Background())
	})
	book := &onePrice{pricing.Sheet{Ladder: pricing.Ladder{Flat: pricing.Rates{Input: 1e6}}, Version: "p@1", Origin: pricing.Manual}}
	return &actors.Repricer{
		Store: store, Journal: j, System: s, Now: time.Now,
		Prices: func() actors.PriceBook { return actors.PriceBook{Book: book, Version: "v1", Revision: 7} },
		Books:  func(_ context.Context, do func(*books.Ledger) error) error { return do(&books.Ledger{}) },
	}
}

func TestARepricingIsPreviewedAndThenBookedAsItWasShown(t *testing.T) {
	history, err := lawtest.History{Seed: 1, Requests: 60}.Appends()
	require.NoError(t, err)
	store := memory.NewStore()
	lawtest.Commits(t, store, history, 10)
	srv, err := New(Config{Token: "t0ken", Version: "test", Logger: slog.New(slog.DiscardHandler), Reprice: repricer(t, store)})
	require.NoError(t, err)
	ask := func(body string, want int) (out actors.Repricing, text string) {
		t.Helper()
		req := httptest.NewRequest("POST", "/api/v1/reprice", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer t0ken")
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, req)
		require.Equal(t, want, w.Code, "%s: %s", body, w.Body)
		if want == 200 {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
		}
		return out, w.Body.String()
	}
	preview, text := ask(`{}`, 200)
	require.Positive(t, preview.Requests)
	require.NotContains(t, text, `"run"`)
	for _, member := range []string{`"applied":false`, `"prices":"v1"`, `"revision":7`, `"lines":[{"key":`, `"missing":[]`, `"refused":[]`, `"upstream_difference":"`,
		`"requests_read":`, `"requests_open":0`, `"newly_priced":`} {
		require.Contains(t, text, member)
	}
	one, _ := ask(`{"key":"key-a","model":"gpt-*"}`, 200)
	require.Less(t, one.Requests, preview.Requests)
	for _, l := range one.Lines {
		require.Equal(t, "key-a", l.Key)
	}
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"run":"r"}`: {422, "apply"},
		`{"apply":true,"expect":{"difference":"x"}}`:                                 {422, "body.expect.difference"},
		`{"since":"2026-03-02T00:00:00Z","until":"2026-03-01T00:00:00Z"}`:            {422, "body.until"},
		`{"apply":true,"expect":{"prices":"v0"}}`:                                    {412, "prices"},
		`{"apply":true,"expect":{"prices":"v1","upstream_difference":"12345.678"}}`:  {412, "upstream_difference"},
		`{"apply":true,"model":"gpt-5","expect":{"difference":"0.1","prices":"v1"}}`: {412, "difference"},
	} {
		_, text := ask(body, want.status)
		require.Contains(t, text, want.text, body)
	}
	done, _ := ask(`{"apply":true,"expect":{"prices":"v1","difference":"`+preview.Difference.String()+`"}}`, 200)
	require.Equal(t, preview.RepriceSums, done.RepriceSums)
	require.Len(t, done.Run, 36, "an id is made")
	again, _ := ask(`{"apply":true,"run":"again"}`, 200)
	require.Zero(t, again.Requests)
	require.Equal(t, "again", again.Run)
	require.NoError(t, store.Close())
	_, text = ask(`{"apply":true}`, 503)
	require.Contains(t, text, "unavailable")
}
