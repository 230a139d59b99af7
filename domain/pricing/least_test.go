package pricing

import (
	"math/rand/v2"
	"testing"
)

// Pain 73: what an answer must have cost by now is never above what it will be charged, nor above what was set aside for it while
// the upstream keeps to what it was asked for. It is above that once the upstream goes far enough beyond.
func TestWhatHasCertainlyBeenSpentIsNeverTooMuch(t *testing.T) {
	r := dice{rand.New(rand.NewPCG(15, 92))}
	told, beyond := 0, 0
	for i := range 15_000 {
		sheets, m := randomSheets(r), r.multipliers()
		ask := Ask{Input: 1 + r.number(20), MaxOutput: 1 + r.number(16), Choices: 1 + r.Int64N(3)}
		bound, err := sheets.Worst(ask, m)
		if err != nil {
			continue
		}
		var u Usage
		split(r, ask.Input, &u.CacheWrite1h, &u.Input, &u.CachedInput, &u.AudioInput, &u.CacheWrite5m, &u.ImageInput)
		split(r, ask.MaxOutput*ask.Choices, &u.AudioOutput, &u.Output, &u.ImageOutput)
		u.Reasoning = r.Int64N(u.Output + 1)
		// So far: less of it, and in other classes than it will be in the end.
		sofar := Usage{Input: r.Int64N(u.InputTotal() + 1), Output: r.Int64N(u.OutputTotal() + 1)}
		if i%3 == 0 {
			sofar.Input, sofar.Output = u.InputTotal(), u.OutputTotal()
		}
		sofar.CachedInput = r.Int64N(sofar.Input + 1)
		sofar.Input -= sofar.CachedInput
		least := sheets.Least(sofar, m)
		bill := Settle(fixed(sheets), Call{ServiceTier: []string{"", "flex", "priority", "fast", "batch"}[r.IntN(5)]}, u, m)
		if least.Caller > bill.Caller.Total || least.Upstream > bill.Upstream.Total || least.Caller > bound.Caller || least.Upstream > bound.Upstream {
			t.Fatalf("case %d: at least %+v for %+v, but %s and %s for %+v, at most %+v", i, least, sofar, bill.Upstream.Total, bill.Caller.Total, u, bound)
		}
		if least.Caller > 0 {
			told++
		}
		sofar.Output = ask.MaxOutput * ask.Choices * 1_000_000
		if sheets.Least(sofar, m).Caller > bound.Caller {
			beyond++
		}
	}
	if told < 5000 || beyond < 500 {
		t.Errorf("%d cases have a least, %d are beyond the most", told, beyond)
	}
}

func TestTheLeastIsAtTheCheapestPriceInReach(t *testing.T) {
	dear := flat("m", Manual, 4_000_000, 10_000_000)
	dear.Flat.CachedInput, dear.Flat.PerRequest = 1_000_000, 700
	dear.Services = map[string]*Ladder{"flex": {Flat: rated(3_000_000, 5_000_000)}}
	for name, c := range map[string]struct {
		sheets Sheets
		used   Usage
		want   string
	}{
		"nothing is priced": {Sheets{}, Usage{Output: 1_000_000}, "0"},
		"nothing was used":  {Sheets{Manual: flat("m", Manual, 1, 1)}, Usage{}, "0"},
		"output":            {Sheets{Manual: dear}, Usage{Output: 1_000_000}, "4.9999999984"},
		"input":             {Sheets{Manual: dear}, Usage{Input: 1_000_000}, "0.9999999984"},
		"not valid":         {Sheets{Manual: dear}, Usage{Input: -1}, "0"},
	} {
		if got := c.sheets.Least(c.used, Plain()); got.Caller.String() != c.want || got.Upstream != got.Caller {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}
