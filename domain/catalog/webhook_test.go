package catalog

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const webhookText = `{"kind":"webhook","id":"w","url":"https://example.com/hook?x=1","events":["request.settled","alert.*"],"secret":"whsec-0123456789abcdef"}`

func TestTheSecretOfAWebhookIsTakenOutOfItsDocument(t *testing.T) {
	r, x, err := DecodeResource("", []byte(webhookText))
	if err != nil || x.Credential != "whsec-0123456789abcdef" || x.CredentialUnchanged {
		t.Fatalf("got %+v, %v", x, err)
	}
	want := &Webhook{ID: "w", URL: "https://example.com/hook?x=1", Events: []string{"request.settled", "alert.*"}, Masked: "whs***cdef", Active: true}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	if id := r.(Sealed).SecretID(); id != "webhook/w" {
		t.Errorf("the secret has the name %q, which may be that of an account", id)
	}
	_, x, err = DecodeResource(KindWebhook, []byte(`{"id":"w","secret":"whs***cdef"}`))
	if err != nil || x.Credential != "" || !x.CredentialUnchanged {
		t.Errorf("a masked secret is no new one: %+v, %v", x, err)
	}
}

func TestAWebhookKeepsItsSecretUntilItGetsAnother(t *testing.T) {
	s := NewState()
	w := &Webhook{ID: "w", URL: "https://h", Events: []string{"*"}, SecretVersion: 1, Masked: "whs***cdef", Active: true}
	apply(t, s, w)
	paused := &Webhook{ID: "w", URL: "https://h", Events: []string{"*"}, Masked: "whs***cdef"}
	apply(t, s, paused)
	got, _, _ := s.Get(KindWebhook, "w")
	if v, masked := got.(Sealed).Secret(); v != 1 || masked != "whs***cdef" || got.(*Webhook).Active {
		t.Errorf("got %+v", got)
	}
	if hooks := Build(s, nil).Webhooks(); len(hooks) != 1 || hooks[0] != got {
		t.Errorf("the snapshot has %+v", hooks)
	}
	facts, err := Decide(s, Remove{KindWebhook, "w"})
	if err != nil || !reflect.DeepEqual(facts, []Fact{&WebhookRemoved{"w"}}) {
		t.Errorf("got %v, %v", facts, err)
	}
}

func TestWhatAWebhookMustNotSayIsRefusedByName(t *testing.T) {
	good := Webhook{ID: "w", URL: "https://h", Events: []string{"*"}, SecretVersion: 1, Masked: "whs***cdef"}
	for want, change := range map[string]func(*Webhook){
		"url: is required":                         func(w *Webhook) { w.URL = "" },
		"url: must be an address":                  func(w *Webhook) { w.URL = "example.com/hook" },
		"url: must not hold a user or password":    func(w *Webhook) { w.URL = "https://a:b@h" },
		"url: must not have a fragment":            func(w *Webhook) { w.URL = "https://h#x" },
		"url: has control characters":              func(w *Webhook) { w.URL = "https://h/\n" },
		"events: is required":                      func(w *Webhook) { w.Events = nil },
		"events: has more than 100 entries":        func(w *Webhook) { w.Events = strings.Fields(strings.Repeat("a ", 101)) },
		"events[1]: must be a name":                func(w *Webhook) { w.Events = []string{"a.b", "A"} },
		"events[1]: a.b is named twice":            func(w *Webhook) { w.Events = []string{"a.b", "a.b"} },
		"secret: is required":                      func(w *Webhook) { w.SecretVersion, w.Masked = 0, "" },
		"secret: is masked, and there is no":       func(w *Webhook) { w.SecretVersion = 0 },
		"secret: must be sealed and masked before": func(w *Webhook) { w.Masked = "whsec-0123456789abcdef" },
		"secret: has a negative version":           func(w *Webhook) { w.SecretVersion = -1 },
	} {
		w := good
		change(&w)
		_, err := Decide(NewState(), Apply{Resource: &w})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "webhook w: "+want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
