package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/books"
	domain "github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/billing"
	"github.com/penstock/penstock/projections/lawtest"
	"github.com/penstock/penstock/projections/ledger"
)

var both = []projections.Projection{billing.Projection{}, ledger.Projection{}}

// book is a read model that facts are told to one by one.
type book struct {
	*memory.ReadModel
	t        *testing.T
	position events.Position
	stories  map[string]*request.Story
	settled  map[string]events.Position
}

func newBook(t *testing.T) *book {
	return &book{memory.NewReadModel(both...), t, 0, map[string]*request.Story{}, map[string]events.Position{}}
}

func at(day string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", day)
	if err != nil {
		panic(err)
	}
	return t
}

func (b *book) tell(when, id string, facts ...events.Fact) {
	b.t.Helper()
	for _, f := range facts {
		var story *request.Story
		if id != "" {
			if b.stories[id] == nil {
				b.stories[id] = &request.Story{ID: id}
			}
			story = b.stories[id]
			story.Evolve(f, at(when))
		}
		var out projections.Changes
		b.position++
		if _, ends := f.(*request.Settled); ends {
			b.settled[id] = b.position
		}
		var steps []projections.Step
		for _, p := range both {
			p.Fold(story, f, projections.Place{Position: b.position, First: 1, At: at(when)}, &out)
			steps = append(steps, projections.Step{Projection: p.Name(), Version: p.Version(), From: b.position - 1, To: b.position})
		}
		require.NoError(b.t, b.Commit(b.t.Context(), &out, steps))
	}
}

// use is a request of one attempt that costs what it says, and the upstream half of it.
func (b *book) use(when, id, key, model, paidBy string, cost money.Amount) {
	b.t.Helper()
	b.tell(when, id, &request.Admitted{Ask: request.Ask{Key: key, User: "ann", Model: model}, PaidBy: paidBy},
		&request.Dispatched{N: 1, Upstream: "up"},
		&request.Settled{Outcome: request.Completed, Status: 200, Sent: true, Attempts: 1, Cost: cost, UpstreamCost: cost / 2})
}

func (b *book) reprice(when, id, run, used string, was, is money.Amount) {
	b.t.Helper()
	b.tell(when, id, &request.Repriced{Reprice: run, Cost: is - was, UpstreamCost: is/2 - was/2, Changes: []request.Repricing{{
		N: 1, Position: int64(b.settled[id]), At: at(used), Was: request.Charge{Cost: was, UpstreamCost: was / 2}, Is: request.Charge{Cost: is, UpstreamCost: is / 2},
	}}})
}

// lines are those of a statement that is asked for, as texts.
func (b *book) lines(q ledger.Query) []string {
	b.t.Helper()
	s, err := ledger.StatementOf(b.t.Context(), b, q)
	require.NoError(b.t, err)
	var lines []string
	if s.Opening != nil {
		lines = append(lines, "opening "+s.Opening.String())
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		parts := []string{l.Day, string(l.Kind), l.ID, l.Key, l.Model, l.PaidBy}
		if l.Kind == ledger.Repricing {
			parts = append(parts, "used "+l.UsedFirst+".."+l.UsedLast)
		}
		if l.Cost != nil {
			parts = append(parts, fmt.Sprintf("%d/%d costs %s", l.Requests, l.Attempts, l.Cost))
		}
		if l.Amount != nil {
			parts = append(parts, l.Amount.String()+" = "+l.Balance.String())
		}
		lines = append(lines, strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " "))
	}
	if s.Closing != nil {
		lines = append(lines, "closing "+s.Closing.String())
	}
	return lines
}

func day(text string) time.Time { return at(text + " 00:00") }

// aMarch is the month of a user: credits, usage of two keys, a correction, two runs of repricing, one of them in the next month.
func aMarch(t *testing.T) *book {
	b := newBook(t)
	b.tell("2026-03-01 08:00", "", &domain.Credited{User: "ann", ID: "c1", Amount: 100, Note: "in cash"})
	b.use("2026-03-01 09:00", "r1", "k1", "m", "balance", 10)
	b.use("2026-03-01 10:00", "r2", "k1", "n", "balance", 20)
	b.use("2026-03-01 11:00", "r3", "k2", "m", "subscription/gold", 40)
	b.reprice("2026-03-01 12:00", "r1", "run-1", "2026-03-01 09:00", 10, 12)
	b.tell("2026-03-02 08:00", "", &domain.Adjusted{User: "ann", ID: "a1", Amount: -5, Note: "wrong"}, &domain.Credited{User: "bob", ID: "c1", Amount: 1000})
	b.use("2026-03-02 09:00", "r4", "k1", "m", "balance", 7)
	b.reprice("2026-04-03 00:00", "r1", "run-2", "2026-03-01 09:00", 12, 30)
	b.reprice("2026-04-03 00:00", "r4", "run-2", "2026-03-02 09:00", 7, 1)
	return b
}

// Statements are by day of posting: a repricing changes no day that is over, and stands on its own. Bills are by day of use.
func TestARepricingStandsOnTheDayOfPosting(t *testing.T) {
	b := aMarch(t)
	require.Equal(t, []string{
		"opening 0",
		"2026-03-01 credit c1 0.00000001 = 0.00000001",
		"2026-03-01 usage k1 balance 2/2 costs 0.000000003 -0.000000003 = 0.000000007",
		"2026-03-01 usage k2 subscription/gold 1/1 costs 0.000000004",
		"2026-03-01 repricing run-1 k1 balance used 2026-03-01..2026-03-01 0/1 costs 0.0000000002 -0.0000000002 = 0.0000000068",
		"2026-03-02 adjustment a1 -0.0000000005 = 0.0000000063",
		"2026-03-02 usage k1 balance 1/1 costs 0.0000000007 -0.0000000007 = 0.0000000056",
		"2026-04-03 repricing run-2 k1 balance used 2026-03-01..2026-03-02 0/2 costs 0.0000000012 -0.0000000012 = 0.0000000044",
		"closing 0.0000000044",
	}, b.lines(ledger.Query{User: "ann"}))
	require.Equal(t, []string{
		"opening 0.0000000068",
		"2026-03-02 adjustment a1 -0.0000000005 = 0.0000000063",
		"2026-03-02 usage k1 balance 1/1 costs 0.0000000007 -0.0000000007 = 0.0000000056",
		"closing 0.0000000056",
	}, b.lines(ledger.Query{User: "ann", Since: day("2026-03-02"), Until: day("2026-03-03")}), "a day that is over, as it always was")
	require.Equal(t, []string{"opening 0.0000000056", "closing 0.0000000056"}, b.lines(ledger.Query{User: "ann", Since: day("2026-03-03"), Until: day("2026-03-04")}))

	bill, err := b.Bill(t.Context(), billing.Query{By: []string{"day"}})
	require.NoError(t, err)
	require.Equal(t, []money.Amount{30 + 20 + 40, 1}, []money.Amount{bill[0].Cost, bill[1].Cost}, "by day of use")
}

func TestUsageIsGatheredByMonth(t *testing.T) {
	b := aMarch(t)
	b.tell("2026-03-31 23:59", "", &domain.Credited{User: "ann", ID: "c2", Amount: 1})
	require.Equal(t, []string{
		"opening 0",
		"2026-03-01 credit c1 0.00000001 = 0.00000001",
		"2026-03-02 adjustment a1 -0.0000000005 = 0.0000000095",
		"2026-03-31 credit c2 0.0000000001 = 0.0000000096",
		"2026-03 usage k1 balance 3/3 costs 0.0000000037 -0.0000000037 = 0.0000000059",
		"2026-03 usage k2 subscription/gold 1/1 costs 0.000000004",
		"2026-03 repricing run-1 k1 balance used 2026-03-01..2026-03-01 0/1 costs 0.0000000002 -0.0000000002 = 0.0000000057",
		"2026-04 repricing run-2 k1 balance used 2026-03-01..2026-03-02 0/2 costs 0.0000000012 -0.0000000012 = 0.0000000045",
		"closing 0.0000000045",
	}, b.lines(ledger.Query{User: "ann", Group: "month"}))
}

func TestTheStatementOfAKeyIsByModelAndHasNoBalance(t *testing.T) {
	b := aMarch(t)
	require.Equal(t, []string{
		"2026-03-01 usage m balance 1/1 costs 0.000000001",
		"2026-03-01 usage n balance 1/1 costs 0.000000002",
		"2026-03-01 repricing run-1 m balance used 2026-03-01..2026-03-01 0/1 costs 0.0000000002",
		"2026-03-02 usage m balance 1/1 costs 0.0000000007",
		"2026-04-03 repricing run-2 m balance used 2026-03-01..2026-03-02 0/2 costs 0.0000000012",
	}, b.lines(ledger.Query{Key: "k1"}))
	require.Equal(t, []string{"2026-03-02 usage m balance 1/1 costs 0.0000000007"}, b.lines(ledger.Query{Key: "k1", Since: day("2026-03-02"), Until: day("2026-03-03")}))
	require.Empty(t, b.lines(ledger.Query{Key: "other"}))
}

func TestAUserThatLivesOnNoBalanceHasNone(t *testing.T) {
	b := newBook(t)
	b.use("2026-03-01 09:00", "r1", "k1", "m", "", 10)
	b.tell("2026-03-01 10:00", "", &domain.Granted{User: "ann", Subscription: domain.Subscription{ID: "gold", Starts: at("2026-03-01 00:00"), Daily: 7}})
	require.Equal(t, []string{"2026-03-01 grant gold", "2026-03-01 usage k1 1/1 costs 0.000000001"}, b.lines(ledger.Query{User: "ann"}))
}

func TestQueriesThatCanNotBeAnsweredNameTheField(t *testing.T) {
	noon := at("2026-03-01 12:00")
	for field, q := range map[string]ledger.Query{
		"user": {}, "key": {User: "ann", Key: "k1"}, "group": {User: "ann", Group: "hour"}, "since": {User: "ann", Since: noon},
		"until": {User: "ann", Until: noon}, "until: is not after since": {User: "ann", Since: day("2026-03-01"), Until: day("2026-03-01")},
	} {
		_, err := ledger.StatementOf(t.Context(), newBook(t), q)
		require.ErrorIs(t, err, ledger.ErrQuery, field)
		require.Contains(t, err.Error(), ": "+field)
	}
	for _, by := range [][]string{{"colour"}, {"key", "key"}} {
		require.ErrorIs(t, (&ledger.PostedQuery{By: by}).Check(), ledger.ErrQuery)
	}
	for text, want := range map[string]string{"2026-02-28": "2026-02-28", "2026-02": "2026-02-01"} {
		got, err := ledger.ParseDay("since", text)
		require.NoError(t, err)
		require.Equal(t, want, got.Format(time.DateOnly))
	}
	for _, text := range []string{"2026", "2026-02-30", "yesterday", "2026-02-01T00:00:00Z"} {
		_, err := ledger.ParseDay("since", text)
		require.ErrorContains(t, err, "since: ")
	}
}

// A closing stands for repricings whose events are gone: what they moved opens to the same sums.
func TestAClosingOpensToTheRepricingsThatItHas(t *testing.T) {
	text := `{"reposted":[{"day":"2026-03-05","of":"2026-03-01","reprice":"run","key":"k","user":"u","model":"m","upstream":"up","paid_by":"balance",
		"attempts":2,"cost":"-0.5","upstream_cost":"0.25"},{"day":"2026-03-06","of":"2026-03-01","reprice":"run","attempts":1}]}`
	var closed books.Closed
	require.NoError(t, json.Unmarshal([]byte(text), &closed))
	var out projections.Changes
	require.NoError(t, ledger.Projection{}.Open(&closed, &out))
	var rows [][]projections.Value
	for c := range out.All() {
		require.Equal(t, projections.Add, c.Op)
		rows = append(rows, c.Values)
	}
	require.Equal(t, closed.Reposted, ledger.Repostings(rows))
	closed.Reposted[0].Of = "soon"
	require.ErrorIs(t, ledger.Projection{}.Open(&closed, &out), books.ErrDay)
}

// The ledger sums to zero over whole histories, whatever is booked, used and priced anew, as a whole, by day and by key; and what
// stands in its accounts is what the facts say. Pains 2 and 20: every debit is one settlement, told once.
func TestTheLedgerSumsToZeroAndIsWhatTheFactsSay(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(8) {
		list, err := lawtest.History{Seed: 70 + seed, Requests: 150, Step: 20 * time.Minute, Repriced: true}.Appends()
		require.NoError(t, err)
		store, m := memory.NewStore(), memory.NewReadModel(both...)
		lawtest.Commits(t, store, list, 9)
		lawtest.Start(t, projections.Options{Store: store, Model: m, Projections: both})
		told := tellAll(list)
		require.NotZero(t, told.moved, "seed %d: nothing was priced anew", seed)

		trial, err := ledger.TrialOf(ctx, m, time.Time{}, time.Time{})
		require.NoError(t, err)
		require.Zero(t, trial.Sum)
		var revenue, payable, ann money.Amount
		for _, a := range trial.Accounts {
			switch {
			case a.Account == domain.Revenue:
				revenue = a.Amount
			case a.Account == domain.BalanceOf("ann"):
				ann = a.Amount
			case strings.HasPrefix(a.Account, "payable/"):
				payable += a.Amount
			}
		}
		require.Equal(t, []money.Amount{told.cost, told.upstreamCost, told.ann}, []money.Amount{revenue, payable, ann}, "seed %d", seed)

		sums, err := m.Posted(ctx, ledger.PostedQuery{By: ledger.Dimensions})
		require.NoError(t, err)
		byKey, byDay := map[string]domain.Trial{}, map[string]domain.Trial{}
		costs, posted := map[string]money.Amount{}, map[string]money.Amount{}
		for i := range sums {
			for by, of := range map[string]map[string]domain.Trial{sums[i].Key: byKey, sums[i].Day: byDay} {
				if of[by] == nil {
					of[by] = domain.Trial{}
				}
				of[by].Add(sums[i].Posting())
			}
			costs[sums[i].Key] += sums[i].Cost
			posted[sums[i].Day] += sums[i].Cost
		}
		for by, trial := range byKey {
			require.Zero(t, trial.Sum(), by)
		}
		for by, trial := range byDay {
			require.Zero(t, trial.Sum(), by)
		}
		require.Equal(t, told.byKey, costs, "seed %d", seed)
		require.Equal(t, told.byDay, posted, "seed %d: by day of posting", seed)

		s, err := ledger.StatementOf(ctx, m, ledger.Query{User: "ann"})
		require.NoError(t, err)
		require.Equal(t, told.ann, *s.Closing)
	}
}

// told is what the facts of a history say, added up by themselves.
type told struct {
	cost, upstreamCost, ann, moved money.Amount
	byKey, byDay                   map[string]money.Amount
}

func tellAll(list []events.Append) told {
	sum := told{byKey: map[string]money.Amount{}, byDay: map[string]money.Amount{}}
	admitted := map[string]*request.Admitted{}
	charge := func(row *events.Row, cost, upstreamCost money.Amount) {
		sum.cost, sum.upstreamCost = sum.cost+cost, sum.upstreamCost+upstreamCost
		by := admitted[row.Stream]
		sum.byKey[by.Key] += cost
		sum.byDay[books.DayOf(row.At)] += cost
		if by.User == "ann" && by.PaidBy == "balance" {
			sum.ann -= cost
		}
	}
	for i := range list {
		row := &list[i].Rows[0]
		for _, fact := range row.Facts {
			switch f := fact.(type) {
			case *request.Admitted:
				admitted[row.Stream] = f
			case *request.Failed:
				charge(row, f.Cost, f.UpstreamCost)
			case *request.Settled:
				if f.Sent {
					charge(row, f.Cost, f.UpstreamCost)
				}
			case *request.Repriced:
				sum.moved += max(f.Cost, -f.Cost)
				charge(row, f.Cost, f.UpstreamCost)
			case *domain.Credited:
				if f.User == "ann" {
					sum.ann += f.Amount
				}
			case *domain.Adjusted:
				if f.User == "ann" {
					sum.ann += f.Amount
				}
			}
		}
	}
	return sum
}
