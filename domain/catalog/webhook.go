package catalog

import (
	"net/url"
	"slices"
	"strings"
)

// Webhook is an address to which facts and alerts are sent. Its signing secret is sealed and referred to by its
// version, as the credential of an account is.
type Webhook struct {
	ID            string   `json:"id"`
	URL           string   `json:"url"`    // http or https
	Events        []string `json:"events"` // names of facts or alerts, or globs such as request.* and alert.*; audit.head: signed heads of the chain
	SecretVersion int64    `json:"secret_version"`
	Masked        string   `json:"secret"` // abc***wxyz, for people
	Active        bool     `json:"active"` // false pauses; it goes on where it was
}

// Kind of a webhook.
func (*Webhook) Kind() Kind { return KindWebhook }

// Ident is the id within the kind.
func (r *Webhook) Ident() string { return r.ID }

// Bounds of a webhook.
const (
	webhookEventsMax = 100
	webhookSecretMin = 16 // bytes; 12 and more can be masked
)

func (c *checker) webhook(r Webhook, s *State) Resource {
	c.id(r.ID, "")
	c.webhookURL(r.URL)
	switch {
	case len(r.Events) == 0:
		c.fail("events", "is required: names such as request.settled, or globs such as alert.*")
	case len(r.Events) > webhookEventsMax:
		c.fail("events", "has more than %d entries", webhookEventsMax)
	}
	for i, e := range r.Events {
		if e == "" || strings.Trim(e, "abcdefghijklmnopqrstuvwxyz_.*?") != "" {
			c.fail(indexed("events", i), "must be a name such as request.settled, or a glob such as alert.*")
		} else if slices.Contains(r.Events[:i], e) {
			c.fail(indexed("events", i), "%s is named twice", e)
		}
	}
	r.Events = slices.Clone(r.Events)
	c.sealed(&r, s)
	return &r
}

// webhookURL keeps credentials out of an address that is shown to people.
func (c *checker) webhookURL(text string) {
	if text == "" {
		c.fail("url", "is required")
		return
	}
	c.text("url", text, true)
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.fail("url", "must be an address such as https://example.com/hook")
	case u.User != nil:
		c.fail("url", "must not hold a user or password")
	case u.Fragment != "":
		c.fail("url", "must not have a fragment")
	}
}

// Webhooks is all webhooks, active or not, sorted by id. It must not be changed.
func (s *Snapshot) Webhooks() []*Webhook { return s.hooks }
