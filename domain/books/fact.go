// Package books holds the facts about closing the books: what one day came to, and what may be forgotten since.
package books

import (
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
)

// Stream is the one stream of these facts.
const Stream = "books"

// Span says which requests a closing is about: those whose first fact lies between First and Last, both included. All
// of them have ended, the last fact of any is at Through. Spans of closings follow on each other without overlap.
type Span struct {
	First   int64 `json:"first"`
	Last    int64 `json:"last"`
	Through int64 `json:"through"`
}

// Holds says that a request whose first fact lies at the position is one of them.
func (s Span) Holds(first int64) bool { return s.First <= first && first <= s.Last }

// Closed: the requests of one UTC day have ended and were summed up. A request belongs to the day by its place in the
// order of the store; what it cost belongs to the day on which each attempt ended, which Line says.
type Closed struct {
	Day string `json:"day"` // 2006-01-02
	Span
	Requests int64  `json:"requests"` // all of them, rejected ones too
	Rows     int64  `json:"rows"`
	Facts    int64  `json:"facts"`
	Lines    []Line `json:"lines"`
	Late     []Hour `json:"late,omitempty"`

	Reposted []Reposting `json:"reposted,omitempty"` // what later prices have changed; Lines have it in them

	Archive *Archive `json:"archive,omitempty"` // nil: none was asked for
}

// Line is one sum of what was billed, by everything that a bill can be grouped by.
type Line struct {
	Day          string        `json:"day"` // on which the attempts ended
	Key          string        `json:"key,omitempty"`
	User         string        `json:"user,omitempty"`
	Group        string        `json:"group,omitempty"`
	Model        string        `json:"model,omitempty"`
	Upstream     string        `json:"upstream,omitempty"`
	Account      string        `json:"account,omitempty"`
	PriceVersion string        `json:"price_version,omitempty"`
	PriceOrigin  string        `json:"price_origin,omitempty"`
	PaidBy       string        `json:"paid_by,omitempty"` // balance, subscription/<id>, or "": request.Admitted
	Requests     int64         `json:"requests"`
	Attempts     int64         `json:"attempts"`
	Usage        pricing.Usage `json:"usage,omitzero"`
	Cost         money.Amount  `json:"cost,omitzero"`
	UpstreamCost money.Amount  `json:"upstream_cost,omitzero"`
	Unpriced     int64         `json:"unpriced_requests,omitempty"`
}

// Reposting is by how much later prices have changed what was used on a day. A bill has it on the day of use, a statement
// on the day on which it was posted.
type Reposting struct {
	Day          string       `json:"day"` // on which it was posted
	Of           string       `json:"of"`  // of use
	Reprice      string       `json:"reprice"`
	Key          string       `json:"key,omitempty"`
	User         string       `json:"user,omitempty"`
	Model        string       `json:"model,omitempty"`
	Upstream     string       `json:"upstream,omitempty"`
	PaidBy       string       `json:"paid_by,omitempty"`
	Attempts     int64        `json:"attempts"`
	Cost         money.Amount `json:"cost,omitzero"` // the difference
	UpstreamCost money.Amount `json:"upstream_cost,omitzero"`
}

// Hour is what these requests add to the statistics of an hour after the day. Statistics of the day itself go with its
// events; those of later hours must stay whole.
type Hour struct {
	Hour     int64   `json:"hour"` // since 1970, UTC
	Upstream string  `json:"upstream,omitempty"`
	Model    string  `json:"model,omitempty"`
	Key      string  `json:"key,omitempty"`
	Sums     []int64 `json:"sums"` // in the order of the statistics
}

// Archive is the file in which the day's events were kept.
type Archive struct {
	File   string `json:"file"`   // name, without folder
	SHA256 string `json:"sha256"` // of the file, hex
	Bytes  int64  `json:"bytes"`
}

// Removed: the events of a closed day are taken away from now on, and with them its lines of the request log, its
// billed attempts and its statistics. Its sums stay.
type Removed struct {
	Day string `json:"day"`
	Span
	Archive *Archive `json:"archive,omitempty"` // made now, because the closing had none
}

// Trimmed: the lines of the request log of a closed day, and of all days before it, are gone.
type Trimmed struct {
	Day  string `json:"day"`
	Last int64  `json:"last"` // requests whose first fact lies at or before it
}
