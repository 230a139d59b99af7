package postgres_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
)

// samples is a projection of one table with a column of each kind.
type samples struct{}

var samplesTable = &projections.Table{
	Name: "samples", Key: 2, Indexes: [][]string{{"at", "name"}},
	Columns: []projections.Column{
		{Name: "n", Kind: projections.KindInt}, {Name: "name", Kind: projections.KindText}, {Name: "free", Kind: projections.KindText},
		{Name: "data", Kind: projections.KindJSON}, {Name: "cost", Kind: projections.KindMoney},
		{Name: "at", Kind: projections.KindMicros}, {Name: "took_us", Kind: projections.KindMicros},
	},
}

func (samples) Name() string                                                              { return "samples" }
func (samples) Version() int                                                              { return 1 }
func (samples) Tables() []*projections.Table                                              { return []*projections.Table{samplesTable} }
func (samples) Fold(*request.Story, events.Fact, projections.Place, *projections.Changes) {}

var oddTexts = []string{
	"", "a", "B", "ä", "Z", "é", "a b", "a-b", "\x00", "\x01", "a\x00", "a\x00\x01b", "a\x01\x01", "a\x01", "\x7f", "\U0010ffff", "\ufffd", `\x61`, "'\"\\",
}

var oddAmounts = []int64{
	0, 1, -1, 99, 100, 101, 9999, 10000, 99999999, 100000000, 9999999999, 10000000000, 10000000001, -10000000000, 123456789012345,
	999999990000000000, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1000000000000000000, 500000000000000,
}

// commitSamples writes what the function adds into both models.
func commitSamples(t *testing.T, from events.Position, add func(*projections.Changes), models ...projections.ReadModel) {
	t.Helper()
	for _, m := range models {
		var changes projections.Changes
		add(&changes)
		if err := m.Commit(context.Background(), &changes, []projections.Step{{Projection: "samples", Version: 1, From: from, To: from + 1}}); err != nil {
			t.Fatal(err)
		}
	}
}

func sampleOf(n int, name string, amount, at int64) []projections.Value {
	return []projections.Value{
		projections.Int(int64(n)), projections.Text(name), projections.Text(name), projections.Text(fmt.Sprintf("{\"b\":1,  \"a\":%q,\"b\":\"\\u0000\"}", fmt.Sprint(n))),
		projections.Int(amount), projections.Int(at), projections.Int(at),
	}
}

func TestEveryValueComesBackAsItWasInTheOrderOfItsBytes(t *testing.T) {
	m, oracle := openRead(t, readDatabase(t), samples{}), memory.NewReadModel(samples{})
	commitSamples(t, 0, func(c *projections.Changes) {
		for i, name := range oddTexts {
			c.Put(samplesTable, sampleOf(i%2, name, int64(i), int64(i)*1e15)...)
		}
		for i, amount := range oddAmounts {
			c.Put(samplesTable, sampleOf(100+i, "", amount, -62135596800000000+int64(i))...)
		}
		c.Put(samplesTable, projections.Int(7), projections.Text(""), projections.Null(), projections.Null(), projections.Null(), projections.Null(), projections.Null())
		c.Put(samplesTable, projections.Int(math.MinInt64), projections.Text(""), projections.Null(), projections.Null(), projections.Null(), projections.Null(), projections.Int(math.MaxInt64))
	}, m, oracle)
	have, _ := lawtest.Dump(t, m, samples{})
	want, _ := lawtest.Dump(t, oracle, samples{})
	if !slices.Equal(have, want) || len(have) < len(oddTexts)+len(oddAmounts) {
		for i := range have {
			if i < len(want) && have[i] != want[i] {
				t.Errorf("row %d:\nhave %s\nwant %s", i, have[i], want[i])
			}
		}
		t.Errorf("%d rows, want %d", len(have), len(want))
	}
}

func TestAnAuditorSeesAmountsInDollarsAndMomentsAsSuch(t *testing.T) {
	dsn := readDatabase(t)
	m := openRead(t, dsn, samples{})
	commitSamples(t, 0, func(c *projections.Changes) {
		for i, amount := range oddAmounts {
			c.Add(samplesTable, sampleOf(i, "", amount, 1772400600123456)...)
		}
	}, m)
	a := auditor(t, dsn)
	for i, have := range lines(t, a, `SELECT cost::text FROM read.samples ORDER BY n`) {
		want := money.Amount(oddAmounts[i]).String()
		whole, part, _ := strings.Cut(want, ".")
		if want = whole + "." + (part + "0000000000")[:10]; have != want {
			t.Errorf("%d units: have %s, want %s", oddAmounts[i], have, want)
		}
	}
	do(t, a, `SET timezone = 'UTC'`)
	if have := lines(t, a, `SELECT DISTINCT at::text || ' ' || took_us::text FROM read.samples`); len(have) != 1 || have[0] != "2026-03-01 21:30:00.123456+00 1772400600123456" {
		t.Errorf("%v", have)
	}
}

func TestAddingIsExactForEveryKindOfNumber(t *testing.T) {
	m, oracle := openRead(t, readDatabase(t), samples{}), memory.NewReadModel(samples{})
	for i, n := range []int64{1, -20, 123456789012345, 3, 86400000000 * 200, -5} {
		commitSamples(t, events.Position(i), func(c *projections.Changes) {
			row := sampleOf(1, "x", n, n)
			row[2], row[3] = projections.Int(0), projections.Int(0)
			c.Add(samplesTable, row...)
		}, m, oracle)
	}
	have, _ := lawtest.Dump(t, m, samples{})
	want, _ := lawtest.Dump(t, oracle, samples{})
	if len(have) != 1 || have[0] != strings.ReplaceAll(want[0], `"x" 0 0`, `"x" "0" "0"`) {
		t.Errorf("have %v, want %v", have, want)
	}
}

// A client may send a model name of any length; the server refuses index entries beyond 2,704 bytes. That must
// not hold up the rows of everybody else.
func TestNamesTooLongForAnIndexAreShortenedAndStayDistinct(t *testing.T) {
	m := openRead(t, readDatabase(t), samples{})
	var noise strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&noise, "%c", rune('!'+(i*i*31+i*7)%90))
	}
	names := []string{
		noise.String(), noise.String() + "x", strings.Repeat("ü", 5000), strings.Repeat("\x00", 300), strings.Repeat("n", 256), strings.Repeat("n", 257),
	}
	commitSamples(t, 0, func(c *projections.Changes) {
		for _, name := range names {
			c.Put(samplesTable, sampleOf(1, name, 1, 1)...)
		}
	}, m)
	commitSamples(t, 1, func(c *projections.Changes) { // the same rows again
		for _, name := range names {
			c.Put(samplesTable, sampleOf(1, name, 2, 1)...)
		}
	}, m)
	s, err := m.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scan, err := s.Scan(context.Background(), samplesTable)
	if err != nil {
		t.Fatal(err)
	}
	n, whole := 0, 0
	for row, more := scan.Next(); more; row, more = scan.Next() {
		n++
		name := row[1].Text()
		if row[4].Int() != 2 || len(name) > 256 {
			t.Errorf("a row with %d and a name of %d bytes", row[4].Int(), len(name))
		}
		if slices.Contains(names, name) {
			whole++
		}
		if !slices.Contains(names, row[2].Text()) {
			t.Errorf("a text that is part of no index was changed: %q", row[2].Text())
		}
	}
	if n != len(names) || whole != 1 || scan.Err() != nil {
		t.Errorf("%d rows, %d with their whole name, %v; want %d, 1", n, whole, scan.Err(), len(names))
	}
}

func TestAValueThatItsColumnCanNotHoldIsAnErrorThatNamesTheColumn(t *testing.T) {
	m := openRead(t, readDatabase(t), samples{})
	for column, odd := range map[int]projections.Value{0: projections.Text("x"), 4: projections.Text("1.5"), 5: projections.Int(math.MinInt64)} {
		row := sampleOf(1, "x", 1, 1)
		row[column] = odd
		var changes projections.Changes
		changes.Put(samplesTable, row...)
		err := m.Commit(context.Background(), &changes, []projections.Step{{Projection: "samples", Version: 1, To: 1}})
		if err == nil || !strings.Contains(err.Error(), "column "+samplesTable.Columns[column].Name) {
			t.Errorf("%v, want an error about column %s", err, samplesTable.Columns[column].Name)
		}
	}
	commitSamples(t, 0, func(c *projections.Changes) { c.Put(samplesTable, sampleOf(1, "x", 1, 1)...) }, m)
}
