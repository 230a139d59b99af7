package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/requestlog"
	"github.com/penstock/penstock/projections/stats"
)

// large fills the tables with as many rows as make a difference to plans: 60 days of them.
const large = `
INSERT INTO read.requests SELECT n, md5(n::text), '2026-01-01'::timestamptz + n * interval '104 s', 'key-' || n % 40, 'gpt-' || n % 7,
	'gpt-' || n % 5, 'up-' || n % 3, CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'completed' END, 200, 0.1, 0.1, 5000,
	json_build_object('path', '/v1/chat/completions', 'user', repeat(md5(n::text), 8)) FROM generate_series(1, 50000) AS n;
INSERT INTO read.request_spans SELECT n * 3 / 256, extract(epoch FROM at)::bigint / 60, us, us, n * 1000, n * 1000 FROM (SELECT n, at, (extract(epoch FROM at) * 1000000)::bigint AS us
	FROM (SELECT n, '2026-01-01'::timestamptz + n * interval '104 s' AS at FROM generate_series(1, 50000) AS n) AS lines) AS timed;
INSERT INTO read.request_marks SELECT k, (ARRAY['','failed','up-1','gpt-3','','','','key-1'])[k + 1], b FROM generate_series(1, 7) AS k, generate_series(0, 580) AS b WHERE k NOT IN (4, 5, 6);
INSERT INTO read.bill_entries SELECT n, md5(n::text), 1, '2026-01-01'::timestamptz + n * interval '104 s', 'key-' || n % 40, '', '',
	'gpt-' || n % 5, 'up-' || n % 3, 'a', 'p1', 1, 1, 10, 0, 0, 0, 10, 0, 0.1, 0.1, 0 FROM generate_series(1, 50000) AS n;
INSERT INTO read.bill_days SELECT 20454 + d, 'key-' || k, '', '', 'gpt-' || m, 'up-' || u, 'a', 'p1', 1, 1, 10, 0, 0, 0, 10, 0, 0.1, 0.1, 0
	FROM generate_series(0, 60) AS d, generate_series(0, 39) AS k, generate_series(0, 4) AS m, generate_series(0, 2) AS u;
INSERT INTO read.stats_hours SELECT 490896 + h, 'up-' || u, 'gpt-' || m, 'key', 1, 1, 0, 0, 0, 0, 1, 0, 10, 10, 1, 1, 1, 1, 1
	FROM generate_series(0, 1440) AS h, generate_series(0, 4) AS m, generate_series(0, 2) AS u;
ANALYZE read.requests, read.request_spans, read.request_marks, read.bill_entries, read.bill_days, read.stats_hours`

func TestNoQueryOfTheDayReadsAWholeLargeTable(t *testing.T) {
	dsn := readDatabase(t)
	m, a := openRead(t, dsn, markedProjections...), auditor(t, dsn)
	for _, statement := range strings.Split(large, ";") {
		do(t, a, statement)
	}
	day := time.Date(2026, 2, 20, 0, 0, 0, 0, time.UTC)
	blocks := func(q requestlog.Query, marked bool) func() (string, []any, error) {
		return func() (string, []any, error) { return m.LogSpansSQL(q, marked) }
	}
	log := func(q requestlog.Query) func() (string, []any, error) {
		return func() (string, []any, error) { return m.LogLinesSQL(q, 3, 400, 77) }
	}
	for name, query := range map[string]func() (string, []any, error){
		"newest blocks":            blocks(requestlog.Query{}, false),
		"blocks of a frequent key": blocks(requestlog.Query{Key: "key-1"}, true),
		"blocks of two marks":      blocks(requestlog.Query{Key: "key-1", Outcome: "failed"}, true),
		"one request":              func() (string, []any, error) { return m.RequestSQL("0192") },
		"newest page":              log(requestlog.Query{}),
		"page behind a cursor":     log(requestlog.Query{Before: requestlog.Cursor{At: day, Position: 40000}}),
		"page of a key":            log(requestlog.Query{Key: "key-1"}),
		"page of a model":          log(requestlog.Query{Model: "gpt-3"}),
		"page of all filters": log(requestlog.Query{
			Key: "key-1", Model: "gpt-3", Upstream: "up-1", Outcome: "failed", Since: day, Until: day.Add(48 * time.Hour), Limit: 1000,
		}),
		"bill of a week by key": func() (string, []any, error) {
			return m.BillSQL(billing.Query{By: []string{"day", "key"}, Since: day.Add(time.Hour), Until: day.Add(7*24*time.Hour + time.Minute)})
		},
		"bill of some hours": func() (string, []any, error) {
			return m.BillSQL(billing.Query{Since: day.Add(time.Hour), Until: day.Add(3 * time.Hour)})
		},
		"statistics of a day": func() (string, []any, error) {
			return m.HoursSQL(stats.Query{Since: day, Until: day.Add(24 * time.Hour)})
		},
	} {
		text, args, err := query()
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines(t, a, "EXPLAIN "+text, args...), "\n")
		if strings.Contains(strings.ReplaceAll(plan, "Seq Scan on request_spans", ""), "Seq Scan") { // that one is small
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
