package actors_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/money"
)

const bounded = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`

// asking begins a request that strict limits can bound.
func (r *rig) asking() *begun {
	c := r.call("/v1/chat/completions", bounded)
	c.Ask.Group = c.Key.Group
	return r.begin(c)
}

// holding begins one that holds the slot of a until the channel is closed.
func (r *rig) holding() (*begun, chan struct{}) {
	r.t.Helper()
	free := make(chan struct{})
	r.reply("a", reply{header: jsonHeader, hold: free, body: texts(okBody)})
	h := r.asking()
	r.until("the call to be made", func() bool { return r.sent("a") == 1 })
	return h, free
}

// A request for which a plan is made anew after its wait sets aside what that one may cost.
func TestAnotherPlanAfterAWaitIsPaidForByStrictLimits(t *testing.T) { // B11, B47, pain 73
	strictly := key("k", func(k *catalog.Key) { k.Budget, k.Limits = "strict", &catalog.Limits{Budget: "1"} })
	price := func(usd string) *catalog.Price {
		return &catalog.Price{ID: "m", Model: "m", PerRequest: usd, Input: "0", Output: "0"}
	}
	r := newRig(t, upstream("a", slots(1), queue(time.Minute)), account("a1", "a"), strictly, price("0.25"))
	h, free := r.holding()
	w := r.asking()
	r.until("the queue", r.waiting("a"))
	r.apply(price("2"), upstream("b", second), account("b1", "b"),
		upstream("a", slots(1), queue(time.Minute), func(u *catalog.Upstream) {
			u.ModelRules = []catalog.ModelRule{{Type: "exact", Value: "x"}}
		}))
	close(free)
	<-w.over
	<-h.over
	if w.Status != 429 || !strings.Contains(w.body(), "API_KEY_QUOTA_EXCEEDED") {
		t.Errorf("%d %s", w.Status, w.body())
	}
	if st, _ := r.system.KeyStatus("k"); st.Spending[0].Spent > money.USD || st.Spending[0].Reserved != 0 {
		t.Errorf("%+v", st.Spending)
	}
}

// What a request has set aside at the budget of a group is given back, also when its key goes to another group before the request is
// admitted.
func TestAFormerGroupGetsBackWhatWasSetAside(t *testing.T) {
	group := func(id string) *catalog.Group {
		return &catalog.Group{ID: id, Upstreams: []string{"a"}, Budget: "strict", Limits: &catalog.Limits{Budget: "0.6"}}
	}
	of := func(g string) *catalog.Key { return key("k", func(k *catalog.Key) { k.Group = g }) }
	r := newRig(t, upstream("a", slots(1), queue(time.Minute)), account("a1", "a"), group("g"), group("other"), of("g"),
		&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0"})
	h, free := r.holding()
	r.reply("a", whole(okBody))
	var once sync.Once
	now := r.Now
	r.Now = func() time.Time {
		if within("wait") {
			once.Do(func() { // it found no slot; there is one when it comes to the queue
				r.apply(of("other"))
				close(free)
				<-h.over
			})
		}
		return now()
	}
	w := r.asking()
	<-w.over
	r.Now = now
	r.apply(of("g"))
	if w.Status != 200 {
		t.Fatalf("%d %s", w.Status, w.body())
	}
	r.reply("a", whole(okBody))
	last := r.asking() // 0.25 of 0.6 are spent
	if <-last.over; last.Status != 200 {
		t.Errorf("%d %s", last.Status, last.body())
	}
}

// A settlement counts once under a rule that comes between its moment and its end.
func TestASettlementCountsOnceUnderARuleThatComesMeanwhile(t *testing.T) {
	r := newRig(t, upstream("a"), account("a1", "a"), key("k"),
		&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0"})
	read, answered, ruled := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.read = func() { close(read); <-answered }
	now := r.Now
	var once sync.Once
	r.Now = func() time.Time {
		at := now()
		if within("end") {
			once.Do(func() {
				go func() {
					defer close(ruled)
					r.apply(key("k", func(k *catalog.Key) { k.Limits = &catalog.Limits{Budget: "5"} }))
				}()
				select {
				case <-read: // it did not wait for the end of the request, and has not met it
				case <-time.After(100 * time.Millisecond):
				}
			})
		}
		return at
	}
	if got := r.asks(); got != "served, paid by nobody" {
		t.Fatal(got)
	}
	close(answered)
	<-ruled
	if st, _ := r.system.KeyStatus("k"); st.Spending[0].Spent != money.USD/4 {
		t.Errorf("%+v", st.Spending)
	}
}

// The first of all shared budgets counts the whole of what is running when it comes, as it would if there were others.
func TestTheFirstBudgetOfAnUpstreamCountsWhatIsRunning(t *testing.T) {
	r := newRig(t, upstream("a"), account("a1", "a"), key("k"),
		&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0"})
	h, free := r.holding()
	r.apply(upstream("a", func(u *catalog.Upstream) { u.Budget, u.Limits = "strict", &catalog.Limits{Budget: "0.4"} }))
	close(free)
	if <-h.over; h.Status != 200 {
		t.Fatalf("%d %s", h.Status, h.body())
	}
	r.reply("a", whole(okBody))
	last := r.asking()
	if <-last.over; last.Status != 429 || !strings.Contains(last.body(), "BUDGET_EXCEEDED") { // 0.25 of 0.4 are spent
		t.Errorf("%d %s", last.Status, last.body())
	}
}

// A price that comes into force while a request waits for a slot of its caller is the one that it is charged, so that it is set aside.
func TestAPriceThatComesWhileACallerWaitsIsSetAside(t *testing.T) { // B11, B47, pain 73
	one, dear := 1, time.Now().Add(30*time.Minute)
	r := newRig(t, upstream("a"), account("a1", "a"),
		key("k", func(k *catalog.Key) { k.Slots, k.Budget, k.Limits = &one, "strict", &catalog.Limits{Budget: "1"} }),
		&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0"},
		&catalog.Price{ID: "m2", Model: "m", PerRequest: "2", Input: "0", Output: "0", EffectiveFrom: &dear})
	h, free := r.holding()
	r.reply("a", whole(okBody))
	w := r.asking()
	r.until("the queue of the caller", func() bool { st, _ := r.system.KeyStatus("k"); return st.Running == 2 })
	r.late.Store(int64(time.Hour))
	close(free)
	<-h.over
	if <-w.over; w.Status != 429 || !strings.Contains(w.body(), "API_KEY_QUOTA_EXCEEDED") {
		t.Errorf("%d %s", w.Status, w.body())
	}
	if st, _ := r.system.KeyStatus("k"); st.Spending[0].Spent != money.USD/4 || st.Spending[0].Reserved != 0 {
		t.Errorf("%+v", st.Spending)
	}
}

// One that may come between the reservation and the admission is set aside, too.
func TestAPriceThatComesInAMomentIsSetAside(t *testing.T) {
	moment := time.Now().Add(400 * time.Millisecond)
	r := newRig(t, upstream("a"), account("a1", "a"),
		key("k", func(k *catalog.Key) { k.Budget, k.Limits = "strict", &catalog.Limits{Budget: "1"} }),
		&catalog.Price{ID: "m", Model: "m", PerRequest: "0.25", Input: "0", Output: "0"},
		&catalog.Price{ID: "m2", Model: "m", PerRequest: "2", Input: "0", Output: "0", EffectiveFrom: &moment})
	r.reply("a", whole(okBody))
	w := r.asking()
	if <-w.over; w.Status != 429 || !strings.Contains(w.body(), "API_KEY_QUOTA_EXCEEDED") {
		t.Errorf("%d %s", w.Status, w.body())
	}
}

// Pictures are bounded by how many the client asks for, as long as they have a price.
func TestPicturesAreSetAsideByStrictLimits(t *testing.T) { // pains 23, 24
	r := newRig(t, upstream("a", func(u *catalog.Upstream) { u.Capabilities = []dialect.Capability{dialect.CapExtended} }), account("a1", "a"),
		key("k", func(k *catalog.Key) { k.Budget, k.Limits = "strict", &catalog.Limits{Budget: "1.1"} }),
		&catalog.Price{ID: "m", Model: "m", Input: "0", Output: "0", PerImage: "0.25", MaxInputTokens: 9, MaxOutputTokens: 9})
	for _, c := range []struct {
		n, want string
		status  int
	}{{"5", "API_KEY_QUOTA_EXCEEDED", 429}, {`"2"`, "BUDGET_UNBOUNDABLE", 400}, {"4", "b64_json", 200}, {"1", "API_KEY_QUOTA_EXCEEDED", 429}} {
		picture := `{"b64_json":"x"}`
		r.reply("a", whole(`{"data":[`+strings.Repeat(picture+",", 3)+picture+`]}`))
		b := r.begin(r.call("/v1/images/generations", `{"model":"m","prompt":"x","n":`+c.n+`}`))
		if <-b.over; b.Status != c.status || !strings.Contains(b.body(), c.want) {
			t.Errorf("%s: %d %s", c.n, b.Status, b.body())
		}
	}
	if st, _ := r.system.KeyStatus("k"); st.Spending[0].Spent != money.USD || st.Spending[0].Reserved != 0 {
		t.Errorf("%+v", st.Spending)
	}
}

// within says whether its caller was called by a step of a request.
func within(step string) bool {
	var at [16]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(2, at[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "(*life)."+step) {
			return true
		}
		if !more {
			return false
		}
	}
}

// What a key has spent stays spent when the key goes to another user, and after a restart; its users have spent what they have.
func TestAKeyTakesWhatItHasSpentToAnotherUser(t *testing.T) {
	of := func(user string) *catalog.Key {
		return key("k", func(k *catalog.Key) { k.User, k.Limits = user, &catalog.Limits{Budget: "0.6"} })
	}
	limited := func(id string) *catalog.User { return &catalog.User{ID: id, Limits: &catalog.Limits{Budget: "9"}} }
	r := bank(t, limited("u"), limited("v"), of("u"))
	for n, user := range []string{"u", "v", ""} {
		r.apply(of(user))
		if got := r.asks(); got != "served, paid by nobody" {
			t.Fatal(got)
		}
		st, _ := r.system.KeyStatus("k")
		if st.Spending[0].Spent != money.Amount(n+1)*money.USD/4 {
			t.Errorf("%q: %+v", user, st.Spending)
		}
		if user != "" && (st.User == nil || st.User.Spending[0].Spent != money.USD/4) {
			t.Errorf("%q: %+v", user, st.User)
		}
		r.sameAfterRestart()
	}
	if got := r.asks(); got != "429 API_KEY_QUOTA_EXCEEDED" {
		t.Error(got)
	}
}
