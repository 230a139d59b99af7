package projections_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/requestlog"
)

// projected is a store with traffic and a model that tells all of it.
func projected(t *testing.T) (*memory.Store, *memory.ReadModel, events.Position) {
	store, m := memory.NewStore(), memory.NewReadModel(all...)
	at := end(traffic(t, store, 60))
	lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})
	return store, m, at
}

// tamper changes living rows behind the back of the events.
func tamper(t *testing.T, m projections.ReadModel, p projections.Projection, at events.Position, change func(*projections.Changes)) {
	t.Helper()
	var changes projections.Changes
	change(&changes)
	step := projections.Step{Projection: p.Name(), Version: p.Version(), From: at, To: at}
	noErr(t, m.Commit(context.Background(), &changes, []projections.Step{step}))
}

// firstRow is the first row of a table, to be changed.
func firstRow(t *testing.T, m projections.ReadModel, table *projections.Table) []projections.Value {
	t.Helper()
	s, err := m.Snapshot(context.Background())
	noErr(t, err)
	rows, err := s.Scan(context.Background(), table)
	noErr(t, err)
	row, _ := rows.Next()
	return slices.Clone(row)
}

func TestVerifyNamesTheRowsThatDiffer(t *testing.T) {
	store, m, at := projected(t)
	tamper(t, m, billing.Projection{}, at, func(c *projections.Changes) {
		row := firstRow(t, m, billing.Entries)
		cost := billing.Entries.Column("cost")
		row[cost] = projections.Int(row[cost].Int() + 1) // one unit of 1e-10 USD
		c.Put(billing.Entries, row...)
		row[0] = projections.Int(1 << 40)
		c.Put(billing.Entries, row...)
	})
	report, err := projections.Verify(context.Background(), store, m, billing.Projection{}, shadow)
	noErr(t, err)
	if report.Equal || report.DifferingRows != 2 || report.Events == 0 || report.Projection != "billing" {
		t.Errorf("%+v", report)
	}
	text := strings.Join(report.Differences, "\n")
	if !strings.Contains(text, "cost is ") || !strings.Contains(text, "bill_entries [1099511627776]: only in the living rows") {
		t.Errorf("differences:\n%s", text)
	}
}

func TestVerifyCountsMissingRowsAndSpellsOutTheFirst(t *testing.T) {
	store, m, at := projected(t)
	rows, _ := lawtest.Dump(t, m, requestlog.Projection{})
	noErr(t, m.Reset(context.Background(), requestlog.Projection{}))
	step := projections.Step{Projection: "requestlog", Version: requestlog.Projection{}.Version(), From: 0, To: at}
	noErr(t, m.Commit(context.Background(), &projections.Changes{}, []projections.Step{step}))
	report, err := projections.Verify(context.Background(), store, m, requestlog.Projection{}, shadow)
	noErr(t, err)
	if want := int64(len(rows)); want < 60 || report.DifferingRows != want || report.Rows != want || len(report.Differences) != projections.DifferencesMax ||
		!strings.HasSuffix(report.Differences[0], "missing in the living rows") {
		t.Errorf("%+v", report)
	}
}

func TestVerifyRefusesRowsOfAnotherVersion(t *testing.T) {
	store, m, at := projected(t)
	step := projections.Step{Projection: "stats", Version: 7, From: at, To: at}
	noErr(t, m.Commit(context.Background(), &projections.Changes{}, []projections.Step{step}))
	if _, err := projections.Verify(context.Background(), store, m, all[2], shadow); err == nil || !strings.Contains(err.Error(), "rebuild it first") {
		t.Errorf("%v", err)
	}
}

func TestRebuildRepairsRowsOfARunningServer(t *testing.T) {
	ctx := context.Background()
	store, m := memory.NewStore(), memory.NewReadModel(all...)
	list, err := lawtest.History{Seed: 3, Requests: 80}.Appends()
	noErr(t, err)
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all, Linger: time.Hour})
	batches := lawtest.Commits(t, store, list[:len(list)/2], 3)
	for _, b := range batches {
		r.Push(b)
	}
	noErr(t, r.Flush(ctx))
	tamper(t, m, billing.Projection{}, end(batches), func(c *projections.Changes) {
		row := firstRow(t, m, billing.Days)
		c.Add(billing.Days, row...)
	})
	further := lawtest.Commits(t, store, list[len(list)/2:], 3)
	report, err := r.Rebuild(ctx, "billing", func() (projections.ReadModel, error) {
		for _, b := range further { // which are waiting when the swap comes
			r.Push(b)
		}
		return shadow()
	})
	noErr(t, err)
	if report.Rows == 0 || !report.Equal || report.Events != int64(end(further)) {
		t.Errorf("%+v", report)
	}
	noErr(t, r.Flush(ctx))
	sameAsReplayed(t, store, m)
	if _, err := r.Rebuild(ctx, "weather", shadow); err == nil || !strings.Contains(err.Error(), `"weather"`) {
		t.Errorf("a projection that is none: %v", err)
	}
}

// late appends a further row to the stream of a request that has ended.
func late(t *testing.T, store events.Store, of *events.Committed, fact events.Fact) *events.Committed {
	t.Helper()
	row := events.Row{
		Stream: of.Stream, Version: of.Version + int64(len(of.Facts)), At: of.At.Add(time.Hour), Request: of.Request,
		Key: of.Key, Facts: []events.Fact{fact},
	}
	noErr(t, events.Encode(&row))
	return lawtest.Commits(t, store, []events.Append{{Rows: []events.Row{row}}})[0][0]
}

func TestALateFactOfAnEndedRequestFindsItsWholeStory(t *testing.T) {
	ctx := context.Background()
	store, m := memory.NewStore(), memory.NewReadModel(all...)
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})
	var settled *events.Committed
	for _, b := range traffic(t, store, 60) {
		r.Push(b)
		for _, c := range b {
			if c.Terminal && settled == nil {
				settled = c
			}
		}
	}
	noErr(t, r.Flush(ctx))
	before, err := m.Request(ctx, settled.Request)
	noErr(t, err)
	c := late(t, store, settled, &request.Progressed{N: 1, Usage: pricing.Usage{Input: 1}, UsageSource: pricing.Partial})
	r.Push([]*events.Committed{c})
	noErr(t, r.Flush(ctx))
	after, err := m.Request(ctx, settled.Request)
	noErr(t, err)
	if after == nil || after.State != requestlog.Done || after.Outcome != before.Outcome || after.Position != before.Position || after.Cost != before.Cost {
		t.Errorf("after a late fact: %+v, before %+v", after, before)
	}
	sameAsReplayed(t, store, m)
}

func TestARowThatCanNotBeDecodedIsPassedOver(t *testing.T) {
	store, m := memory.NewStore(), memory.NewReadModel(all...)
	list, err := lawtest.History{Seed: 5, Requests: 30, Plain: true}.Appends()
	noErr(t, err)
	broken := &list[7].Rows[0]
	broken.Payload = bytes.Replace(broken.Payload, []byte("{"), []byte("["), 1)
	lawtest.Commits(t, store, list, 4)
	lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})
	rows, at := lawtest.Dump(t, m, requestlog.Projection{})
	if head, _ := store.Head(context.Background()); at != head || len(rows) < 29 {
		t.Errorf("%d rows at %d, the store is at %d", len(rows), at, head)
	}
}

func TestARequestWhoseBeginningIsGoneLeavesNoRow(t *testing.T) {
	store, m := memory.NewStore(), memory.NewReadModel(all...)
	r := lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: all})
	other := memory.NewStore()
	c := traffic(t, other, 1)[0][0]
	c.Version, c.Position = 2, 1
	r.Push([]*events.Committed{c})
	noErr(t, r.Flush(context.Background()))
	if rows, at := lawtest.Dump(t, m, requestlog.Projection{}); len(rows) != 0 || at != c.Last() {
		t.Errorf("%v at %d", rows, at)
	}
}

// Rows as they stood at a position are those of a store that ended there.
func TestFoldToAPositionTellsNothingThatCameLater(t *testing.T) {
	list, err := lawtest.History{Seed: 9, Requests: 60}.Appends()
	noErr(t, err)
	full := memory.NewStore()
	lawtest.Commits(t, full, list, 5)
	for _, n := range []int{1, len(list) / 3, len(list) / 2, len(list)} {
		prefix := memory.NewStore()
		at := end(lawtest.Commits(t, prefix, list[:n], 5))
		for _, p := range all {
			m := memory.NewReadModel(p)
			report, err := projections.Fold(context.Background(), full, p, m, at)
			noErr(t, err)
			again, err := projections.Verify(context.Background(), prefix, m, p, shadow)
			noErr(t, err)
			if !again.Equal || report.Events != int64(at) {
				t.Errorf("%s at %d: %+v", p.Name(), at, again)
			}
		}
	}
}
