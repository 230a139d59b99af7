package actors_test

import (
	"reflect"
	"testing"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// story is what the facts of a request tell.
func (r *rig) story(id string) *request.Story {
	s := &request.Story{ID: id}
	for _, c := range r.streams()["request/"+id] {
		for _, f := range c.Facts {
			s.Evolve(f, c.At)
		}
	}
	return s
}

// posted are the attempts of a request as the books have them, from its facts alone.
func posted(t *testing.T, s *request.Story) []pricing.Posted {
	t.Helper()
	by := func(m request.Multipliers) (p pricing.Multipliers) {
		p.Key = new(pricing.Multiplier)
		for _, x := range []struct {
			to   *pricing.Multiplier
			from string
		}{{&p.Input, m.Input}, {&p.Output, m.Output}, {&p.Group, m.Group}, {p.Key, m.Key}} {
			var err error
			if *x.to, err = pricing.ParseMultiplier(x.from); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	var all []pricing.Posted
	for i := range s.Attempts {
		a := &s.Attempts[i]
		model := a.Dispatched.ResolvedModel
		if model == "" {
			model = s.Ask().Model
		}
		p := pricing.Posted{N: i + 1, Call: pricing.Call{
			Model: model, UpstreamModel: a.Dispatched.UpstreamModel, Upstream: a.Dispatched.Upstream, At: s.AdmittedAt,
		}}
		if f := a.Failed; f != nil {
			p.Call.ServiceTier, p.Usage, p.Source, p.Multipliers, p.Free = f.ServiceTier, f.Usage, f.UsageSource, by(f.Multipliers), true
			p.Charge = pricing.Charge{Version: f.PriceVersion, Upstream: f.UpstreamCost, Caller: f.Cost, Unpriced: f.Unpriced}
		} else if f := s.Settled; f != nil {
			p.Call.ServiceTier, p.Usage, p.Source, p.Multipliers, p.Free = f.ServiceTier, f.Usage, f.UsageSource, by(f.Multipliers), f.Free
			p.Charge = pricing.Charge{Version: f.PriceVersion, Upstream: f.UpstreamCost, Caller: f.Cost, Unpriced: f.Unpriced}
		}
		all = append(all, p)
	}
	return all
}

const (
	// An answer that tells its usage and breaks before it has said anything: the upstream is owed, the caller owes nothing.
	brokenStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m1\",\"usage\":{\"input_tokens\":3000," +
		"\"cache_read_input_tokens\":100,\"output_tokens\":1,\"service_tier\":\"priority\"}}}\n\n" +
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"
	// An answer with searches, in a tier of service that has a price, and with more thoughts than output.
	oddAnswer = `{"id":"m2","type":"message","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":10,"output_tokens":20,` +
		`"output_tokens_details":{"thinking_tokens":30},"server_tool_use":{"web_search_requests":2},"service_tier":"flex"}}`
)

// A79, A82, E40: each attempt is priced by what its own upstream reported (tier of service, length of the input, searches), and its
// fact says all that its price was found by: whoever prices it again from the facts comes to the same. Pains 66, 67, 80.
func TestEveryAttemptIsPricedByItsOwnReportAndCanBePricedAgainFromItsFact(t *testing.T) {
	double := func(u *catalog.Upstream) { u.Multipliers = catalog.Multipliers{Input: "2", Output: "0.5"} }
	r := newRig(t, append(pair(double),
		&catalog.Group{ID: "g", Upstreams: []string{"a", "b"}, Multiplier: "1.5"}, key("k", func(k *catalog.Key) { k.Group, k.Multiplier = "g", "0.9" }),
		&catalog.Price{
			Model: "m", Input: "1", Output: "2", CachedInput: "0.1", PerRequest: "0.5", PerWebSearch: "0.01",
			Tiers:        []catalog.PriceTier{{AboveInputTokens: 2000, PriceRates: catalog.PriceRates{Input: "4"}}},
			ServiceTiers: map[string]catalog.ServicePrice{"flex": {PriceRates: catalog.PriceRates{Output: "1"}}},
		})...)
	call := r.call("/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[]}`)
	call.Ask.Group = "g"
	r.reply("a", streaming(brokenStart))
	r.reply("b", whole(oddAnswer))
	if x := r.run(call); x.Status != 200 {
		t.Fatalf("%d %s", x.Status, x.body())
	}
	s := r.story(call.ID)
	f := s.Attempts[0].Failed
	if f == nil || f.ServiceTier != "priority" || !f.Inherited || f.PriceOrigin != pricing.Manual || f.PriceVersion == "" || f.Cost != 0 ||
		f.Multipliers != (request.Multipliers{Input: "2", Output: "0.5", Group: "1.5", Key: "0.9"}) {
		t.Errorf("%+v", f)
	}
	// (3000 × 4 + 100 × 0.1) × 2 + 1 × 2 × 0.5, per million, and the price of a request
	if want := "0.524021"; f != nil && f.UpstreamCost.String() != want {
		t.Errorf("the failed attempt costs %s, want %s", f.UpstreamCost, want)
	}
	// 10 × 1 + 20 × 1, per million, two searches and the request; the caller pays half as much again for its group, and nine tenths of that for its key
	if e := s.Settled; e == nil || e.UpstreamCost.String() != "0.52003" || e.Cost.String() != "0.7020405" || e.ServiceTier != "flex" ||
		e.Inherited || !e.Clamped || e.Free || e.Usage.Reasoning != 20 || e.Usage.WebSearches != 2 {
		t.Errorf("%+v", e)
	}
	again, err := pricing.Reprice(r.snap.Load(), posted(t, s))
	if err != nil || !reflect.DeepEqual(again, pricing.Repriced{}) {
		t.Errorf("priced again: %+v, %v", again, err)
	}
}

// What an upstream told before it failed is owed to it, and the caller pays nothing, also when nobody else could help.
func TestAnAnswerThatCameToNothingIsFreeForTheCaller(t *testing.T) {
	r := newRig(t, upstream("a"), account("a1", "a"), key("k"))
	call := r.call("/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[]}`)
	r.reply("a", streaming(brokenStart))
	r.run(call)
	s := r.settlement(call.ID)
	if s.Outcome != request.FailedOutcome || !s.Free || s.Cost != 0 || s.UpstreamCost == 0 || s.Usage.Input != 3000 || s.UsageSource != pricing.Partial {
		t.Errorf("%+v", s)
	}
	again, err := pricing.Reprice(r.snap.Load(), posted(t, r.story(call.ID)))
	if err != nil || len(again.Changes)+len(again.Missing) > 0 {
		t.Errorf("priced again: %+v, %v", again, err)
	}
}

// A client that goes after the upstream has failed, before anybody else could help, pays nothing either; one that goes while a
// sound answer is on its way does.
func TestAClientThatGoesPaysForAnswersAndNotForFailures(t *testing.T) {
	for name, c := range map[string]struct {
		reply func(gone func()) reply
		free  bool
	}{
		"the answer had failed": {func(gone func()) reply {
			return reply{header: sseHeader, body: []chunk{{do: gone, data: brokenStart}}}
		}, true},
		"the answer was sound": {func(gone func()) reply {
			return reply{header: jsonHeader, body: []chunk{{do: gone, data: oddAnswer}}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, upstream("a", disconnect("drain")), account("a1", "a"), key("k"))
			call := r.call("/v1/messages", `{"model":"m","max_tokens":9,"stream":true,"messages":[]}`)
			r.reply("a", c.reply(call.Gone.Fire))
			r.run(call)
			s := r.settlement(call.ID)
			if s.Outcome != request.Cancelled || s.Free != c.free || (s.Cost == 0) != c.free || s.UpstreamCost == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
