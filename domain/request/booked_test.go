package request

import (
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/pricing"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// told is a request with the given facts, one second and ten positions apart.
func told(facts ...any) *Booked {
	var b Booked
	for i, f := range facts {
		b.Take(f, int64(10*i+10), noon.Add(time.Duration(i)*time.Second))
	}
	return &b
}

// tariff is a book of one price for everything, per million tokens.
type tariff pricing.Price

func (p tariff) Sheets(string, string, string, time.Time) pricing.Sheets {
	return pricing.Sheets{Manual: &pricing.Sheet{
		Ladder: pricing.Ladder{Flat: pricing.Rates{Input: pricing.Price(p)}}, Version: "p@2", Origin: pricing.Manual,
	}}
}

var (
	asked  = &Admitted{Ask: Ask{Key: "k", Model: "fast"}, PaidBy: "balance"}
	main   = &Dispatched{N: 1, Upstream: "main", ResolvedModel: "gpt-5", UpstreamModel: "house"}
	spare  = &Dispatched{N: 2, Upstream: "spare"}
	used   = pricing.Usage{Input: 1_000_000}
	broken = &Failed{N: 1, Usage: used, UsageSource: pricing.Partial, ServiceTier: "flex", Multipliers: Multipliers{Input: "0.5"}, Unpriced: true, UnpricedReason: "price_not_found"}
	ended  = &Settled{Sent: true, Attempts: 2, Usage: used, UsageSource: pricing.Reported, PriceVersion: "p@1", UpstreamCost: 1e10, Cost: 3e10, Multipliers: Multipliers{Group: "2", Key: "1.5"}}
)

// repriced prices a request anew and folds what that comes to.
func repriced(t *testing.T, b *Booked, book pricing.Book) *Repriced {
	t.Helper()
	list, err := b.Posted()
	if err != nil {
		t.Fatal(err)
	}
	found, err := pricing.Reprice(book, list)
	if err != nil {
		t.Fatal(err)
	}
	f := b.Reprice("run", &found)
	if f != nil {
		b.Take(f, 1000, noon.Add(time.Hour))
	}
	return f
}

// E41, pain 80: all that an attempt is priced by stands in its facts, also the multipliers of then.
func TestWhatIsPostedIsWhatTheFactsTell(t *testing.T) {
	list, err := told(asked, main, broken, spare, ended).Posted()
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if c := list[0]; c.N != 1 || c.Call != (pricing.Call{Model: "gpt-5", UpstreamModel: "house", Upstream: "main", ServiceTier: "flex", At: noon}) ||
		!c.Free || !c.Charge.Unpriced || c.Multipliers.Input != pricing.One/2 || c.Multipliers.Group != pricing.One {
		t.Errorf("%+v", c)
	}
	if c := list[1]; c.N != 2 || c.Call.Model != "fast" || c.Call.Upstream != "spare" || c.Free || c.Charge != (pricing.Charge{Version: "p@1", Upstream: 1e10, Caller: 3e10}) ||
		c.Multipliers.Group != 2*pricing.One || *c.Multipliers.Key != pricing.One*3/2 {
		t.Errorf("%+v", c)
	}
	wrong := *ended
	wrong.Multipliers.Key = "much"
	if _, err := told(asked, main, &wrong).Posted(); err == nil {
		t.Error("a multiplier that is no number was read")
	}
	for name, b := range map[string]*Booked{
		"one that is open": told(asked, main, broken), "one that was not sent": told(asked, &Settled{}), "a rejected one": told(&Rejected{}),
	} {
		if list, err := b.Posted(); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// A79, E40, pain 5: the story costs what the new price says, nothing in it is unpriced any more, and a second run finds nothing.
func TestARepricingIsBookedAtItsPlaceAndOnlyOnce(t *testing.T) {
	b := told(asked, main, broken, spare, ended)
	f := repriced(t, b, tariff(2e6))
	want := []Repricing{
		{N: 1, Position: 30, At: noon.Add(2 * time.Second), Was: Charge{Unpriced: true}, Is: Charge{PriceVersion: "p@2", PriceOrigin: pricing.Manual, Inherited: true, UpstreamCost: 1e10}},
		{N: 2, Position: 50, At: noon.Add(4 * time.Second), Was: Charge{PriceVersion: "p@1", UpstreamCost: 1e10, Cost: 3e10},
			Is: Charge{PriceVersion: "p@2", PriceOrigin: pricing.Manual, UpstreamCost: 2e10, Cost: 6e10}},
	}
	if f == nil || !reflect.DeepEqual(f.Changes, want) || f.Cost != 3e10 || f.UpstreamCost != 2e10 || f.Reprice != "run" {
		t.Fatalf("%+v", f)
	}
	if b.Unpriced() || b.Settled.Cost != 6e10 || b.Failed(1).UpstreamCost != 1e10 || b.Failed(1).Cost != 0 || ended.Cost != 3e10 {
		t.Errorf("%+v %+v", b.Settled, b.Failed(1))
	}
	if again := repriced(t, b, tariff(2e6)); again != nil {
		t.Errorf("a second run: %+v", again)
	}
	if back := repriced(t, b, tariff(1e6)); back == nil || back.Cost != -3e10 || back.Changes[1].Was.PriceVersion != "p@2" {
		t.Errorf("and back: %+v", back)
	}
}

// A request counts as unpriced where its end is told: that is told, too, when the last of its attempts has got a price.
func TestTheEndIsToldWhenNothingIsUnpricedAnyMore(t *testing.T) {
	end := *ended
	end.UpstreamCost, end.Cost, end.PriceVersion = 2e10, 6e10, "p@2"
	f := repriced(t, told(asked, main, broken, spare, &end), tariff(2e6))
	if f == nil || len(f.Changes) != 2 || f.Changes[1].N != 2 || f.Changes[1].Is != f.Changes[1].Was || f.Changes[1].Position != 50 || f.Cost != 0 {
		t.Errorf("%+v", f)
	}
	alone := &Settled{Sent: true, Attempts: 1, UsageSource: pricing.None} // behind the failure of the only attempt
	b := told(asked, main, broken, alone)
	f = repriced(t, b, tariff(2e6))
	if f == nil || len(f.Changes) != 2 || f.Changes[1].N != 0 || f.Changes[1].Position != 40 || b.Unpriced() {
		t.Errorf("%+v", f)
	}
}
