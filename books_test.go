package penstock_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
)

// past writes a history of about four days into a stopped gateway's folder. It ended some days ago.
func past(t *testing.T, folder string) (first time.Time) {
	t.Helper()
	first = midnight(time.Now()).AddDate(0, 0, -8).Add(12 * time.Hour) // so that days are split alike at every hour
	history, err := lawtest.History{Seed: 11, Requests: 220, Start: first, Step: 8 * time.Minute}.Appends()
	require.NoError(t, err)
	s, err := sqlite.OpenStore(filepath.Join(folder, "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	lawtest.Commits(t, s, history, 5, 1, 9)
	require.NoError(t, s.Close())
	return first
}

// aged is a gateway with an old history that has not been opened since; settings are in force.
func aged(t *testing.T, settings map[string]string) (r *rig, first time.Time) {
	t.Helper()
	r = newRig(t, nil)
	r.upstream("up", simulator.Behavior{}, nil)
	r.key("k", nil)
	for name, value := range settings {
		r.apply(map[string]any{"kind": "setting", "name": name, "value": value})
	}
	r.close()
	return r, past(t, r.config.DataDir)
}

// ask is a call of the admin API that must succeed.
func ask[T any](r *rig, method, path string, body any) (out T) {
	r.t.Helper()
	status, answer := r.admin(method, path, body)
	require.Equal(r.t, http.StatusOK, status, "%s", answer)
	require.NoError(r.t, json.Unmarshal(answer, &out), "%s", answer)
	return out
}

type items[T any] struct{ Items []T }

// bill is the bill by day and key up to a time, as text.
func bill(t *testing.T, r *rig, until time.Time) string {
	lines := ask[items[json.RawMessage]](r, "GET", "/api/v1/billing?by=day,key,upstream,price_version&until="+until.Format(time.RFC3339), nil)
	require.NotEmpty(t, lines.Items)
	return fmt.Sprintf("%s", lines.Items)
}

func offline(t *testing.T, r *rig) *penstock.Offline {
	t.Helper()
	o, err := penstock.OpenOffline(context.Background(), r.config.DataDir, "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = o.Close() })
	return o
}

func midnight(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// equal wants rebuilt to be live, and the chain to hold; it returns how many rows are archived.
func equal(t *testing.T, r *rig) int64 {
	t.Helper()
	for _, report := range ask[items[struct {
		Projection  string
		Equal       bool
		Differences []string
	}]](r, "POST", "/api/v1/replay", map[string]any{"verify": true}).Items {
		require.True(t, report.Equal, "%s: %s", report.Projection, report.Differences)
	}
	report := ask[events.Report](r, "POST", "/api/v1/audit/verify", map[string]any{})
	require.True(t, report.Equal, "%+v", report)
	return report.Archived
}

func TestDaysAreClosedArchivedAndTakenAwayUnderLoadAndNoFigureOfTheBillChanges(t *testing.T) {
	r, first := aged(t, map[string]string{"books.archive": "archive", "retention.events": "5"})
	until := midnight(time.Now())
	o := offline(t, r)
	lines, err := o.Bill(context.Background(), billing.Query{By: []string{"day", "key", "upstream", "price_version"}, Until: until})
	require.NoError(t, err)
	require.NoError(t, o.Close())
	before, err := json.Marshal(lines)
	require.NoError(t, err)

	r.open() // it begins to close by itself
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, body := r.post("/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`, "Authorization", "Bearer "+r.secret["k"])
				if resp.StatusCode != 200 {
					t.Errorf("a request beside the closing: %d %s", resp.StatusCode, body)
					return
				}
			}
		})
	}
	day := until.AddDate(0, 0, -1).Format(time.DateOnly)
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": day})
	archived := equal(t, r)
	require.Greater(t, archived, int64(50))
	close(stop)
	load.Wait()
	require.Equal(t, archived, equal(t, r))

	after := ask[items[billing.Line]](r, "GET", "/api/v1/billing?by=day,key,upstream,price_version&until="+until.Format(time.RFC3339), nil)
	now, err := json.Marshal(after.Items)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(now))

	// What is in the archives is what was there.
	closed := bookOf[books.Closed](r, "books.closed")
	require.GreaterOrEqual(t, len(closed), 3)
	for _, f := range closed {
		content, err := os.ReadFile(filepath.Join(r.config.DataDir, "archive", f.Archive.File))
		require.NoError(t, err)
		sum := sha256.Sum256(content)
		require.Equal(t, f.Archive.SHA256, hex.EncodeToString(sum[:]))
		export, err := events.ReadExport(bytes.NewReader(content))
		require.NoError(t, err)
		report, err := events.VerifyExport(context.Background(), export, nil)
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
		require.Zero(t, report.Archived, "it was written before anything was taken away")
		require.GreaterOrEqual(t, report.Head.Position, events.Position(f.Through))
	}
	removed := bookOf[books.Removed](r, "books.removed")
	require.NotEmpty(t, removed)
	require.Less(t, len(removed), len(closed), "some are kept")

	// An answer that lacks what was removed says so.
	page := ask[admin.EventPage](r, "GET", "/api/v1/events?type=request.settled&since="+first.Format(time.RFC3339), nil)
	require.NotNil(t, page.Removed)
	require.Equal(t, first.Format(time.DateOnly), page.Removed.FirstDay)
	require.Equal(t, removed[len(removed)-1].Day, page.Removed.LastDay)
	require.Nil(t, ask[admin.EventPage](r, "GET", "/api/v1/events?type=request.settled&since="+day+"T00:00:00Z", nil).Removed)

	// Half a day of which only the sum is left is no question that can be answered.
	status, body := r.admin("GET", "/api/v1/billing?since="+midnight(first).Add(30*time.Hour).Format(time.RFC3339), nil)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, string(body), "removed")

	// The same after a restart, and from nothing but the events.
	r.close()
	for _, name := range []string{"read.db", "read.db-wal", "read.db-shm"} {
		_ = os.Remove(filepath.Join(r.config.DataDir, name)) // the last two are not there after a clean end
	}
	r.open()
	require.Equal(t, archived, equal(t, r))
	again := ask[items[billing.Line]](r, "GET", "/api/v1/billing?by=day,key,upstream,price_version&until="+until.Format(time.RFC3339), nil)
	now, err = json.Marshal(again.Items)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(now))
	closedAgain := ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": day})
	require.Empty(t, closedAgain.Items, "a day is closed once")
}

// bookOf are the facts of one type about the books.
func bookOf[T any](r *rig, name string) (all []T) {
	for _, e := range ask[items[struct{ Data T }]](r, "GET", "/api/v1/events?stream=books&type="+name, nil).Items {
		all = append(all, e.Data)
	}
	return all
}

func TestADayThatHasNotEndedIsNotClosed(t *testing.T) {
	r := newRig(t, nil)
	status, body := r.admin("POST", "/api/v1/books/close", map[string]any{"until": time.Now().UTC().Format(time.DateOnly)})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(body), "has not ended")
	status, body = r.admin("POST", "/api/v1/books/close", map[string]any{"until": "yesterday"})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, string(body), "YYYY-MM-DD")
}

func TestLinesOfTheLogGoBeforeTheirEvents(t *testing.T) {
	r, _ := aged(t, map[string]string{"retention.log": "5"})
	count := func() int {
		return len(ask[items[json.RawMessage]](r, "GET", "/api/v1/requests?limit=1000", nil).Items)
	}
	r.open()
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)})
	require.Zero(t, equal(t, r), "no event was taken away")
	left := count()
	require.Less(t, left, 220)
	require.NotZero(t, left)
	require.NotEmpty(t, bookOf[books.Trimmed](r, "books.trimmed"))
	require.Contains(t, bill(t, r, midnight(time.Now())), "key-a")
}

func TestAStoppedGatewaysBooksAreClosedToo(t *testing.T) {
	r, _ := aged(t, map[string]string{"retention.events": "5"})
	o := offline(t, r)
	ctx := context.Background()
	closed, err := o.CloseBooks(ctx, midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(closed), 3)
	reports, err := o.Replay(ctx, "", true)
	require.NoError(t, err)
	for _, report := range reports {
		require.True(t, report.Equal, "%+v", report)
	}
	report, err := o.AuditVerify(ctx, nil)
	require.NoError(t, err)
	require.True(t, report.Equal, "%+v", report)
	require.NotZero(t, report.Archived)
	require.NoError(t, o.Close())
	r.open()
	require.Equal(t, report.Archived, equal(t, r))
}

func TestHeadsThatWereSignedTellACutOffEndAndAChainMadeAnew(t *testing.T) {
	r, _ := aged(t, nil)
	store := filepath.Join(r.config.DataDir, "events.db")
	early, err := os.ReadFile(store)
	require.NoError(t, err)
	r.open()
	require.Zero(t, equal(t, r))
	head := ask[events.Head](r, "GET", "/api/v1/audit/head", nil)
	require.NoError(t, head.Check(head.Key))
	wrong := head
	wrong.Position--
	status, body := r.admin("POST", "/api/v1/audit/verify", map[string]any{"heads": []events.Head{wrong}})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, string(body), "signature")
	later := events.Head{Position: head.Position + 1000, Hash: head.Hash}
	found := ask[events.Report](r, "POST", "/api/v1/audit/verify", map[string]any{"heads": []events.Head{head, later}})
	require.Equal(t, events.Truncated, found.Fault)
	require.True(t, ask[events.Report](r, "GET", "/api/v1/audit/verify", nil).Equal)
	r.close()
	info, err := os.Stat(filepath.Join(r.config.DataDir, "head.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	heads, err := os.ReadFile(filepath.Join(r.config.DataDir, "heads.jsonl"))
	require.NoError(t, err)
	known, err := events.ParseHeads(heads)
	require.NoError(t, err)
	last := known[len(known)-1]
	require.Equal(t, head.Key, last.Key)
	late, err := os.ReadFile(store)
	require.NoError(t, err)

	verify := func(given ...events.Head) events.Report {
		o := offline(t, r)
		defer o.Close()
		report, err := o.AuditVerify(context.Background(), given)
		require.NoError(t, err)
		return report
	}
	require.True(t, verify(head, last).Equal)

	require.NoError(t, os.WriteFile(store, early, 0o600))
	report := verify()
	require.Equal(t, events.Truncated, report.Fault, "%+v", report)
	require.Greater(t, *report.FirstBroken, events.Position(300))
	require.LessOrEqual(t, *report.FirstBroken, last.Position)

	// The same facts but for one, in a new chain.
	require.NoError(t, os.WriteFile(store, late, 0o600))
	forge(t, store)
	report = verify()
	require.Equal(t, events.Tampered, report.Fault, "%+v", report)
	require.Contains(t, report.Detail, "known head")
	require.NoError(t, os.Remove(filepath.Join(r.config.DataDir, "heads.jsonl")))
	require.True(t, verify().Equal, "the forger has taken the heads as well")
	report = verify(head)
	require.Equal(t, events.Tampered, report.Fault, "and yet: %+v", report)

	// Heads that another key has signed are no proof, and without the key that was there the old ones are put aside.
	require.NoError(t, os.WriteFile(filepath.Join(r.config.DataDir, "head.key"), []byte(strings.Repeat("ab", 32)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(r.config.DataDir, "heads.jsonl"), heads, 0o600))
	stranger := offline(t, r)
	_, err = stranger.AuditVerify(context.Background(), nil)
	require.ErrorContains(t, err, "another key")
	require.NoError(t, stranger.Close())
	require.NoError(t, os.Remove(filepath.Join(r.config.DataDir, "head.key")))
	require.True(t, verify().Equal)
	aside, err := filepath.Glob(filepath.Join(r.config.DataDir, "heads.*.jsonl"))
	require.NoError(t, err)
	require.Len(t, aside, 1)

	// A head that somebody made up proves nothing.
	forged := head
	forged.Position++
	o := offline(t, r)
	_, err = o.AuditVerify(context.Background(), []events.Head{forged})
	require.ErrorIs(t, err, events.ErrHead)
}

// forge stores everything again with another price for one request.
func forge(t *testing.T, path string) {
	t.Helper()
	ctx := context.Background()
	from, err := sqlite.OpenStore(path, sqlite.StoreOptions{})
	require.NoError(t, err)
	into, err := sqlite.OpenStore(path+".forged", sqlite.StoreOptions{})
	require.NoError(t, err)
	changed := false
	require.NoError(t, from.After(ctx, 0, func(c *events.Committed) bool {
		row := c.Row
		if i := bytes.Index(row.Payload, []byte(`"cost":"0.`)); i > 0 && !changed {
			row.Payload = bytes.Clone(row.Payload)
			row.Payload[i+len(`"cost":"0.`)] ^= 1
			changed = true
		}
		_, err := into.Append(ctx, []events.Append{{Rows: []events.Row{row}}}, 0)
		require.NoError(t, err)
		return true
	}))
	require.True(t, changed)
	require.NoError(t, from.Close())
	require.NoError(t, into.Close())
	require.NoError(t, os.Rename(path+".forged", path))
}

func TestARunningGatewayExportsItsEventsWithTheChain(t *testing.T) {
	r, first := aged(t, nil)
	r.open()
	status, body := r.admin("GET", "/api/v1/audit/export", nil)
	require.Equal(t, http.StatusOK, status)
	check := func(body []byte) events.Report {
		export, err := events.ReadExport(bytes.NewReader(body))
		require.NoError(t, err)
		report, err := events.VerifyExport(context.Background(), export, nil)
		require.NoError(t, err)
		return report
	}
	whole := check(body)
	require.True(t, whole.Equal, "%+v", whole)
	status, body = r.admin("GET", "/api/v1/audit/export?since="+first.Add(24*time.Hour).Format(time.RFC3339)+"&until="+first.Add(48*time.Hour).Format(time.RFC3339), nil)
	require.Equal(t, http.StatusOK, status)
	part := check(body)
	require.True(t, part.Equal, "%+v", part)
	require.Less(t, part.Positions, whole.Positions*3/4, "the catalogue, which is younger, stands before")
	require.NotZero(t, part.Positions)
	// One changed letter in the middle of the file.
	i := strings.Index(string(body), `"openai-`)
	require.Positive(t, i)
	body[i+1] = 'O'
	require.Equal(t, events.Tampered, check(body).Fault)
}

func TestARemovalThatWasCutShortIsFinishedAtTheNextStart(t *testing.T) {
	r, _ := aged(t, nil)
	o := offline(t, r)
	ctx := context.Background()
	closed, err := o.CloseBooks(ctx, midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly))
	require.NoError(t, err)
	head, err := o.AuditHead(ctx)
	require.NoError(t, err)
	require.NoError(t, o.Close())

	s, err := sqlite.OpenStore(filepath.Join(r.config.DataDir, "events.db"), sqlite.StoreOptions{})
	require.NoError(t, err)
	f := closed[0]
	row := events.Row{Stream: books.Stream, Version: int64(len(closed)), At: time.Now().UTC(), Facts: []events.Fact{&books.Removed{Day: f.Day, Span: f.Span}}}
	require.NoError(t, events.Encode(&row))
	_, err = s.Append(ctx, []events.Append{{Rows: []events.Row{row}}}, head.Position)
	require.NoError(t, err)
	n, err := s.Remove(ctx, events.Removal{First: events.Position(f.First), Last: events.Position(f.Last), Through: events.Position(f.Through)}, 7)
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, s.Close())

	r.open()
	require.GreaterOrEqual(t, equal(t, r), int64(n), "half of it is as good as the whole")
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": f.Day})
	require.Equal(t, f.Rows, equal(t, r))
}

func TestADayThatWasClosedWithoutAnArchiveGetsOneBeforeItGoes(t *testing.T) {
	r, _ := aged(t, nil)
	day := midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly)
	r.open()
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": day})
	for name, value := range map[string]string{"books.archive": "late", "retention.events": "5"} {
		r.apply(map[string]any{"kind": "setting", "name": name, "value": value})
	}
	ask[items[books.Closed]](r, "POST", "/api/v1/books/close", map[string]any{"until": day})
	require.NotZero(t, equal(t, r))
	removed := bookOf[books.Removed](r, "books.removed")
	require.NotEmpty(t, removed)
	for _, f := range removed {
		content, err := os.ReadFile(filepath.Join(r.config.DataDir, "late", f.Archive.File))
		require.NoError(t, err)
		export, err := events.ReadExport(bytes.NewReader(content))
		require.NoError(t, err)
		report, err := events.VerifyExport(context.Background(), export, nil)
		require.NoError(t, err)
		require.True(t, report.Equal, "%+v", report)
	}
}

func TestAClosingTellsHowFarItIs(t *testing.T) {
	r, _ := aged(t, map[string]string{"retention.events": "5", "books.archive": "archive"})
	o := offline(t, r)
	told := map[string][]projections.Progress{}
	ctx := projections.Watch(context.Background(), func(p projections.Progress) { told[p.Projection] = append(told[p.Projection], p) })
	closed, err := o.CloseBooks(ctx, midnight(time.Now()).AddDate(0, 0, -1).Format(time.DateOnly))
	require.NoError(t, err)
	rows, days := int64(0), 0
	for _, f := range closed[:3] {
		rows, days = rows+f.Rows, days+1
	}
	gone := told["removing events"]
	require.NotEmpty(t, gone)
	last := gone[len(gone)-1]
	require.Equal(t, projections.Progress{Projection: "removing events", Unit: "rows", Part: fmt.Sprintf("%s, day %d of %d", closed[days-1].Day, days, days),
		Position: events.Position(rows), To: events.Position(rows)}, last)
	require.Greater(t, len(gone), days, "also within a day")
	require.True(t, slices.IsSortedFunc(gone, func(a, b projections.Progress) int { return int(a.Position - b.Position) }))
	require.NoError(t, o.Close())
}
