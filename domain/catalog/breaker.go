package catalog

import (
	"cmp"
	"strconv"
	"time"

	"github.com/penstock/penstock/domain/breaker"
)

// What a breaker guards: values of Breaker.Per.
const (
	BreakerPerUpstream     = "upstream"
	BreakerPerAccountModel = "account_model" // one account and one model of it, each on its own
)

const (
	defaultOpenGrowth = "2"
	defaultOpenMax    = Duration(5 * time.Minute)
	growthMax         = 10
)

// breaker checks a breaker. What has its default is stored as "" and 0, so that facts of old are not changed by a file
// that says nothing new.
func (c *checker) breaker(b Breaker) Breaker {
	if b == (Breaker{}) {
		b = defaultBreaker
	}
	c.between("breaker.failures", b.Failures, 1, failuresMax, "")
	c.between("breaker.successes", b.Successes, 1, failuresMax, "")
	c.duration("breaker.open_for", b.OpenFor, week)
	c.duration("breaker.probe_every", b.ProbeEvery, week)
	before := len(c.faults)
	b.OpenGrowth = c.decimal("breaker.open_growth", b.OpenGrowth, 2, priceMax)
	if len(c.faults) == before && (b.growth() < 1 || b.growth() > growthMax) {
		c.fail("breaker.open_growth", "must be 1..%d", growthMax)
	}
	if b.OpenGrowth == defaultOpenGrowth {
		b.OpenGrowth = ""
	}
	if b.OpenMax != 0 {
		c.duration("breaker.open_max", b.OpenMax, week)
		if b.OpenMax < b.ProbeEvery {
			c.fail("breaker.open_max", "must be at least breaker.probe_every (%s)", b.ProbeEvery)
		}
	}
	if b.OpenMax == max(defaultOpenMax, b.ProbeEvery) {
		b.OpenMax = 0
	}
	switch b.Per {
	case BreakerPerUpstream:
		b.Per = ""
	case "", BreakerPerAccountModel:
	default:
		c.fail("breaker.per", "must be %s or %s", BreakerPerUpstream, BreakerPerAccountModel)
	}
	return b
}

// whole is the breaker with every default written out.
func (b Breaker) whole() Breaker {
	b.OpenGrowth = cmp.Or(b.OpenGrowth, defaultOpenGrowth)
	b.OpenMax = cmp.Or(b.OpenMax, max(defaultOpenMax, b.ProbeEvery))
	b.Per = cmp.Or(b.Per, BreakerPerUpstream)
	return b
}

func (b Breaker) growth() float64 {
	f, _ := strconv.ParseFloat(cmp.Or(b.OpenGrowth, defaultOpenGrowth), 64) // what is no number was refused, and is 0 here
	return f
}

// Policy is what the machine goes by.
func (b Breaker) Policy() breaker.Policy {
	return breaker.Policy{
		Failures: b.Failures, Successes: b.Successes, OpenFor: b.OpenFor.Std(), ProbeEvery: b.ProbeEvery.Std(),
		Growth: b.growth(), OpenMax: b.whole().OpenMax.Std(),
	}
}

// PerAccountModel says that failures are counted by account and model instead of for the whole upstream.
func (b Breaker) PerAccountModel() bool { return b.Per == BreakerPerAccountModel }
