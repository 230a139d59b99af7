package admin

import (
	"context"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/catalog"
)

func (b *recorded) WebhookStatus(_ context.Context, id string) (WebhookStatus, error) {
	if id != "running" {
		return WebhookStatus{}, errors.Wrapf(ErrNotFound, "webhook %s", id)
	}
	return WebhookStatus{ID: id, Active: true, Position: 7, Lag: 3, Delivered: 2, Missed: 5}, nil
}

func TestAWebhookIsWrittenAndItsSecretNeverComesBack(t *testing.T) {
	b := newBench(t)
	const doc = `{"url":"https://example.com/hook","events":["request.*","alert.*"],"secret":"whsec-0123456789abcdef"}`
	made := b.ok(201, b.ask("PUT", "/api/v1/webhooks/w", doc))
	require.Equal(t, map[string]any{"kind": "webhook", "id": "w", "url": "https://example.com/hook",
		"events": []any{"request.*", "alert.*"}, "secret": "whs***cdef", "active": true}, made)
	require.Equal(t, map[string]string{"webhook/w": "whsec-0123456789abcdef"}, b.shelf.secrets)
	stored, _, _ := b.shelf.state.Get(catalog.KindWebhook, "w")
	version, masked := stored.(catalog.Sealed).Secret()
	require.EqualValues(t, 1, version)
	require.Equal(t, "whs***cdef", masked)

	changed := b.ok(200, b.ask("PATCH", "/api/v1/webhooks/w", `{"active":false}`))
	require.Equal(t, false, changed["active"])
	require.Equal(t, "whs***cdef", changed["secret"], "what is shown masked stays what it is")
	stored, _, _ = b.shelf.state.Get(catalog.KindWebhook, "w")
	version, _ = stored.(catalog.Sealed).Secret()
	require.EqualValues(t, 1, version)

	for body, want := range map[string][]string{
		`{"url":"ftp://x","events":["*"],"secret":"whsec-0123456789abcdef"}`: {"body.url: must be an address such as https://example.com/hook"},
		`{"url":"https://u:p@x","events":[],"secret":"whsec-0123456789abcdef"}`: {
			"body.events: is required: names such as request.settled, or globs such as alert.*", "body.url: must not hold a user or password"},
		`{"url":"https://x","events":["*"],"secret":"short"}`: {"body.secret: is shorter than 16 bytes"},
		`{"url":"https://x","events":["A b"],"secret":"whsec-0123456789abcdef"}`: {
			"body.events[0]: must be a name such as request.settled, or a glob such as alert.*"},
		`{"url":"https://x","events":["*"],"secret":"whs***0000"}`: {"body.secret: is masked but not the present secret whs***cdef; give the whole secret"},
	} {
		require.Equal(t, want, b.refused(422, b.ask("PUT", "/api/v1/webhooks/w", body)), body)
	}
	require.Equal(t, []string{"body.secret: is required"}, b.refused(422, b.ask("PUT", "/api/v1/webhooks/x", `{"url":"https://x","events":["*"]}`)))
}

func TestTheStatusOfAWebhookIsShown(t *testing.T) {
	b := newBench(t)
	const doc = `{"url":"https://example.com/hook","events":["*"],"secret":"whsec-0123456789abcdef"}`
	for _, id := range []string{"running", "starting"} {
		b.ok(201, b.ask("PUT", "/api/v1/webhooks/"+id, doc))
	}
	require.Equal(t, map[string]any{"id": "running", "active": true, "position": 7.0, "lag": 3.0, "delivered": 2.0, "given_up": 0.0, "missed_through": 5.0,
		"failing_since": nil, "last_error": ""}, b.ok(200, b.ask("GET", "/api/v1/webhooks/running/status", "")))
	b.refused(404, b.ask("GET", "/api/v1/webhooks/starting/status", ""))
	b.refused(404, b.ask("GET", "/api/v1/webhooks/none/status", ""))
}
