package pricing

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/penstock/penstock/domain/money"
)

func posted(n int, u Usage, source Source, c Charge) Posted {
	return Posted{N: n, Call: Call{Model: "m"}, Usage: u, Source: source, Multipliers: Plain(), Charge: c}
}

// booked is what the books say once the changes are posted.
func booked(list []Posted, r Repriced) []Posted {
	after := append([]Posted(nil), list...)
	for _, c := range r.Changes {
		for i := range after {
			if after[i].N == c.N {
				after[i].Charge = Charge{c.Is.Version, after[i].Charge.Upstream + c.Upstream, after[i].Charge.Caller + c.Caller, c.Is.Unpriced}
			}
		}
	}
	return after
}

// A79, E39, E41, pain 80: the difference is per attempt, by the multipliers of then, and a second run finds nothing.
func TestRepricingIsTheDifferenceAndIdempotent_A79_E41_Pain80(t *testing.T) {
	million := Usage{Input: 1_000_000}
	usd := func(n int64) money.Amount { return money.Amount(n) * money.USD }
	free := posted(2, million, Reported, Charge{Version: "p@1", Upstream: usd(2)})
	free.Free = true
	doubled := posted(4, million, Partial, Charge{Version: "p@1", Upstream: usd(2), Caller: usd(4)})
	doubled.Multipliers.Group = 2 * One
	list := []Posted{
		posted(1, million, Reported, Charge{Version: "p@1", Upstream: usd(2), Caller: usd(2)}),
		free,
		posted(3, Usage{}, None, Charge{}),
		doubled,
		posted(5, million, Estimated, Charge{Unpriced: true}),
		posted(6, million, Reported, Charge{Version: "old", Upstream: usd(3), Caller: usd(3)}),
	}
	book := fixed{Manual: flat("p@2", Manual, 3_000_000, 0)}
	got, err := Reprice(book, list)
	if err != nil || len(got.Missing) != 0 {
		t.Fatal(got, err)
	}
	want := []Change{
		{1, list[0].Charge, Charge{"p@2", usd(3), usd(3), false}, Manual, usd(1), usd(1), false},
		{2, list[1].Charge, Charge{"p@2", usd(3), 0, false}, Manual, usd(1), 0, false},
		{4, list[3].Charge, Charge{"p@2", usd(3), usd(6), false}, Manual, usd(1), usd(2), false},
		{5, list[4].Charge, Charge{"p@2", usd(3), usd(3), false}, Manual, usd(3), usd(3), false},
	}
	if len(got.Changes) != len(want) {
		t.Fatalf("got %+v", got.Changes)
	}
	for i := range want {
		if got.Changes[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got.Changes[i], want[i])
		}
	}
	if got.Upstream != usd(6) || got.Caller != usd(6) {
		t.Errorf("sums %s and %s", got.Upstream, got.Caller)
	}
	if again, err := Reprice(book, booked(list, got)); err != nil || len(again.Changes) != 0 || again.Caller != 0 {
		t.Errorf("a second run: %+v, %v", again, err)
	}
	if back, err := Reprice(fixed{}, list); err != nil || len(back.Changes) != 0 || len(back.Missing) != 5 {
		t.Errorf("a price that has gone: %+v, %v", back, err)
	}
}

func TestRepricingRandomRequestsEndsAtTheNewPrice_Pain80(t *testing.T) {
	r := dice{rand.New(rand.NewPCG(8, 0))}
	for i := range 3000 {
		before, after := fixed(randomSheets(r)), fixed(randomSheets(r))
		var list []Posted
		for n := range 1 + r.IntN(4) {
			p := posted(n+1, r.usage(20), Reported, Charge{})
			p.Multipliers, p.Call.ServiceTier, p.Free = r.multipliers(), []string{"", "flex", "fast"}[r.IntN(3)], r.IntN(4) == 0
			bill := Settle(before, p.Call, p.Usage, p.Multipliers)
			if p.Charge = (Charge{bill.Version, bill.Upstream.Total, bill.Caller.Total, bill.Unpriced}); p.Free {
				p.Charge.Caller = 0
			}
			list = append(list, p)
		}
		if same, err := Reprice(before, list); err != nil || len(same.Changes) != 0 {
			t.Fatalf("case %d: the book of then changes %+v, %v", i, same, err)
		}
		first, err := Reprice(after, list)
		if err != nil {
			t.Fatal(err)
		}
		now := booked(list, first)
		for _, p := range now {
			bill := Settle(after, p.Call, p.Usage, p.Multipliers)
			if !bill.Unpriced && (p.Charge.Upstream != bill.Upstream.Total || !p.Free && p.Charge.Caller != bill.Caller.Total || p.Free && p.Charge.Caller != 0) {
				t.Fatalf("case %d: %+v is not what the new book says: %+v", i, p.Charge, bill)
			}
		}
		if again, err := Reprice(after, now); err != nil || len(again.Changes) != 0 {
			t.Fatalf("case %d: a second run: %+v, %v", i, again, err)
		}
	}
}

func TestDifferencesOutOfRangeAreAnError(t *testing.T) {
	list := []Posted{
		posted(1, Usage{Input: math.MaxInt64 / 2}, Reported, Charge{}), posted(2, Usage{Input: math.MaxInt64 / 2}, Reported, Charge{}),
		posted(3, Usage{Input: math.MaxInt64 / 2}, Reported, Charge{}),
	}
	if got, err := Reprice(fixed{Manual: flat("m", Manual, 100, 0)}, list); !errors.Is(err, ErrOverflow) {
		t.Errorf("got %+v, %v", got, err)
	}
}
