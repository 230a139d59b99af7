package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
)

// Headers of a delivery.
const (
	SignatureHeader = "X-Penstock-Signature" // t=<unix seconds>,v1=<hex>
	WebhookHeader   = "X-Penstock-Webhook"   // id of the webhook
	DeliveryHeader  = "X-Penstock-Delivery"  // first-last position, or head-position; the same whenever it is tried again
)

// Sign is the value of SignatureHeader: HMAC-SHA256 with the webhook's secret over the time, a dot and the body. A
// receiver compares it and refuses times that are long past.
func Sign(secret string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// deliver tries until the receiver takes the batch, or what has taken its place in the lane, or until it is given up;
// false: the context has ended before.
func (h *hook) deliver(ctx context.Context, l *lane, b *batch) bool {
	for {
		after, err := h.post(ctx, b)
		if err == nil {
			h.succeeded(l, b)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		lost := h.failed(l, b, err)
		if lost && b.first != "" { // alerts about alerts would never end
			data := LostDelivery{Webhook: h.spec.ID, First: b.first, Last: b.last, Lines: b.lines, Head: b.head, Error: err.Error()}
			h.m.alert(Alert{Name: WebhookGaveUp, At: time.Now().UTC(), Data: data}, h)
		}
		l.retry = min(max(2*l.retry, h.m.o.RetryMin), h.m.o.RetryMax)
		// Also after what is given up: the next one is not hurried into the same wall.
		if !pause(ctx, max(l.retry, min(after, h.m.o.RetryMax))) {
			return lost
		}
		if lost {
			return true
		}
		select {
		case b = <-l.newer:
		default:
		}
	}
}

// post is one try. after is the pause that the receiver asks for, 0 for none.
func (h *hook) post(ctx context.Context, b *batch) (after time.Duration, err error) {
	secret, ok := h.m.o.Secret(h.spec.SecretID())
	if !ok {
		return 0, errors.New("its secret is not there")
	}
	try, end := graceful(ctx)
	defer end()
	r, err := http.NewRequestWithContext(try, http.MethodPost, h.spec.URL, bytes.NewReader(b.body.Bytes()))
	if err != nil {
		return 0, errors.New("its address can not be used")
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "penstock/"+h.m.o.Version)
	r.Header.Set(WebhookHeader, h.spec.ID)
	r.Header.Set(SignatureHeader, Sign(secret, time.Now(), b.body.Bytes()))
	if id := b.id(); id != "" {
		r.Header.Set(DeliveryHeader, id)
	}
	answer, err := h.m.client.Do(r)
	if err != nil {
		var outer *url.Error // names the address, which may hold a token
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	if answer.StatusCode/100 == 2 {
		return 0, nil
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = time.Duration(min(seconds, 1<<20)) * time.Second
	}
	return after, errors.Newf("the receiver answers %d", answer.StatusCode)
}

// grace is how long a try under way may go on when the webhook is told to end.
const grace = time.Second

// graceful is a context that ends a moment after its parent.
func graceful(parent context.Context) (ctx context.Context, end context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		pause(ctx, grace)
		cancel()
	})
	return ctx, func() { stop(); cancel() }
}

func (h *hook) succeeded(l *lane, b *batch) {
	l.retry = 0
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.failing != nil {
		h.m.o.Logger.Info("webhook works again", "webhook", h.spec.ID, "after", time.Since(*l.failing).Round(time.Millisecond))
	}
	l.delivered += int64(b.lines)
	l.failing, l.fault = nil, ""
}

// failed notes a failure; lost says that the batch is given up.
func (h *hook) failed(l *lane, b *batch, err error) (lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.fault = err.Error()
	if l.failing == nil {
		now := time.Now()
		l.failing = &now
		h.m.o.Logger.Warn("webhook fails", "webhook", h.spec.ID, "positions", b.id(), "error", err)
	}
	if time.Since(*l.failing) < h.m.o.RetryFor {
		return false
	}
	l.givenUp += int64(b.lines)
	h.m.o.Logger.Error("webhook delivery given up", "webhook", h.spec.ID, "positions", b.id(),
		"lines", b.lines, "failing_since", *l.failing, "error", err)
	return true
}
