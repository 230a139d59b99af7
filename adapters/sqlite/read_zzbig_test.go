package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

func TestBigPages(t *testing.T) {
	const n = 100000
	history, err := lawtest.History{Seed: 1, Requests: n, Plain: true, Parallel: 200, Step: 100 * time.Millisecond}.Appends()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "read.db")
	m := openRead(t, path, everyProjection...)
	store := memory.NewStore()
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: everyProjection, Linger: time.Hour})
	for i, b := range lawtest.Commits(t, store, history, 256) {
		r.Push(b)
		if i%10 == 9 {
			_ = r.WaitFor(context.Background(), b[0].Last())
		}
	}
	_ = r.Flush(context.Background())
	st, _ := os.Stat(path)
	t.Logf("%d bytes a request", st.Size()/n)
	ctx := context.Background()
	look := func(name string, f func()) {
		f()
		begun := time.Now()
		f()
		t.Logf("%s %v", name, time.Since(begun))
	}
	look("newest", func() { _, _ = m.Requests(ctx, requestlog.Query{}) })
	look("key", func() { _, _ = m.Requests(ctx, requestlog.Query{Key: "key-a"}) })
	look("key none", func() { _, _ = m.Requests(ctx, requestlog.Query{Key: "nobody"}) })
	look("outcome none", func() { _, _ = m.Requests(ctx, requestlog.Query{Outcome: "failed"}) })
	look("since", func() { _, _ = m.Requests(ctx, requestlog.Query{Since: history[1000].Rows[0].At, Until: history[2000].Rows[0].At}) })
	look("by id", func() { _, _ = m.Request(ctx, history[1000].Rows[0].Request) })
	look("bill days", func() { _, _ = m.Bill(ctx, billing.Query{By: []string{"key"}}) })
	look("bill entries", func() { _, _ = m.Bill(ctx, billing.Query{By: []string{"key"}, Since: history[1000].Rows[0].At}) })
	look("total", func() { _, _ = m.BilledTotal(ctx) })
}
