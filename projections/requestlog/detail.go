package requestlog

import (
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// detail is the JSON column as it is read back; encode writes it. What is zero is not written.
type detail struct {
	User              string         `json:"user"`
	Group             string         `json:"group"`
	Method            string         `json:"method"`
	Path              string         `json:"path"`
	Dialect           string         `json:"dialect"`
	Capability        string         `json:"capability"`
	Stream            bool           `json:"stream"`
	Session           string         `json:"session"`
	Client            string         `json:"client"`
	ClientProfile     string         `json:"client_profile"`
	ClientRequestID   string         `json:"client_request_id"`
	UpstreamModel     string         `json:"upstream_model"`
	UpstreamRequestID string         `json:"upstream_request_id"`
	Affinity          string         `json:"affinity"`
	Code              string         `json:"code"`
	Reason            string         `json:"reason"`
	Stage             string         `json:"stage"`
	Sent              bool           `json:"sent"`
	ClientGone        bool           `json:"client_gone"`
	Source            pricing.Source `json:"usage_source"`
	TTFTUS            int64          `json:"ttft_us"`
	Attempts          []try          `json:"attempts"`
	Usage             pricing.Usage  `json:"usage"` // what the end of the request adds to that of the attempts
	Queue             *wait          `json:"queue"`
	Excluded          []Exclusion    `json:"excluded"`
	billed                           // of an end that belongs to no attempt
}

type try struct {
	Upstream string        `json:"upstream"`
	Account  string        `json:"account"`
	At       int64         `json:"at"` // microseconds since 1970
	Class    string        `json:"class"`
	Status   int           `json:"status"`
	TookUS   int64         `json:"took_us"`
	TTFTUS   int64         `json:"ttft_us"`
	Usage    pricing.Usage `json:"usage"`
	Cost     money.Amount  `json:"cost"`
	Owed     *money.Amount `json:"upstream_cost"` // nil when it is the cost
	billed
}

// billed is how a usage was priced.
type billed struct {
	Clamped        bool           `json:"usage_clamped"`
	ServiceTier    string         `json:"service_tier"`
	PriceVersion   string         `json:"price_version"`
	PriceOrigin    pricing.Origin `json:"price_origin"`
	Inherited      bool           `json:"price_inherited"`
	Unpriced       bool           `json:"unpriced"`
	UnpricedReason string         `json:"unpriced_reason"`
}

func (b *billed) write(o *object) {
	o.flag("usage_clamped", b.Clamped)
	o.text("service_tier", b.ServiceTier)
	o.text("price_version", b.PriceVersion)
	o.text("price_origin", string(b.PriceOrigin))
	o.flag("price_inherited", b.Inherited)
	o.flag("unpriced", b.Unpriced)
	o.text("unpriced_reason", b.UnpricedReason)
}

func settledBy(s *request.Settled) billed {
	return billed{s.Clamped, s.ServiceTier, s.PriceVersion, s.PriceOrigin, s.Inherited, s.Unpriced, s.UnpricedReason}
}

type wait struct {
	State    string `json:"state"`
	Upstream string `json:"upstream"`
	Position int    `json:"position"`
	Ticket   uint64 `json:"ticket"`
	WaitedUS int64  `json:"waited_us"`
}

// encode writes the detail of a story. waiting says that its last fact put it into a queue.
func encode(story *request.Story, asked *request.Ask, waiting bool) string {
	o := objects.Get().(*object)
	defer objects.Put(o)
	o.b = append(o.b[:0], '{')
	o.text("user", asked.User)
	o.text("group", asked.Group)
	o.text("method", asked.Method)
	o.text("path", asked.Path)
	o.text("dialect", asked.Dialect)
	o.text("capability", asked.Capability)
	o.flag("stream", asked.Stream)
	o.text("session", asked.Session)
	o.text("client", asked.Client)
	o.text("client_profile", asked.Profile)
	o.text("client_request_id", asked.ClientID)
	end(o, story)
	attempts(o, story)
	queue(o, story, waiting)
	excluded(o, story)
	o.shut('}')
	return string(o.b)
}

// end writes how the request ended, or how far it is.
func end(o *object, story *request.Story) {
	sent := len(story.Attempts) > 0
	upstreamID := ""
	if final := story.Final(); final != nil {
		o.text("upstream_model", final.Dispatched.UpstreamModel)
	}
	o.text("affinity", affinity(story))
	for i := range story.Attempts {
		if f := story.Attempts[i].Failed; f != nil && f.UpstreamID != "" {
			upstreamID = f.UpstreamID
		}
	}
	switch {
	case story.Settled != nil:
		s := story.Settled
		sent = s.Sent
		if s.UpstreamID != "" {
			upstreamID = s.UpstreamID
		}
		o.text("code", s.Code)
		o.text("reason", s.Reason)
		o.text("stage", s.Stage)
		o.flag("client_gone", s.ClientGone)
		o.text("usage_source", string(s.UsageSource))
		o.number("ttft_us", s.TTFTUS)
	case story.Rejected != nil:
		o.text("code", story.Rejected.Code)
		o.text("reason", story.Rejected.Reason)
		o.text("stage", story.Rejected.Stage)
	case story.Progressed != nil:
		o.text("usage_source", string(story.Progressed.UsageSource))
	}
	o.flag("sent", sent)
	o.text("upstream_request_id", upstreamID)
}

// affinity is what became of the session's binding: why the last attempt went where it went, when that was the reason,
// else what the plan said.
func affinity(story *request.Story) string {
	if final := story.Final(); final != nil && strings.HasPrefix(final.Dispatched.Why, "affinity_") {
		return final.Dispatched.Why
	}
	if story.Admitted != nil {
		return story.Admitted.Affinity
	}
	return ""
}

// attempts writes one object per try. The settlement belongs to the last one, unless that has failed on its own.
func attempts(o *object, story *request.Story) {
	rest := story.Settled
	if len(story.Attempts) > 0 {
		o.open("attempts", '[')
		for i := range story.Attempts {
			t := tryOf(&story.Attempts[i])
			if i+1 == len(story.Attempts) && story.Attempts[i].Failed == nil {
				switch {
				case rest != nil:
					t.Class, t.Status, t.TookUS, t.TTFTUS = rest.Class, rest.UpstreamStatus, rest.AttemptUS, rest.TTFTUS
					t.Usage, t.Cost, t.Owed, t.billed = rest.Usage, rest.Cost, &rest.UpstreamCost, settledBy(rest)
					rest = nil
				case story.Progressed != nil && story.Progressed.N == i+1:
					t.Usage = story.Progressed.Usage
				}
			}
			o.element()
			t.write(o)
			o.shut('}')
		}
		o.shut(']')
	}
	if rest != nil {
		o.usage("usage", rest.Usage)
		by := settledBy(rest)
		by.write(o)
	}
}

func tryOf(a *request.Attempt) try {
	t := try{Upstream: a.Dispatched.Upstream, Account: a.Dispatched.Account, At: a.At.UnixMicro()}
	if f := a.Failed; f != nil {
		t.Class, t.Status, t.TookUS, t.TTFTUS = f.Class, f.UpstreamStatus, f.TookUS, f.TTFTUS
		t.Usage, t.Cost, t.Owed = f.Usage, f.Cost, &f.UpstreamCost
		t.billed = billed{f.Clamped, f.ServiceTier, f.PriceVersion, f.PriceOrigin, f.Inherited, f.Unpriced, f.UnpricedReason}
	}
	return t
}

func (t *try) write(o *object) {
	o.text("upstream", t.Upstream)
	o.text("account", t.Account)
	o.number("at", t.At)
	o.text("class", t.Class)
	o.number("status", int64(t.Status))
	o.number("took_us", t.TookUS)
	o.number("ttft_us", t.TTFTUS)
	o.usage("usage", t.Usage)
	if t.Cost != 0 {
		o.amount("cost", t.Cost)
	}
	if t.Owed != nil && *t.Owed != t.Cost {
		o.amount("upstream_cost", *t.Owed)
	}
	t.billed.write(o)
}

func queue(o *object, story *request.Story, waiting bool) {
	if story.Queued == nil {
		return
	}
	w := wait{State: "waiting", Position: story.Queued.Position, Ticket: story.Queued.Ticket}
	if len(story.Queued.Upstreams) > 0 {
		w.Upstream = story.Queued.Upstreams[0]
	}
	if r := story.Resumed; r != nil && !waiting {
		w.State, w.Upstream, w.WaitedUS = "resumed", r.Upstream, r.WaitedUS
	}
	if s := story.Settled; s != nil && s.QueueState != "" {
		w.State, w.WaitedUS = s.QueueState, s.WaitedUS
	}
	o.open("queue", '{')
	o.text("state", w.State)
	o.text("upstream", w.Upstream)
	o.number("position", int64(w.Position))
	if w.Ticket != 0 {
		o.name("ticket")
		o.b = strconv.AppendUint(o.b, w.Ticket, 10)
	}
	o.number("waited_us", w.WaitedUS)
	o.shut('}')
}

func excluded(o *object, story *request.Story) {
	var list []request.Exclusion
	switch {
	case story.Admitted != nil:
		list = story.Admitted.Excluded
	case story.Rejected != nil:
		list = story.Rejected.Excluded
	}
	if len(list) == 0 {
		return
	}
	o.open("excluded", '[')
	for _, e := range list {
		o.element()
		o.text("upstream", e.Upstream)
		o.text("reason", e.Reason)
		o.text("account", e.Account)
		if !e.Until.IsZero() {
			o.text("until", e.Until.UTC().Format(time.RFC3339))
		}
		o.shut('}')
	}
	o.shut(']')
}
