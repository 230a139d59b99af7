// Package webhook sends facts, alerts and signed heads of the chain to the addresses that the catalogue names. Each
// webhook reads the feed as a consumer group of its own, in order; one that is slow or down holds up nobody else.
package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// Options of a Manager. Feed, Secret and Logger are needed; the zero value of the others means their default.
type Options struct {
	Feed    events.Feed
	Secret  func(id string) (string, bool) // by catalog.Sealed.SecretID
	Logger  *slog.Logger
	Version string // of the program, for the User-Agent
	Node    string // of alerts that no fact gave rise to

	Timeout  time.Duration // of one try (default 10 s)
	RetryMin time.Duration // after the first failure (default 1 s); doubled with each one that follows
	RetryMax time.Duration // (default 5 min)
	RetryFor time.Duration // after so long without any success, what fails is given up, one delivery per try (default 24 h)
	Lines    int           // of one delivery, about (default 100)
	Bytes    int           // of one delivery, about (default 256 KiB)
}

func (o Options) withDefaults() Options {
	fill := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	fill(&o.Timeout, 10*time.Second)
	fill(&o.RetryMin, time.Second)
	fill(&o.RetryMax, 5*time.Minute)
	fill(&o.RetryFor, 24*time.Hour)
	if o.Lines == 0 {
		o.Lines = 100
	}
	if o.Bytes == 0 {
		o.Bytes = 256 << 10
	}
	return o
}

// groupPrefix begins the names of the consumer groups.
const groupPrefix = "webhook/"

// Group is the consumer group of a webhook.
func Group(id string) string { return groupPrefix + id }

// Manager runs the webhooks of the catalogue in force.
type Manager struct {
	o      Options
	client *http.Client
	life   context.Context
	end    context.CancelFunc
	wake   chan struct{}
	done   chan struct{}

	mu       sync.Mutex
	wanted   []*catalog.Webhook // nil before the first Reconfigure
	revision events.Position
	hooks    map[string]*hook
	head     *events.Head // the last one, nil before
}

// New starts a manager without webhooks.
func New(o Options) *Manager {
	m := &Manager{o: o.withDefaults(), wake: make(chan struct{}, 1), done: make(chan struct{}), hooks: map[string]*hook{}}
	m.client = &http.Client{
		Timeout:   m.o.Timeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		// What is signed for one address goes to no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	m.life, m.end = context.WithCancel(context.Background())
	go m.run()
	return m
}

// Reconfigure brings the webhooks to what the catalogue says. It returns at once. A webhook that is new gets what is
// stored after the revision.
func (m *Manager) Reconfigure(hooks []*catalog.Webhook, revision events.Position) {
	m.mu.Lock()
	m.wanted, m.revision = append([]*catalog.Webhook{}, hooks...), revision
	m.mu.Unlock()
	m.signal()
}

func (m *Manager) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Alert sends an alert that no fact gave rise to, to the webhooks that ask for it. It never blocks; one that does not
// keep up misses it.
func (m *Manager) Alert(a Alert) { m.alert(a, nil) }

func (m *Manager) alert(a Alert, but *hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.hooks {
		if h != but {
			h.notice(a)
		}
	}
}

// Close ends all deliveries under way; they are made again when the gateway runs again.
func (m *Manager) Close(ctx context.Context) error {
	m.end()
	select {
	case <-m.done:
		m.client.CloseIdleConnections()
		return nil
	case <-ctx.Done():
		return errors.Wrap(ctx.Err(), "webhooks")
	}
}

// run brings what runs to what is wanted, until the end.
func (m *Manager) run() {
	defer close(m.done)
	first := true
	for {
		select {
		case <-m.wake:
		case <-m.life.Done():
			for _, h := range m.take(func(*hook) bool { return true }) {
				<-h.done
			}
			return
		}
		m.mu.Lock()
		wanted, revision := m.wanted, m.revision
		m.mu.Unlock()
		m.adjust(wanted, revision)
		if first {
			m.forgetStrangers(wanted)
			first = false
		}
	}
}

// adjust stops what is no longer wanted, or no longer wanted like that, and starts the rest.
func (m *Manager) adjust(wanted []*catalog.Webhook, revision events.Position) {
	byID := map[string]*catalog.Webhook{}
	for _, w := range wanted {
		byID[w.ID] = w
	}
	gone := m.take(func(h *hook) bool { return !reflect.DeepEqual(h.spec, byID[h.spec.ID]) })
	for _, h := range gone {
		<-h.done
		if byID[h.spec.ID] == nil {
			m.forget(h.spec.ID)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range byID {
		if m.hooks[id] == nil {
			m.hooks[id] = m.start(w, revision)
		}
	}
}

// take takes hooks out and tells them to end.
func (m *Manager) take(which func(*hook) bool) (taken []*hook) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, h := range m.hooks {
		if which(h) {
			h.end()
			delete(m.hooks, id)
			taken = append(taken, h)
		}
	}
	return taken
}

// forget removes the checkpoint of a webhook that was removed.
func (m *Manager) forget(id string) {
	if err := m.o.Feed.Forget(m.life, groupPrefix+id); err != nil && m.life.Err() == nil {
		m.o.Logger.Warn("checkpoint of a removed webhook is left", "webhook", id, "error", err)
	}
}

// forgetStrangers removes the checkpoints of webhooks that were removed in a moment in which the gateway died.
func (m *Manager) forgetStrangers(wanted []*catalog.Webhook) {
	list, err := m.o.Feed.Checkpoints(m.life)
	if err != nil {
		return // they do no harm
	}
	for _, c := range list {
		id, ours := strings.CutPrefix(c.Group, groupPrefix)
		if ours && !slices.ContainsFunc(wanted, func(w *catalog.Webhook) bool { return w.ID == id }) {
			m.forget(id)
		}
	}
}

// Status is how a webhook fares, as far as this process knows.
type Status struct {
	ID           string          `json:"id"`
	Active       bool            `json:"active"`
	Position     events.Position `json:"position"` // everything up to it was delivered, given up or not asked for; 0 before the first
	Delivered    int64           `json:"delivered"`
	GivenUp      int64           `json:"given_up"`
	Missed       events.Position `json:"missed_through"` // up to it facts of requests were removed before they were delivered; 0: none were
	FailingSince *time.Time      `json:"failing_since"`  // null: it does not
	LastError    string          `json:"last_error"`     // of the failures since then
}

// Status of one webhook; ok is false when there is none in force.
func (m *Manager) Status(id string) (s Status, ok bool) {
	m.mu.Lock()
	h := m.hooks[id]
	m.mu.Unlock()
	if h == nil {
		return s, false
	}
	return h.status(), true
}
