package actors

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// past is a history that can be written.
type past struct {
	mu    sync.Mutex
	used  []Used
	while func() error // is done in every reading
}

func (p *past) read(of limit.Past, yield func(*Used)) error {
	p.mu.Lock()
	used, while := append([]Used(nil), p.used...), p.while
	p.mu.Unlock()
	if while != nil {
		if err := while(); err != nil {
			return err
		}
	}
	for i := range used {
		if u := &used[i]; of.Whole || !u.Settled.Before(of.Since) {
			yield(u)
		}
	}
	return nil
}

func (p *past) whileRead(do func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.while = do
}

// ends settles a request of a user, live and in the history.
func (p *past) ends(h *house, of Pass, user string, cost money.Amount) {
	p.mu.Lock()
	p.used = append(p.used, Used{Key: of.Key, User: user, PaidBy: of.paidBy, Settled: h.now(), Sent: true, Cost: cost})
	p.mu.Unlock()
	h.settled(of, cost, 1)
}

// A rule that becomes new while requests are running counts what is settled from the moment on at which it is there.
func TestWhatIsSettledWhileARuleComesIsCountedOnce(t *testing.T) {
	h := openHouse(t, Layout{})
	told := &past{}
	sub := limit.Subscription{ID: "s", Starts: testStart.Add(-time.Hour), Daily: 10 * money.USD}
	h.history = told.read
	h.funds = func(string) Funds { return Funds{Subscriptions: []limit.Subscription{sub}} }
	h.Reconfigure(Layout{Users: []catalog.User{{ID: "u"}, {ID: "v"}}, Keys: []catalog.Key{{ID: "u", User: "u"}, {ID: "v", User: "v"}}})
	running := map[string]Pass{}
	for _, user := range []string{"u", "v"} {
		p, no := h.Admit("user/"+user, user, req("r-"+user), nil)
		if no != nil {
			t.Fatal(no)
		}
		if p.paidBy, _ = h.reserve(p, money.USD); p.paidBy != "subscription/s" {
			t.Fatal(p.paidBy)
		}
		running["user/"+user] = p
	}
	sub.Weekly = 10 * money.USD
	other := map[string]string{"user/u": "v", "user/v": "u"}
	var once sync.Once
	h.hooks.before = func(owner string, msg any) {
		if _, ok := msg.(*inside[*callerDesk]); ok && other[owner] != "" {
			once.Do(func() {
				h.passTime(time.Second)
				told.ends(h, running["user/"+other[owner]], other[owner], money.USD)
				h.passTime(time.Second)
			})
		}
	}
	h.takeFunds()
	h.hooks.before = nil
	spent := money.Amount(0)
	for _, key := range []string{"u", "v"} {
		for i, s := range h.viewed(t, key).Subscriptions[0].Sums {
			if spent += s.Spent; i > 0 && s.Spent != h.viewed(t, key).Subscriptions[0].Sums[0].Spent {
				t.Errorf("%s: %s %s of %+v", key, s.Rule.Period, s.Spent, h.viewed(t, key).Subscriptions[0].Sums)
			}
		}
	}
	if spent != 2*money.USD {
		t.Errorf("%s in both windows together", spent)
	}
}

// A request that outlives its user is spent, also when it ends just while the user comes back.
func TestARequestThatEndsWhileItsUserComesBackIsSpent(t *testing.T) {
	l := Layout{
		Users: []catalog.User{{ID: "u", Budget: "postpaid", Overdraft: "5"}},
		Keys:  []catalog.Key{{ID: "k", User: "u", Limits: &catalog.Limits{Budget: "9"}}},
	}
	h := openHouse(t, l)
	told := &past{}
	h.history = told.read
	p, no := h.Admit("user/u", "k", req("a"), nil)
	if no != nil {
		t.Fatal(no)
	}
	p.paidBy, _ = h.reserve(p, money.USD)
	h.Reconfigure(Layout{})
	told.whileRead(func() error {
		h.passTime(time.Second)
		h.settled(p, money.USD, 1)
		return nil
	})
	h.Reconfigure(l)
	h.read() // who had to wait has told it
	if v := h.viewed(t, "k"); v.Balance.Spent != money.USD || v.Keys[0].Sums[0].Spent != money.USD {
		t.Fatalf("%+v %+v", v.Balance, v.Keys)
	}
}

// A key that moves to another user is served all the time, also while it is read what it has spent before.
func TestAKeyThatMovesIsServedWhileItsPastIsRead(t *testing.T) {
	of := func(user string) Layout {
		return Layout{
			Users: []catalog.User{{ID: "u"}, {ID: "v"}},
			Keys:  []catalog.Key{{ID: "k", User: user, Slots: count(2), Limits: &catalog.Limits{Budget: "9"}}, {ID: "other", User: "u"}},
		}
	}
	h := openHouse(t, of("u"))
	told := &past{}
	h.history = told.read
	var p Pass
	told.whileRead(func() (err error) {
		var no *Refusal
		if p, no = h.Admit("user/u", "k", req("a"), nil); no != nil {
			t.Errorf("while it moves: %+v", *no)
		}
		ended, no := h.Admit("user/u", "k", req("ends"), nil)
		if no != nil {
			t.Errorf("while it moves: %+v", *no)
		}
		h.settled(ended, money.USD, 1)
		return nil
	})
	h.Reconfigure(of("v"))
	q := h.enter(t, "b", "k").ends("")
	waits := h.enter(t, "c", "k").waits() // what was let in before counts
	h.settled(p, money.USD, 1)
	h.Leave(waits.ends(""))
	h.Leave(q)
	if v := h.viewed(t, "k"); v.Keys[0].Sums[0].Spent != 2*money.USD || v.Open != 0 {
		t.Errorf("%+v", v)
	}
	if v := h.viewed(t, "other"); len(v.Keys) != 1 || v.Open != 0 {
		t.Errorf("%+v", v)
	}
}

// Strict limits that cannot know what was spent before refuse until they do; postpaid ones go on.
func TestAStrictLimitWhosePastCannotBeReadRefuses(t *testing.T) {
	l := Layout{
		Users:   []catalog.User{{ID: "u"}, {ID: "v"}},
		Keys:    []catalog.Key{{ID: "u", User: "u"}, {ID: "v", User: "v"}},
		Budgets: map[string]limit.Money{"platform": {Mode: limit.Strict}},
	}
	h := openHouse(t, l)
	h.learnAgain = time.Millisecond
	var log strings.Builder // written under changing
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	told := &past{used: []Used{
		{Key: "u", User: "u", Settled: testStart.Add(-time.Minute), Cost: money.USD},
		{Key: "v", User: "v", Settled: testStart.Add(-time.Minute), Cost: money.USD},
	}}
	fail := true
	var mu sync.Mutex
	told.whileRead(func() error {
		mu.Lock()
		defer mu.Unlock()
		if fail {
			return errors.New("the disk is away")
		}
		return nil
	})
	h.history = told.read
	limits := &catalog.Limits{Budget: "5"}
	next := l
	next.Keys = []catalog.Key{{ID: "u", User: "u", Budget: "strict", Limits: limits}, {ID: "v", User: "v", Limits: limits}}
	next.Budgets = map[string]limit.Money{"platform": {Mode: limit.Strict, Rules: []limit.Rule{{Limit: 5 * money.USD}}}}
	h.Reconfigure(next)
	if p, no := h.Admit("user/u", "u", req("a"), nil); no == nil || no.Reason != Limited || no.Limit.Reason != limit.ReasonUnread {
		t.Errorf("strict: %+v, %+v", p, no)
	}
	if no := h.reserveShares("b", []share{{"platform", 1}}); no.Reason != limit.ReasonUnread || no.Code != limit.BudgetExceeded {
		t.Errorf("strict and shared: %+v", no)
	}
	if p, no := h.Admit("user/v", "v", req("c"), nil); no != nil {
		t.Errorf("postpaid: %+v", no)
	} else {
		h.Leave(p)
	}
	mu.Lock()
	fail = false
	mu.Unlock()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		p, no := h.Admit("user/u", "u", req("d"), nil)
		if no == nil {
			h.Leave(p)
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", no.Limit)
		}
	}
	for _, key := range []string{"u", "v"} {
		if s := h.viewed(t, key).Keys[0].Sums[0]; s.Spent != money.USD {
			t.Errorf("%s: %+v", key, s)
		}
	}
	h.read() // what has told the callers tells the budgets, too
	h.changing.Lock()
	if said := log.String(); strings.Count(said, "limits know again") != 1 {
		t.Errorf("operators are told:\n%s", said)
	}
	h.changing.Unlock()
	if no := h.reserveShares("b", []share{{"platform", 1}}); !no.OK() {
		t.Errorf("%+v", no)
	}
	if v := h.shared(t, "platform"); v.Sums[0].Spent != 2*money.USD {
		t.Errorf("%+v", v)
	}
}

// A subscription that comes back pays from when it is known what was spent from it; until then it is as if it were not there yet.
func TestASubscriptionOfUnknownPastDoesNotPayYet(t *testing.T) {
	var subs []limit.Subscription
	credit := money.Amount(0)
	h := openHouse(t, Layout{})
	told := &past{used: []Used{{Key: "k", User: "u", PaidBy: "subscription/s", Settled: testStart.Add(-time.Minute), Cost: money.USD}}}
	h.history, h.funds = told.read, func(string) Funds { return Funds{Lives: credit > 0, Credited: credit, Subscriptions: subs} }
	h.Reconfigure(Layout{Users: []catalog.User{{ID: "u", Budget: "strict"}}, Keys: []catalog.Key{{ID: "k", User: "u"}}})
	subs = []limit.Subscription{{ID: "s", Starts: testStart.Add(-time.Hour), Daily: money.USD + 5}}
	asks := func(id string) (by string, no *Refusal) {
		p, no := h.Admit("user/u", "k", req(id), nil)
		if no != nil {
			return "", no
		}
		by, refused := h.reserve(p, 6)
		h.Leave(p)
		if !refused.OK() {
			return "", &Refusal{Limit: &refused}
		}
		return by, nil
	}
	for _, c := range []struct {
		credit money.Amount
		want   string
	}{{0, ""}, {100, limit.PaidByBalance}} {
		credit = c.credit
		subs[0].Starts = subs[0].Starts.Add(-time.Second) // other windows
		told.whileRead(func() error {
			by, no := asks("while " + c.want)
			if by != c.want || c.want == "" && (no == nil || no.Limit.Code != limit.BalanceExhausted) {
				t.Errorf("with %s: paid by %q, %+v", c.credit, by, no)
			}
			return nil
		})
		h.takeFunds("u")
	}
	if by, no := asks("after"); by != "" || no == nil || no.Limit.Code != limit.SubscriptionExhausted || no.Limit.Reason != "DAILY" {
		t.Errorf("paid by %q, %+v", by, no)
	}
	if s := h.viewed(t, "k").Subscriptions[0].Sums[0]; s.Spent != money.USD || h.viewed(t, "k").Balance.Spent != 0 {
		t.Errorf("%+v", s)
	}
}

// A long past is told piece by piece; one that breaks off in the middle is told again from its beginning, and counts once.
func TestAPastThatBreaksOffIsToldAgain(t *testing.T) {
	keys := func(l *catalog.Limits) Layout {
		return Layout{
			Keys:    []catalog.Key{{ID: "k", Budget: "strict", Limits: l}},
			Budgets: map[string]limit.Money{"upstream/a": {Rules: []limit.Rule{{Limit: money.USD}, {Period: limit.Period{Kind: limit.Rolling}, Limit: money.USD}}}},
		}
	}
	h := openHouse(t, Layout{Keys: []catalog.Key{{ID: "k"}}})
	h.learnAgain = time.Hour
	const n = 2*pastKept + 10
	fail := true
	h.history = func(_ limit.Past, yield func(*Used)) error {
		u := Used{Key: "k", Upstreams: []UsedUpstream{{"a", 2}}, Cost: 1}
		for i := range n {
			if u.Settled = testStart.Add(-time.Duration(i) * time.Millisecond); i == n-5 && fail {
				return errors.New("the disk is away")
			}
			yield(&u)
		}
		return nil
	}
	limits := &catalog.Limits{Budget: "1", Spending: []catalog.Spending{{Period: "rolling", Hours: 1, Limit: "1"}}}
	h.passTime(time.Second)
	h.Reconfigure(keys(limits))
	if _, no := h.Admit("key/k", "k", req("a"), nil); no == nil || no.Limit == nil || no.Limit.Reason != limit.ReasonUnread {
		t.Errorf("%+v", no)
	}
	h.passTime(time.Second)
	fail = false
	h.Reconfigure(keys(limits))
	for _, s := range h.viewed(t, "k").Keys[0].Sums {
		if s.Spent != n {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range h.shared(t, "upstream/a").Sums {
		if s.Spent != 2*n {
			t.Errorf("%+v", s)
		}
	}
}

// read returns when nobody reads the history.
func (h *house) read() {
	h.changing.Lock()
	defer h.changing.Unlock()
}
