package account

import "time"

// Quota is how much of its limits an account has used, as its upstream says with its answers. The zero value says nothing.
type Quota struct {
	Used   float64   // share of the limit of which most is used, 0..1
	Until  time.Time // when that one is renewed; what was said counts until then
	Lapses time.Time // when the quota of hours or days of which most is used is renewed; zero: it has none
}

// IsZero says that nothing is known.
func (q *Quota) IsZero() bool { return q.Until.IsZero() }
