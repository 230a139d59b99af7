package penstock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
)

// Clocks that jump over midnight, forth and back, for minutes and for days, while requests run: days are closed, what they
// came to stays, and rebuilt is live.
func TestBooksOfClocksThatJumpOverMidnightStayWhole(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r, _ := aged(t, map[string]string{"retention.events": "5"})
			random := rand.New(rand.NewPCG(seed, 8))
			first := midnight(time.Now()).AddDate(0, 0, -12).Add(12 * time.Hour)
			history, err := lawtest.History{Seed: seed + 40, Requests: 200, Start: first, Step: 15 * time.Minute}.Appends()
			require.NoError(t, err)
			shift, left := time.Duration(0), 0
			for i := range history {
				if left--; left < 0 {
					left = random.IntN(12)
					shift = []time.Duration{0, 0, time.Minute, -time.Minute, 25 * time.Hour, -25 * time.Hour, 60 * time.Hour, -14 * time.Hour}[random.IntN(8)]
				}
				for k := range history[i].Rows {
					history[i].Rows[k].At = history[i].Rows[k].At.Add(shift)
				}
			}
			folder := r.config.DataDir
			s, err := sqlite.OpenStore(filepath.Join(folder, "events.db"), sqlite.StoreOptions{})
			require.NoError(t, err)
			lawtest.Commits(t, s, history, 5, 1, 9)
			require.NoError(t, s.Close())
			o := offline(t, r)
			whole := func() string {
				lines, err := o.Bill(context.Background(), billing.Query{By: []string{"day", "key", "upstream", "price_version"}})
				require.NoError(t, err)
				text, err := json.Marshal(lines)
				require.NoError(t, err)
				return string(text)
			}
			before := whole()
			closed, err := o.CloseBooks(context.Background(), midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly))
			require.NoError(t, err)
			require.NotEmpty(t, closed)
			require.JSONEq(t, before, whole())
			reports, err := o.Replay(context.Background(), "", true)
			require.NoError(t, err)
			for _, report := range reports {
				require.True(t, report.Equal, "%+v", report)
			}
			_, err = o.Replay(context.Background(), "", false)
			require.NoError(t, err)
			require.JSONEq(t, before, whole())
			audit, err := o.AuditVerify(context.Background(), nil)
			require.NoError(t, err)
			require.True(t, audit.Equal, "%+v", audit)
			require.NotZero(t, audit.Archived)
			require.NoError(t, o.Close())
		})
	}
}
