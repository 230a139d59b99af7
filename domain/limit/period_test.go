package limit

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/penstock/penstock/domain/money"
)

// Days and months are those on the wall, also where clocks change at midnight: seen minute by minute over changes.
func TestCalendarPeriodsAreThoseOfTheZone(t *testing.T) {
	for _, c := range []struct{ zone, about string }{
		{"UTC", "2026-02-28"}, {"Europe/Berlin", "2026-03-29"}, {"Europe/Berlin", "2026-10-25"}, {"Asia/Shanghai", "2026-12-31"},
		{"America/Sao_Paulo", "2018-11-04"}, // midnight is left out
		{"America/Sao_Paulo", "2018-02-18"}, // 23:00 to 24:00 comes twice
		{"America/Havana", "2026-11-01"},    // midnight comes twice
		{"Australia/Lord_Howe", "2026-04-05"}, {"Asia/Kathmandu", "2026-01-01"},
		{"Pacific/Apia", "2011-12-30"}, // a day that was left out
	} {
		z, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, _ := time.Parse(time.DateOnly, c.about)
		from, until := day.Add(-3*24*time.Hour), day.Add(4*24*time.Hour)
		for _, kind := range []Kind{Daily, Monthly} {
			p := Period{Kind: kind, Zone: z}
			start, end := p.bounds(from.UnixMicro())
			name := func(t time.Time) string {
				if kind == Daily {
					return t.In(z).Format(time.DateOnly)
				}
				return t.In(z).Format("2006-01")
			}
			for now := from; now.Before(until); now = now.Add(time.Minute) {
				s, e := p.bounds(now.UnixMicro())
				switch same := name(now) == name(now.Add(-time.Minute)); {
				case now.UnixMicro() < s || now.UnixMicro() >= e:
					t.Fatalf("%s: %s is not in [%s, %s)", c.zone, now, micro(s), micro(e))
				case same && (s != start || e != end):
					t.Fatalf("%s: %s has another period than a minute before", c.zone, now.In(z))
				case !same && s != now.UnixMicro() && now != from:
					t.Fatalf("%s: a period begins at %s, but the machine says %s", c.zone, now.In(z), micro(s).In(z))
				}
				start, end = s, e
			}
		}
	}
}

// Pain 25: a subscription of 30 days has one monthly window, four whole weekly ones and a part, and 30 daily ones.
func TestWindowsOfASubscriptionAreExactAtTheirEdges(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		want  int
	}{{day, 30}, {week, 5}, {month, 1}} {
		p := Period{Kind: Fixed, From: t0, Every: c.every}
		seen := map[int64]bool{}
		for h := range 30 * 24 {
			for _, edge := range []time.Duration{0, time.Hour - time.Microsecond} {
				s, e := p.bounds(t0.Add(time.Duration(h)*time.Hour + edge).UnixMicro())
				if seen[s] = true; e-s != c.every.Microseconds() || (s-t0.UnixMicro())%c.every.Microseconds() != 0 {
					t.Fatalf("%s: [%s, %s)", c.every, micro(s), micro(e))
				}
			}
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d windows, want %d", c.every, len(seen), c.want)
		}
	}
	if s, e := (Period{Kind: Fixed, From: t0, Every: day}).bounds(t0.UnixMicro() - 1); !micro(e).Equal(t0) || e-s != day.Microseconds() {
		t.Errorf("before the start: [%s, %s)", micro(s), micro(e))
	}
}

// A rolling rule never forgets early, and late by at most a cell (a 1440th of its hours, in whole minutes).
// A clock that goes ahead and is set back finds what was spent in the present period, and goes on counting there; so do late facts and
// those that are folded again.
func TestAClockThatWentAheadAndIsSetBackForgetsNothing(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		p := []Period{{Kind: Daily}, {Kind: Monthly}, {Kind: Fixed, From: t0, Every: week}}[seed%3]
		type spend struct {
			at int64
			a  money.Amount
		}
		var spent []spend
		s := newSum(Rule{Period: p}, 0)
		add := func(at time.Time) {
			x := spend{at.UnixMicro(), money.Amount(1 + r.Int64N(9))}
			spent = append(spent, x)
			s.add(x.at, x.a)
		}
		check := func(s *sum, now time.Time) {
			t.Helper()
			start, end := p.bounds(now.UnixMicro())
			var want money.Amount
			for _, x := range spent {
				if start <= x.at && x.at < end {
					want += x.a
				}
			}
			if got, ends := s.at(now.UnixMicro()); got != want || ends != end {
				t.Fatalf("seed %d, %s: %s until %d at %s, want %s until %d", seed, p, got, ends, now, want, end)
			}
		}
		now, ahead := t0, 0
		for range 200 {
			now = now.Add(time.Duration(r.Int64N(int64(8 * time.Hour))))
			check(&s, now)
			add(now)
			if r.IntN(20) == 0 {
				s.add(now.Add(-time.Duration(1+r.IntN(99))*31*day).UnixMicro(), 7) // of long ago, as a repricing: it counts nowhere
			}
			if ahead < 2 && r.IntN(20) == 0 {
				wrong := now.Add(time.Duration(1000+100*r.IntN(9)) * day)
				ahead++
				check(&s, wrong)
				add(wrong)
			}
			check(&s, now)
		}
		again := newSum(Rule{Period: p}, 0)
		for _, x := range spent {
			again.add(x.at, x.a)
		}
		check(&again, now)
	}
}

func TestARollingSumForgetsNothingEarlyAndNothingLaterThanACell(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		hours := []int{1, 5, 24, 25, 168, 720, 8760}[seed%7]
		s := newSum(Rule{Period{Kind: Rolling, Hours: hours}, money.USD}, -1<<63)
		type spend struct {
			at int64
			a  money.Amount
		}
		var spends []spend
		now := t0.UnixMicro()
		for range 600 {
			now += r.Int64N(s.length() / 100)
			if r.IntN(2) == 0 {
				x := spend{now, money.Amount(r.Int64N(1e10))}
				spends = append(spends, x)
				s.add(x.at, x.a)
			}
			s.slide(now)
			var least, most money.Amount
			for _, x := range spends {
				if x.at > now-s.length() {
					least += x.a
				}
				if x.at > now-s.length()-s.width {
					most += x.a
				}
			}
			if s.spent < least || s.spent > most {
				t.Fatalf("seed %d, %d hours: %s is not in %s..%s", seed, hours, s.spent, least, most)
			}
			if s.cells.n > cellsMost+1 {
				t.Fatalf("%d hours: %d cells", hours, s.cells.n)
			}
			target := money.Amount(r.Int64N(int64(s.spent) + 1))
			if opens := s.reopens(target, now); opens > now {
				copied := newSum(s.Rule, s.since)
				for _, x := range spends {
					copied.add(x.at, x.a)
				}
				if copied.slide(opens - 1); copied.spent <= target {
					t.Fatalf("seed %d: it opens before %s", seed, micro(opens))
				}
				if copied.slide(opens); copied.spent > target {
					t.Fatalf("seed %d: it is not open at %s", seed, micro(opens))
				}
			}
		}
	}
}
