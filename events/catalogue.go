package events

import (
	"iter"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/account"
	"github.com/penstock/penstock/domain/books"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/ledger"
	"github.com/penstock/penstock/domain/node"
	"github.com/penstock/penstock/domain/request"
)

// lines is the catalogue of all facts. A stored name is never changed and never used again. A schema number rises
// when the JSON of a fact changes its meaning (a new optional field does not), together with a fixture in testdata
// and a line in upcasters. Facts of the hot path list their fields
// for a fast codec (codec_hot.go), the others go through the generic one.
var lines = []line{
	of("request.rejected", 1, walkRejected),
	of("request.admitted", 1, walkAdmitted),
	of("request.queued", 1, walkQueued),
	of("request.resumed", 1, walkResumed),
	of("attempt.dispatched", 1, walkDispatched),
	of("attempt.failed", 1, walkFailed),
	of[request.Progressed]("request.progressed", 1, nil),
	of("request.settled", 2, walkSettled),
	of[request.Repriced]("request.repriced", 1, nil),

	of[breaker.Opened]("upstream.opened", 1, nil),
	of[breaker.HalfOpened]("upstream.half_opened", 1, nil),
	of[breaker.Closed]("upstream.closed", 1, nil),
	of[account.Blocked]("account.blocked", 1, nil),
	of[account.Unblocked]("account.unblocked", 1, nil),

	of[catalog.UpstreamRegistered]("upstream.registered", 1, nil),
	of[catalog.UpstreamChanged]("upstream.changed", 1, nil),
	of[catalog.UpstreamRemoved]("upstream.removed", 1, nil),
	of[catalog.AccountRegistered]("account.registered", 1, nil),
	of[catalog.AccountChanged]("account.changed", 1, nil),
	of[catalog.AccountRemoved]("account.removed", 1, nil),
	of[catalog.GroupRegistered]("group.registered", 1, nil),
	of[catalog.GroupChanged]("group.changed", 1, nil),
	of[catalog.GroupRemoved]("group.removed", 1, nil),
	of[catalog.UserRegistered]("user.registered", 1, nil),
	of[catalog.UserChanged]("user.changed", 1, nil),
	of[catalog.UserRemoved]("user.removed", 1, nil),
	of[catalog.KeyRegistered]("key.registered", 1, nil),
	of[catalog.KeyChanged]("key.changed", 1, nil),
	of[catalog.KeyRemoved]("key.removed", 1, nil),
	of[access.Bound]("key.ip_bound", 1, nil),
	of[catalog.PriceRegistered]("price.registered", 1, nil),
	of[catalog.PriceChanged]("price.changed", 1, nil),
	of[catalog.PriceRemoved]("price.removed", 1, nil),
	of[catalog.RuleRegistered]("rule.registered", 1, nil),
	of[catalog.RuleChanged]("rule.changed", 1, nil),
	of[catalog.RuleRemoved]("rule.removed", 1, nil),
	of[catalog.SettingRegistered]("setting.registered", 1, nil),
	of[catalog.SettingChanged]("setting.changed", 1, nil),
	of[catalog.SettingRemoved]("setting.removed", 1, nil),
	of[catalog.WebhookRegistered]("webhook.registered", 1, nil),
	of[catalog.WebhookChanged]("webhook.changed", 1, nil),
	of[catalog.WebhookRemoved]("webhook.removed", 1, nil),

	of[ledger.Credited]("balance.credited", 1, nil),
	of[ledger.Adjusted]("balance.adjusted", 1, nil),
	of[ledger.Granted]("subscription.granted", 1, nil),
	of[ledger.Revoked]("subscription.revoked", 1, nil),

	of[books.Closed]("books.closed", 1, nil),
	of[books.Removed]("books.removed", 1, nil),
	of[books.Trimmed]("books.trimmed", 1, nil),

	of[node.Started]("node.started", 1, nil),
	of[node.Stopped]("node.stopped", 1, nil),
	of[node.AuthRefused]("auth.refused", 1, nil),
}

// upcasters lead from a schema to the next one of the same name: pure functions from JSON object to JSON object, each with
// nothing in common with the structs of today. See upcast.go.
var upcasters = map[versioned]upcast{
	{"request.settled", 1}: settledMultipliers,
}

// known is the catalogue in force.
var known = newCatalogue(lines, upcasters)

// line is one kind of fact.
type line struct {
	name   string
	schema int
	tag    string // as it stands in Row.Types
	typ    reflect.Type
	empty  func() Fact
	walk   func(m *members, f Fact) // nil: generic
}

type versioned struct {
	name   string
	schema int
}

type upcast func(object []byte) ([]byte, error)

type catalogue struct {
	byName    map[string]*line
	byType    map[reflect.Type]*line
	upcasters map[versioned]upcast
	kept      atomic.Pointer[map[string]string] // of joined
}

// of makes the line of fact T. walk lists its fields for the fast codec; it writes exactly what the struct tags say.
// nil leaves the fact to the generic codec.
func of[T any](name string, schema int, walk func(*members, *T)) line {
	l := line{name: name, schema: schema, tag: tag(name, schema), typ: reflect.TypeFor[*T]()}
	l.empty = func() Fact { return new(T) }
	if walk != nil {
		l.walk = func(m *members, f Fact) { object(m, f.(*T), walk) }
	}
	return l
}

func newCatalogue(lines []line, up map[versioned]upcast) *catalogue {
	c := &catalogue{byName: map[string]*line{}, byType: map[reflect.Type]*line{}, upcasters: up}
	c.kept.Store(&map[string]string{})
	for i := range lines {
		l := &lines[i]
		c.byName[l.name], c.byType[l.typ] = l, l
	}
	return c
}

// Name is the stored name of a fact, "" for what is no fact.
func Name(f Fact) string {
	if l := known.byType[reflect.TypeOf(f)]; l != nil {
		return l.name
	}
	return ""
}

// Names lists the stored names of all facts in the order of the catalogue.
func Names() []string {
	names := make([]string, len(lines))
	for i, l := range lines {
		names[i] = l.name
	}
	return names
}

// joinedMax bounds the Row.Types that are kept; requests write a handful of them.
const joinedMax = 256

// joined is a Row.Types as a string, one and the same each time.
func (c *catalogue) joined(tags []byte) string {
	kept := c.kept.Load()
	if s, ok := (*kept)[string(tags)]; ok {
		return s
	}
	s := string(tags)
	if len(*kept) < joinedMax {
		more := maps.Clone(*kept)
		more[s] = s
		c.kept.CompareAndSwap(kept, &more) // lost: the next one keeps it
	}
	return s
}

// EachType yields name and schema of every fact of a Row.Types in order. A tag that is none ("a@x") has schema 0.
func EachType(types string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for t := range strings.SplitSeq(types, " ") {
			if !yield(untag(t)) {
				return
			}
		}
	}
}

// HasType says whether one of the facts of a Row.Types has the name.
func HasType(types, name string) bool {
	for n := range EachType(types) {
		if n == name {
			return true
		}
	}
	return false
}

func tag(name string, schema int) string {
	if schema == 1 {
		return name
	}
	return name + "@" + strconv.Itoa(schema)
}

func untag(t string) (name string, schema int) {
	name, number, found := strings.Cut(t, "@")
	if !found {
		return name, 1
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 2 {
		return name, 0
	}
	return name, n
}
