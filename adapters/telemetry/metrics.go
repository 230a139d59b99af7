package telemetry

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Source gives the figures of the moment. It answers at once and never fails: what it cannot know is zero.
type Source interface {
	Figures(ctx context.Context) Figures
}

// Figures is what /metrics shows.
type Figures struct {
	Version     string
	Requests    map[string]uint64 // ended ones by outcome (completed, failed, rejected …) since the start
	InFlight    int               // admitted and not settled
	Upstreams   []Upstream
	Journal     Journal
	StoreKind   string // sqlite …
	StoreUp     bool   // the last append succeeded
	Projections []Projection
	Draining    bool
	Affinity    Affinity
}

// Affinity is what is known of sessions.
type Affinity struct {
	Bindings int               // sessions that are bound
	Lookups  map[string]uint64 // plans of requests with a session since the start, by what was found: hit, miss …
	Changes  map[string]uint64 // bindings that were created and moved since the start
}

// Upstream is one upstream's state.
type Upstream struct {
	ID      string
	Slots   *int // nil: unlimited
	Held    int
	Waiting int
	Breaker string // closed, open, half_open
}

// Journal is the state of the writer of events.
type Journal struct {
	Queued  int    // appends that wait for a commit, in memory
	Spooled int64  // appends on disk that wait for the store to come back
	Commits uint64 // since the start
	Events  uint64 // facts stored since the start
}

// Projection is how far a read model is behind.
type Projection struct {
	Name string
	Lag  int64 // positions between the head and its checkpoint
}

// breakerStates are the values of penstock_upstream_breaker's label, one of which is 1.
var breakerStates = []string{"closed", "open", "half_open"}

// MetricsHandler serves the figures in Prometheus' text format.
func MetricsHandler(source Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = WriteMetrics(w, source.Figures(r.Context())) // fails only when the reader has gone
	})
}

// WriteMetrics writes figures in Prometheus' text format, always in the same order.
func WriteMetrics(w io.Writer, f Figures) error {
	out := exposition{bufio.NewWriter(w)}
	out.family("penstock_info", "gauge", "Version of the gateway.")
	out.sample("penstock_info", 1, "version", f.Version)
	out.counters("penstock_requests_total", "Requests that ended, by outcome.", "outcome", f.Requests)
	out.single("penstock_requests_in_flight", "gauge", "Admitted requests that are not settled.", int64(f.InFlight))
	out.upstreams(f.Upstreams)
	out.single("penstock_journal_queue", "gauge", "Appends that wait for a commit.", int64(f.Journal.Queued))
	out.single("penstock_journal_spooled", "gauge", "Appends on disk that wait for the event store to come back.", f.Journal.Spooled)
	out.single("penstock_journal_commits_total", "counter", "Commits of the event store.", int64(f.Journal.Commits))
	out.single("penstock_journal_events_total", "counter", "Events stored.", int64(f.Journal.Events))
	out.family("penstock_store_up", "gauge", "1 when the event store takes appends.")
	out.sample("penstock_store_up", bit(f.StoreUp), "kind", f.StoreKind)
	out.family("penstock_projection_lag_events", "gauge", "Events that a read model has not seen yet.")
	for _, p := range f.Projections {
		out.sample("penstock_projection_lag_events", p.Lag, "projection", p.Name)
	}
	out.single("penstock_affinity_bindings", "gauge", "Sessions that are bound to an account.", int64(f.Affinity.Bindings))
	out.counters("penstock_affinity_lookups_total", "Plans of requests with a session, by what became of its binding.", "result", f.Affinity.Lookups)
	out.counters("penstock_affinity_changes_total", "Bindings that were made or moved.", "change", f.Affinity.Changes)
	out.single("penstock_draining", "gauge", "1 while the gateway stops.", bit(f.Draining))
	return out.w.Flush()
}

// exposition writes lines; a bufio.Writer keeps the first error for Flush.
type exposition struct{ w *bufio.Writer }

func (e exposition) upstreams(all []Upstream) {
	e.family("penstock_upstream_slots", "gauge", "Slots of an upstream; absent when unlimited.")
	for _, u := range all {
		if u.Slots != nil {
			e.sample("penstock_upstream_slots", int64(*u.Slots), "upstream", u.ID)
		}
	}
	e.family("penstock_upstream_slots_held", "gauge", "Slots that are held now.")
	for _, u := range all {
		e.sample("penstock_upstream_slots_held", int64(u.Held), "upstream", u.ID)
	}
	e.family("penstock_upstream_queue_waiting", "gauge", "Requests that wait for a slot.")
	for _, u := range all {
		e.sample("penstock_upstream_queue_waiting", int64(u.Waiting), "upstream", u.ID)
	}
	e.family("penstock_upstream_breaker", "gauge", "1 for the state that the breaker is in.")
	for _, u := range all {
		for _, state := range breakerStates {
			e.sample("penstock_upstream_breaker", bit(u.Breaker == state), "upstream", u.ID, "state", state)
		}
	}
}

func (e exposition) family(name, kind, help string) {
	_, _ = e.w.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

func (e exposition) single(name, kind, help string, value int64) {
	e.family(name, kind, help)
	e.sample(name, value)
}

// counters writes a family with one label.
func (e exposition) counters(name, help, label string, values map[string]uint64) {
	e.family(name, "counter", help)
	for _, v := range slices.Sorted(maps.Keys(values)) {
		e.sample(name, int64(values[v]), label, v)
	}
}

// sample writes one line; labels are names and values in turn.
func (e exposition) sample(name string, value int64, labels ...string) {
	_, _ = e.w.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		_, _ = e.w.WriteString(open + labels[i] + `="` + labelSigns.Replace(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		_ = e.w.WriteByte('}')
	}
	_, _ = e.w.WriteString(" " + strconv.FormatInt(value, 10) + "\n")
}

// labelSigns are what the format escapes inside a label's value.
var labelSigns = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
