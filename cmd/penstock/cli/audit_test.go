package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

func (p *place) AuditHead(ctx context.Context) (head events.Head, err error) {
	err = p.chain.Chain(ctx, 0, func(c *events.Commit, _ []events.RawRow) bool {
		head = events.Head{Position: c.First + events.Position(c.N) - 1, Hash: c.Hash}
		return true
	})
	head.Sign(p.signing, noon)
	return head, err
}

func (p *place) AuditVerify(ctx context.Context, heads []events.Head) (events.Report, error) {
	return events.Audit{Heads: heads}.Verify(ctx, p.chain)
}

func (p *place) AuditExport(ctx context.Context, _, _ time.Time, w io.Writer) error {
	at, err := p.chain.Head(ctx)
	if err == nil {
		_, err = events.Export(ctx, p.chain, 1, at, func(h *events.Head) { h.Sign(p.signing, noon) }, w)
	}
	return err
}

func (p *place) CloseBooks(ctx context.Context, until string) ([]books.Closed, error) {
	if p.shown != nil { // as a closer that works for long
		ctx, done := p.board.Watch(ctx, "books", "closing books")
		defer done()
		projections.Tell(ctx, projections.Progress{Projection: "removing events", Part: "2026-03-01, day 2 of 4", Unit: "rows", Position: 500, To: 1000})
		for range cap(p.shown) {
			<-p.shown
		}
	}
	if p.days = append(p.days, until); len(p.days) > 1 {
		return nil, nil
	}
	return []books.Closed{{Day: until, Requests: 2, Facts: 5, Span: books.Span{First: 1, Last: 3, Through: 5}}}, nil
}

// chained stores three commits of one row.
func chained(t *testing.T, p *place) {
	t.Helper()
	for i := range 3 {
		r := events.Row{Stream: fmt.Sprintf("request/%d", i), At: noon, Facts: []events.Fact{&request.Rejected{Code: "X"}}}
		require.NoError(t, events.Encode(&r))
		_, err := p.chain.Append(context.Background(), []events.Append{{Rows: []events.Row{r}}}, 0)
		require.NoError(t, err)
	}
}

// origins runs a test against a running gateway and against the data of a stopped one.
func origins(t *testing.T, run func(*testing.T, *desk)) {
	t.Run("running", func(t *testing.T) { run(t, newDesk(t)) })
	t.Run("stopped", func(t *testing.T) {
		d := newDesk(t)
		delete(d.env, "PENSTOCK_ADMIN_URL")
		d.env["PENSTOCK_ADMIN_LISTEN"] = "127.0.0.1:1"
		run(t, d)
	})
}

func TestAuditVerifySaysWhetherTheChainHolds(t *testing.T) {
	origins(t, func(t *testing.T, d *desk) {
		chained(t, d.place)
		require.Contains(t, d.ok("audit", "verify"), "intact: 3 positions")
		head := strings.TrimSpace(d.ok("audit", "head"))
		key := strings.TrimSpace(d.ok("audit", "head", "--public-key"))
		require.Len(t, key, 64)
		require.Contains(t, d.ok("audit", "verify", "--head", head, "--key", key), "known heads met: 1")
		require.Contains(t, d.ok("audit", "verify", "--head", "@"+d.file("heads", head+"\n\n"+head+"\n")), "known heads met: 2")

		var report struct {
			Positions   int    `json:"positions"`
			FirstBroken *int   `json:"first_broken"`
			Fault       string `json:"fault"`
			Equal       bool   `json:"equal"`
		}
		later := "5:" + strings.Repeat("ab", 32)
		code, stdout, _ := d.run("audit", "verify", "--json", "--head", later)
		require.Equal(t, exitFailed, code)
		require.NoError(t, json.Unmarshal([]byte(stdout), &report))
		require.Equal(t, 3, report.Positions)
		require.Equal(t, 4, *report.FirstBroken)
		require.Equal(t, "truncated", report.Fault)
		require.False(t, report.Equal)
		code, stdout, stderr := d.run("audit", "verify", "--head", "2:"+strings.Repeat("ab", 32))
		require.Equal(t, exitFailed, code)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "NOT INTACT: tampered at position 1")

		d.fails(exitUsage, "audit", "verify", "--head", "5:abc")
		d.fails(exitUsage, "audit", "verify", "--head", "@missing")
		d.fails(exitUsage, "audit", "verify", "--key", "abc")
		require.Contains(t, d.fails(exitFailed, "audit", "verify", "--head", strings.Replace(head, `"position":3`, `"position":2`, 1)), "signature")
		require.Contains(t, d.fails(exitFailed, "audit", "verify", "--head", later, "--key", key), "not signed")
		require.Contains(t, d.fails(exitFailed, "audit", "verify", "--head", head, "--key", strings.Repeat("ab", 32)), "another key")
	})
}

func TestAnExportIsVerifiedWithoutAGateway(t *testing.T) {
	origins(t, func(t *testing.T, d *desk) {
		chained(t, d.place)
		export := d.ok("audit", "export")
		require.Equal(t, 7, strings.Count(export, "\n"))
		file := d.file("export.jsonl", export)
		d.env["PENSTOCK_ADMIN_URL"] = "http://127.0.0.1:1"
		require.Contains(t, d.ok("audit", "verify", "--file", file), "intact: 3 positions")
		d.stdin = export
		require.Contains(t, d.ok("audit", "verify", "--file", "-"), "intact")
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(export, `"code":"X"`, `"code":"Y"`, 1)), 0o600))
		code, stdout, _ := d.run("audit", "verify", "--file", file, "--json")
		require.Equal(t, exitFailed, code)
		require.Contains(t, stdout, `"fault":"tampered"`)
		require.Contains(t, stdout, `"first_broken":1`)
		require.NoError(t, os.WriteFile(file, []byte(export[:len(export)/2]), 0o600))
		code, stdout, _ = d.run("audit", "verify", "--file", file)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stdout, "position")
		require.Contains(t, d.fails(exitFailed, "audit", "verify", "--file", d.file("no", "hello\n")), "line 1")
		d.fails(exitFailed, "audit", "verify", "--file", "missing")
	})
}

func TestAnExportOfASpanThatEndsBeforeItBeginsIsRefused(t *testing.T) {
	d := newDesk(t)
	require.Contains(t, d.fails(2, "audit", "export", "--since", "1h", "--until", "2h"), "--until: is not after --since")
	ask, err := http.NewRequest(http.MethodGet, d.url+"/api/v1/audit/export?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", nil)
	require.NoError(t, err)
	ask.Header.Set("Authorization", "Bearer "+adminToken)
	answer, err := http.DefaultClient.Do(ask)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
}

func TestBooksAreClosedUpToADay(t *testing.T) {
	origins(t, func(t *testing.T, d *desk) {
		require.Contains(t, d.ok("books", "close"), "2026-05-31: closed: 2 requests, 5 events")
		require.Contains(t, d.ok("books", "close", "--until", "2026-05-01"), "nothing to close")
		require.Empty(t, d.ok("books", "close", "--json"))
		require.Equal(t, []string{"2026-05-31", "2026-05-01", "2026-05-31"}, d.place.days)
		d.fails(exitUsage, "books", "close", "--until", "May")
		d.fails(exitUsage, "books")
		d.fails(exitUsage, "audit")
	})
}

// Much to close or to take away takes minutes; it was silent meanwhile.
func TestBooksCloseShowsHowFarItIs(t *testing.T) {
	origins(t, func(t *testing.T, d *desk) {
		if d.env["PENSTOCK_ADMIN_URL"] == "" {
			d.place.shown = make(chan struct{}) // nobody asks
		} else {
			d.place.shown = make(chan struct{}, 2) // asks of the meter
		}
		for _, d.tty = range []bool{true, false} {
			d.place.days = nil
			code, stdout, stderr := d.run("books", "close", "--json")
			require.Zero(t, code, stderr)
			require.Equal(t, 1, strings.Count(stdout, "\n"), "%q", stdout)
			if !d.tty {
				require.Empty(t, stderr, "lines are for what takes longer")
				continue
			}
			require.Contains(t, stderr, "\r\x1b[K[===============               ]  50% removing events (2026-03-01, day 2 of 4): 500 of 1000 rows")
			require.True(t, strings.HasSuffix(stderr, "\r\x1b[K"), "and is taken away")
		}
	})
}
