package catalog

import (
	"time"

	"github.com/penstock/penstock/domain/gate"
)

// keyWeightMax bounds the weight of a key: up to there shares are exact to a thousandth.
const keyWeightMax = 1000

// Gate is the queue as the machine of the slots takes it; nil when there is none, or it is switched off.
func (q *Queue) Gate() *gate.Queue {
	if q == nil || !q.Enabled {
		return nil
	}
	d, _ := gate.ParseDiscipline(q.Discipline)
	g := &gate.Queue{Timeout: q.Timeout.Std(), MaxLength: q.MaxLength, Discipline: d, AgeEvery: q.AgeEvery.Std(), FailFast: q.FailFast}
	if g.Timeout <= 0 {
		g.Timeout = defaultQueueTimeout.Std()
	}
	return g
}

// Class is the priority with which the key's requests wait.
func (r *Key) Class() gate.Class {
	class, _ := gate.ParseClass(r.Priority)
	return class
}

// FairWeight is the key's weight in fair queues, 1 by default.
func (r *Key) FairWeight() int {
	if r.Weight == nil {
		return 1
	}
	return *r.Weight
}

func (c *checker) queue(q *Queue) *Queue {
	if q == nil {
		return nil
	}
	v := *q
	if v.Timeout == 0 {
		v.Timeout = defaultQueueTimeout
	}
	c.duration("queue.timeout", v.Timeout, 24*time.Hour)
	if v.MaxLength != nil {
		c.between("queue.max_length", *v.MaxLength, 1, slotsMax, " or null")
		n := *v.MaxLength
		v.MaxLength = &n
	}
	d, known := gate.ParseDiscipline(v.Discipline)
	if !known {
		c.fail("queue.discipline", "must be fifo or fair")
	}
	v.Discipline = d.String()
	if v.AgeEvery != 0 {
		c.duration("queue.age_every", v.AgeEvery, 24*time.Hour)
	}
	return &v
}

// waiting checks how a key's requests wait; the defaults become "" and nil.
func (c *checker) waiting(priority string, weight *int) (string, *int) {
	class, known := gate.ParseClass(priority)
	if !known {
		c.fail("priority", "must be high, normal or low")
	}
	if priority = class.String(); class == gate.Normal {
		priority = ""
	}
	if weight == nil {
		return priority, nil
	}
	c.between("weight", *weight, 1, keyWeightMax, "")
	if *weight == 1 {
		return priority, nil
	}
	w := *weight
	return priority, &w
}
