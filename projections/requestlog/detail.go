package requestlog

import (
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// detail is the JSON column as it is read back; encode writes it. It is the widest part of a line and costs by the byte: names are a
// letter or two, words that many lines share are numbers, and what is zero is not written, nor what the other columns say.
type detail struct {
	User              string      `json:"u"`
	Group             string      `json:"g"`
	Method            word        `json:"m"`
	Path              word        `json:"p"`
	Dialect           word        `json:"d"`
	Capability        word        `json:"c"`
	Stream            bool        `json:"s"`
	Session           string      `json:"n"`
	Client            string      `json:"k"`
	ClientProfile     word        `json:"kp"`
	ClientRequestID   string      `json:"ki"`
	UpstreamModel     string      `json:"um"`
	UpstreamRequestID string      `json:"ui"`
	Affinity          word        `json:"af"`
	Code              word        `json:"co"`
	Reason            word        `json:"r"`
	Stage             word        `json:"st"`
	Other             bool        `json:"o"` // whether something was sent is not what the attempts say: sent without one, or not in spite of one
	ClientGone        bool        `json:"cg"`
	Source            word        `json:"us"`
	TTFTUS            int64       `json:"f"`
	Attempts          []try       `json:"a"`
	Usage             counts      `json:"x"` // what the end of the request adds to that of the attempts
	Queue             *wait       `json:"q"`
	Excluded          []Exclusion `json:"e"`
	billed                        // of an end that belongs to no attempt
}

// try is an attempt. What is nil is that of the line if there is no other attempt, else nothing.
type try struct {
	Upstream string `json:"u"` // not of the last one: its is a column
	Account  string `json:"a"`
	After    int64  `json:"t"` // microseconds from the time of the line
	Class    word   `json:"c"`
	Status   *int64 `json:"s"`
	TookUS   int64  `json:"d"`
	TTFTUS   *int64 `json:"f"`
	Usage    counts `json:"x"`
	Cost     *int64 `json:"m"` // units of 1e-10 USD
	Owed     *int64 `json:"w"` // where it is not the cost
	billed
}

// billed is how a usage was priced.
type billed struct {
	Clamped        bool   `json:"bc"`
	ServiceTier    word   `json:"bt"`
	PriceVersion   string `json:"bv"`
	PriceOrigin    word   `json:"bo"`
	Inherited      bool   `json:"bi"`
	Unpriced       bool   `json:"bu"`
	UnpricedReason word   `json:"br"`
}

func (b *billed) write(o *object) {
	o.flag("bc", b.Clamped)
	o.word("bt", string(b.ServiceTier))
	o.text("bv", b.PriceVersion)
	o.word("bo", string(b.PriceOrigin))
	o.flag("bi", b.Inherited)
	o.flag("bu", b.Unpriced)
	o.word("br", string(b.UnpricedReason))
}

func settledBy(s *request.Settled) billed {
	return billed{s.Clamped, word(s.ServiceTier), s.PriceVersion, word(s.PriceOrigin), s.Inherited, s.Unpriced, word(s.UnpricedReason)}
}

type wait struct {
	State    word   `json:"s"`
	Upstream string `json:"u"`
	Position int    `json:"p"`
	Ticket   uint64 `json:"t"`
	WaitedUS int64  `json:"w"`
}

// line is what the columns say of a story.
type line struct {
	at, status, ttft int64
	cost, owed       money.Amount
}

// encode writes the detail of a story. waiting says that its last fact put it into a queue.
func encode(story *request.Story, asked *request.Ask, l line, waiting bool) string {
	o := objects.Get().(*object)
	defer objects.Put(o)
	o.b = append(o.b[:0], '{')
	o.text("u", asked.User)
	o.text("g", asked.Group)
	o.word("m", asked.Method)
	o.word("p", asked.Path)
	o.word("d", asked.Dialect)
	o.word("c", asked.Capability)
	o.flag("s", asked.Stream)
	o.text("n", asked.Session)
	o.text("k", asked.Client)
	o.word("kp", asked.Profile)
	o.text("ki", asked.ClientID)
	end(o, story)
	attempts(o, story, l)
	queue(o, story, waiting)
	excluded(o, story)
	o.shut('}')
	return string(o.b)
}

// end writes how the request ended, or how far it is.
func end(o *object, story *request.Story) {
	tried := len(story.Attempts) > 0
	sent, upstreamID := tried, ""
	if final := story.Final(); final != nil {
		o.text("um", final.Dispatched.UpstreamModel)
	}
	o.word("af", affinity(story))
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
		o.word("co", s.Code)
		o.word("r", s.Reason)
		o.word("st", s.Stage)
		o.flag("cg", s.ClientGone)
		o.word("us", string(s.UsageSource))
		o.number("f", s.TTFTUS)
	case story.Rejected != nil:
		o.word("co", story.Rejected.Code)
		o.word("r", story.Rejected.Reason)
		o.word("st", story.Rejected.Stage)
	case story.Progressed != nil:
		o.word("us", string(story.Progressed.UsageSource))
	}
	o.flag("o", sent != tried)
	o.text("ui", upstreamID)
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
func attempts(o *object, story *request.Story, l line) {
	rest := story.Settled
	if len(story.Attempts) > 0 {
		o.open("a", '[')
		for i := range story.Attempts {
			t := tryOf(&story.Attempts[i])
			if i+1 == len(story.Attempts) && story.Attempts[i].Failed == nil {
				switch {
				case rest != nil:
					t.class, t.status, t.took, t.ttft = rest.Class, rest.UpstreamStatus, rest.AttemptUS, rest.TTFTUS
					t.usage, t.cost, t.owed, t.billed = rest.Usage, rest.Cost, rest.UpstreamCost, settledBy(rest)
					rest = nil
				case story.Progressed != nil && story.Progressed.N == i+1:
					t.usage = story.Progressed.Usage
				}
			}
			usual := line{at: l.at, owed: t.cost}
			if len(story.Attempts) == 1 {
				usual = l
			}
			o.element()
			if i+1 < len(story.Attempts) {
				o.text("u", t.sent.Upstream)
			}
			t.write(o, usual)
			o.shut('}')
		}
		o.shut(']')
	}
	if rest != nil {
		o.usage("x", rest.Usage)
		by := settledBy(rest)
		by.write(o)
	}
}

// told is an attempt as the facts tell it.
type told struct {
	sent       *request.Dispatched
	at         int64
	class      string
	status     int
	took, ttft int64
	usage      pricing.Usage
	cost, owed money.Amount
	billed
}

func tryOf(a *request.Attempt) told {
	t := told{sent: &a.Dispatched, at: a.At.UnixMicro()}
	if f := a.Failed; f != nil {
		t.class, t.status, t.took, t.ttft = f.Class, f.UpstreamStatus, f.TookUS, f.TTFTUS
		t.usage, t.cost, t.owed = f.Usage, f.Cost, f.UpstreamCost
		t.billed = billed{f.Clamped, word(f.ServiceTier), f.PriceVersion, word(f.PriceOrigin), f.Inherited, f.Unpriced, word(f.UnpricedReason)}
	}
	return t
}

// write writes all but the upstream. usual is what is read where nothing is written.
func (t *told) write(o *object, usual line) {
	o.text("a", t.sent.Account)
	o.number("t", t.at-usual.at)
	o.word("c", t.class)
	o.unless("s", int64(t.status), usual.status)
	o.number("d", t.took)
	o.unless("f", t.ttft, usual.ttft)
	o.usage("x", t.usage)
	o.unless("m", int64(t.cost), int64(usual.cost))
	o.unless("w", int64(t.owed), int64(usual.owed))
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
		w.State, w.WaitedUS = word(s.QueueState), s.WaitedUS
	}
	o.open("q", '{')
	o.word("s", string(w.State))
	o.text("u", w.Upstream)
	o.number("p", int64(w.Position))
	if w.Ticket != 0 {
		o.name("t")
		o.b = strconv.AppendUint(o.b, w.Ticket, 10)
	}
	o.number("w", w.WaitedUS)
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
	o.open("e", '[')
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
