package webhook_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/webhook"
	"github.com/penstock/penstock/events"
)

// headAt is a signed head.
func headAt(at events.Position) events.Head {
	h := events.Head{Position: at, Hash: events.Sum{1, byte(at)}}
	h.Sign(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return h
}

// heads are the ids of the deliveries that were taken.
func (r *receiver) heads() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.taken {
		list = append(list, d.id)
	}
	return list
}

// hasTried says that a delivery has come, taken or not.
func (r *receiver) hasTried(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.tried {
		if d.id == id {
			return true
		}
	}
	return false
}

// getsHead waits until the last delivery that was taken is this one.
func (r *receiver) getsHead(id string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { list := r.heads(); return len(list) > 0 && list[len(list)-1] == id }, patience, time.Millisecond, "want %s", id)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(r.t, r.faults)
}

func TestASignedHeadIsDeliveredAsItIsToThoseWhoAskForIt(t *testing.T) {
	h := newHouse(t, nil)
	proof, facts := newReceiver(t, nil), newReceiver(t, nil)
	h.hook("proof", proof.URL, webhook.AuditHead)
	h.hook("facts", facts.URL, "request.*", "alert.*")
	head := headAt(7)
	h.manager.Head(head)
	proof.getsHead("head-7")
	line, err := json.Marshal(head)
	require.NoError(t, err)
	require.Equal(t, string(line)+"\n", proof.taken[0].body)
	got, err := events.ParseHeads([]byte(proof.taken[0].body))
	require.NoError(t, err)
	require.Equal(t, []events.Head{head}, got)
	require.NoError(t, got[0].Check(head.Key))
	h.many(2)
	facts.gets(1, 2)
	require.Len(t, proof.heads(), 1, "it did not ask for facts")
	require.Eventually(t, func() bool { s, _ := h.manager.Status("proof"); return s.Delivered == 1 }, patience, time.Millisecond)
}

func TestALaterHeadTakesThePlaceOfOneThatWasNotDelivered(t *testing.T) {
	h := newHouse(t, nil)
	var open atomic.Bool
	r := newReceiver(t, func(int, http.ResponseWriter, *http.Request) int {
		if open.Load() {
			return 200
		}
		return 503
	})
	h.hook("w", r.URL, "audit.*")
	for _, at := range []events.Position{1, 2, 3} {
		h.manager.Head(headAt(at))
		id := "head-" + string(rune('0'+at))
		require.Eventually(t, func() bool { return r.hasTried(id) }, patience, time.Millisecond)
	}
	open.Store(true)
	r.getsHead("head-3")
	require.Equal(t, []string{"head-3"}, r.heads())
	require.Eventually(t, func() bool { s, _ := h.manager.Status("w"); return s.Delivered == 1 && s.FailingSince == nil }, patience, time.Millisecond)
}

func TestAReceiverOfHeadsThatHangsBlocksNobodyAndGetsTheLastOne(t *testing.T) {
	h := newHouse(t, nil)
	release := make(chan struct{})
	stuck := newReceiver(t, func(n int, _ http.ResponseWriter, _ *http.Request) int {
		if n == 1 {
			<-release
		}
		return 200
	})
	good := newReceiver(t, nil)
	h.hook("stuck", stuck.URL, webhook.AuditHead)
	h.hook("good", good.URL, webhook.AuditHead)
	h.manager.Head(headAt(1))
	require.Eventually(t, func() bool { return stuck.hasTried("head-1") }, patience, time.Millisecond)
	for at := range events.Position(200) {
		h.manager.Head(headAt(2 + at))
	}
	good.getsHead("head-201")
	require.Empty(t, stuck.heads())
	close(release)
	stuck.getsHead("head-201")
	require.Equal(t, []string{"head-1", "head-201"}, stuck.heads())
}

func TestHeadsAndFactsDoNotHoldEachOtherUp(t *testing.T) {
	isHead := func(q *http.Request) bool { return strings.HasPrefix(q.Header.Get(webhook.DeliveryHeader), "head-") }
	h := newHouse(t, nil)
	noHeads := newReceiver(t, func(_ int, _ http.ResponseWriter, q *http.Request) int {
		if isHead(q) {
			return 400
		}
		return 200
	})
	noFacts := newReceiver(t, func(_ int, _ http.ResponseWriter, q *http.Request) int {
		if isHead(q) {
			return 200
		}
		return 422
	})
	h.hook("no-heads", noHeads.URL, "*")
	h.hook("no-facts", noFacts.URL, "*")
	h.manager.Head(headAt(9))
	require.Eventually(t, func() bool { return noHeads.hasTried("head-9") }, patience, time.Millisecond)
	h.many(20)
	noHeads.gets(1, 20)
	noFacts.getsHead("head-9")
	for id, fault := range map[string]string{"no-heads": "the receiver answers 400", "no-facts": "the receiver answers 422"} {
		require.Eventually(t, func() bool {
			s, _ := h.manager.Status(id)
			return s.FailingSince != nil && s.LastError == fault && s.Delivered > 0
		}, patience, time.Millisecond, id)
	}
}

func TestAWebhookThatIsNewOrChangedGetsTheLastHead(t *testing.T) {
	h := newHouse(t, nil)
	h.manager.Head(headAt(3))
	h.manager.Head(headAt(4))
	broken := newReceiver(t, func(int, http.ResponseWriter, *http.Request) int { return 404 })
	w := h.hook("w", broken.URL, webhook.AuditHead)
	require.Eventually(t, func() bool { return broken.hasTried("head-4") }, patience, time.Millisecond)
	require.False(t, broken.hasTried("head-3"))

	paused := *w
	paused.Active = false
	h.configure(&paused)
	require.Eventually(t, func() bool { s, _ := h.manager.Status("w"); return !s.Active }, patience, time.Millisecond)
	h.manager.Head(headAt(5))
	right := newReceiver(t, nil)
	h.hook("w", right.URL, webhook.AuditHead)
	right.getsHead("head-5")
	require.False(t, broken.hasTried("head-5"))
}

func TestAHeadThatFailsForTooLongIsGivenUpAndTheNextIsTried(t *testing.T) {
	h := newHouse(t, func(o *webhook.Options) { o.RetryFor = 30 * time.Millisecond })
	r := newReceiver(t, func(_ int, _ http.ResponseWriter, q *http.Request) int {
		if q.Header.Get(webhook.DeliveryHeader) == "head-1" {
			return 500
		}
		return 200
	})
	ops := newReceiver(t, nil)
	h.hook("ops", ops.URL, "alert.*")
	h.hook("w", r.URL, webhook.AuditHead)
	h.manager.Head(headAt(1))
	require.Eventually(t, func() bool { return len(ops.types()) == 1 }, patience, time.Millisecond)
	require.Equal(t, "alert.webhook_gave_up", ops.types()[0])
	require.JSONEq(t, `{"webhook":"w","first_position":"1","last_position":"1","lines":1,"head":true,"error":"the receiver answers 500"}`,
		string(ops.taken[0].lines[0].Data))
	require.Contains(t, h.log.String(), `msg="webhook delivery given up" webhook=w positions=head-1 lines=1`)
	h.manager.Head(headAt(2))
	r.getsHead("head-2")
	s, ok := h.manager.Status("w")
	require.True(t, ok)
	require.EqualValues(t, 1, s.GivenUp)
}
