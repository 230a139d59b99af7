package lawtest

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/node"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/requestlog"
)

// Marks folds histories, large enough that every filter is asked for in some blocks only, into both models and asks both for
// the same random pages of the log, one behind the other. The projections are those of the log with its Marker. want is the
// oracle, which needs neither marks nor spans.
func Marks(t *testing.T, list []projections.Projection, store func(testing.TB) events.Store, have, want func(testing.TB) Readers) {
	usual := History{Seed: 5, Requests: 1200, Unended: 5, Keys: 6, Parallel: 40}
	plain := History{Seed: 6, Requests: 800, Unended: 3, Keys: 300, Plain: true, Parallel: 20, Step: 100 * time.Millisecond}
	sparse := History{Seed: 7, Requests: requestlog.MarksMax + 100, Unended: 9, Keys: 2, Plain: true, Parallel: 10, Step: time.Second}
	for _, c := range []struct {
		name string
		of   History
		bend func([]events.Append) []events.Append
	}{
		{"a usual log", usual, nil},
		{"many keys", plain, nil},
		{"more blocks than are listed", sparse, spread},
		{"times that came late", usual, late},
		{"many lines of one time", plain, rounded(20 * time.Second)},
		{"many lines of one time that came late", plain, func(list []events.Append) []events.Append { return late(rounded(20 * time.Second)(list)) }},
		{"all lines of one time", plain, rounded(24 * time.Hour)},
		{"lines that were taken away", usual, trimmed(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			history, err := c.of.Appends()
			must(t, err)
			if c.bend != nil {
				history = c.bend(history)
			}
			s := store(t)
			Commits(t, s, history, 50)
			m, oracle := have(t), want(t)
			for _, model := range []Readers{m, oracle} {
				bring(t, Data{s, model}, list)
			}
			samePages(t, m, oracle)
		})
	}
}

// samePages asks both models for the same pages.
func samePages(t *testing.T, m, oracle Readers) {
	ctx := context.Background()
	dice := rand.New(rand.NewPCG(7, 7))
	pick := func(of ...string) string { return of[dice.IntN(len(of))] }
	all, err := oracle.Requests(ctx, requestlog.Query{Limit: 1000})
	must(t, err)
	met := 0
	for range 40 {
		some := &all[dice.IntN(len(all))]
		q := requestlog.Query{
			Limit: 1 + dice.IntN(60), Key: pick("", "", some.Key, "nobody"), Outcome: pick("", some.Outcome, "abandoned"),
			Model: pick("", some.Model, some.ResolvedModel, "none"), Upstream: pick("", some.Upstream),
		}
		if dice.IntN(3) == 0 {
			q.Before = all[dice.IntN(len(all))].Cursor()
		}
		if dice.IntN(3) == 0 {
			q.Since = all[dice.IntN(len(all))].At.Add(time.Duration(dice.IntN(3)-1) * time.Nanosecond)
		}
		if dice.IntN(4) == 0 {
			q.Until = all[dice.IntN(len(all))].At.Add(time.Duration(dice.IntN(3)-1) * time.Nanosecond)
		}
		for range 4 {
			want, err := oracle.Requests(ctx, q)
			if err != nil {
				break // a filter that cannot be meant
			}
			have, err := m.Requests(ctx, q)
			must(t, err)
			if !reflect.DeepEqual(want, have) {
				t.Fatalf("%+v:\nhave %+v\nwant %+v", q, have, want)
			}
			if met += len(want); len(want) < q.Limit {
				break
			}
			q.Before = want[len(want)-1].Cursor()
		}
	}
	for i := range 24 {
		id := all[dice.IntN(len(all))].RequestID
		if i%4 == 0 {
			id = pick(id[:len(id)-1]+"x", id+"0", "nothing", "")
		}
		want, err := oracle.Request(ctx, id)
		must(t, err)
		have, err := m.Request(ctx, id)
		must(t, err)
		if !reflect.DeepEqual(want, have) || want == nil && i%4 > 0 {
			t.Errorf("request %q: have %+v, want %+v", id, have, want)
		}
	}
	if met <= 300 {
		t.Errorf("%d lines were found: the law would hold of nearly nothing", met)
	}
}

// spread puts as many other facts behind each append as a block has positions.
func spread(history []events.Append) (list []events.Append) {
	facts := make([]events.Fact, requestlog.MarkSize)
	for i := range facts {
		facts[i] = &node.Started{Node: "n"}
	}
	for i, a := range history {
		filler := events.Row{Stream: "node/n", Version: int64(i) * requestlog.MarkSize, At: a.Rows[0].At, Facts: facts}
		if err := events.Encode(&filler); err != nil {
			panic(err)
		}
		list = append(list, a, events.Append{Rows: []events.Row{filler}})
	}
	return list
}

// late lets every third request tell of a time some hours before, as those of a spool do, and others of one shortly before or
// far off.
func late(history []events.Append) []events.Append {
	by := map[string]time.Duration{}
	for i := range history {
		row := &history[i].Rows[0]
		if row.Version == 0 {
			switch n := len(by); {
			case n%100 == 50:
				by[row.Stream] = time.Duration(n-300) * 24 * time.Hour
			case n%3 == 0:
				by[row.Stream] = -5 * time.Hour
			case n%3 == 1 && n%2 == 0:
				by[row.Stream] = -20 * time.Second
			default:
				by[row.Stream] = 0
			}
		}
		row.At = row.At.Add(by[row.Stream])
	}
	return history
}

func rounded(to time.Duration) func([]events.Append) []events.Append {
	return func(history []events.Append) []events.Append {
		for i := range history {
			history[i].Rows[0].At = history[i].Rows[0].At.Truncate(to)
		}
		return history
	}
}

// trimmed takes the lines of the first third away, in the middle of a block, when two thirds are there.
func trimmed(t *testing.T) func([]events.Append) []events.Append {
	return func(history []events.Append) []events.Append {
		last, at := int64(0), 2*len(history)/3
		for _, a := range history[:len(history)/3] {
			last += int64(len(a.Rows[0].Facts))
		}
		row := events.Row{Stream: books.Stream, At: history[at].Rows[0].At, Facts: []events.Fact{&books.Trimmed{Day: "2026-03-01", Last: last}}}
		must(t, events.Encode(&row))
		return slices.Insert(history, at, events.Append{Rows: []events.Row{row}})
	}
}
