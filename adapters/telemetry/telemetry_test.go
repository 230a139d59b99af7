package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"
)

func TestLogLinesAreOfTheFormatAndTheLevelThatWereAskedFor(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "info")
	require.NoError(t, err)
	log.With("node", "a").Info("attempt failed", "upstream", "openai")
	log.Debug("too small to show")
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), "exactly one line")
	require.Equal(t, "a", line["node"])
	require.Equal(t, "openai", line["upstream"])
}

func TestWrongLogSettingsAreNamed(t *testing.T) {
	_, err := NewLogger(&bytes.Buffer{}, "xml", "")
	require.ErrorContains(t, err, `log format: want text or json, got "xml"`)
	_, err = NewLogger(&bytes.Buffer{}, "", "loud")
	require.ErrorContains(t, err, `log level`)
	require.ErrorContains(t, err, `"loud"`)
}

// D51: redaction happens before the line is written.
func TestSecretsDoNotReachTheLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := NewLogger(&out, format, "")
		require.NoError(t, err)
		log.Info("got sk-live-0123456789", "api_key", "plain0", "Authorization", "plain1", "x-api-key", "plain2",
			"err", errors.New("GET https://u:plain3@host/v1?key=plain4&a=b: Bearer plain5plain5 refused"),
			slog.Group("h", "token", "plain6", "body", `{"k":"AIzaSyA0123456789abcdefghij"}`))
		log.Info("values", "list", []string{"x", "sk-live-0123456789"}, "headers", map[string][]string{"X": {"Bearer plain7plain7"}},
			"struct", struct{ Text string }{"Bearer plain8plain8"},
			"bytes", []byte("sk-live-0123456789"), "stringer", &url.URL{Scheme: "https", Host: "host", RawQuery: "key=plain9"})
		require.NotContains(t, out.String(), "c2stbGl2ZS0wMTIzNDU2Nzg5", "bytes in JSON")
		require.NotContains(t, out.String(), "plain")
		require.NotContains(t, out.String(), "0123456789")
		require.Contains(t, out.String(), "refused")
		require.Contains(t, out.String(), "a=b")
	}
}

func TestOrdinaryTextIsNotBlotted(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "")
	require.NoError(t, err)
	log.Info("x", "list", []string{"a", "b"}, "n", 5)
	require.Contains(t, out.String(), `"list":["a","b"],"n":5`)
	for _, text := range []string{"task-force", "http://127.0.0.1:8080/v1", "bearer of news", "risk-assessment"} {
		require.Equal(t, text, Redact(text))
	}
}

type fixed Figures

func (f fixed) Figures(context.Context) Figures { return Figures(f) }

func TestMetricsShowEveryFigure(t *testing.T) {
	slots := 10
	answer := httptest.NewRecorder()
	MetricsHandler(fixed{
		Version: "1.0", Requests: map[string]uint64{"rejected": 2, "completed": 40}, InFlight: 3,
		Upstreams: []Upstream{
			{ID: `a"b`, Slots: &slots, Held: 3, Waiting: 1, Breaker: "half_open"},
			{ID: "free", Breaker: "closed"},
		},
		Journal: Journal{Queued: 5, Spooled: 8, Commits: 6, Events: 7}, StoreKind: "sqlite", StoreUp: true,
		Projections: []Projection{{"requestlog", 0}, {"billing", 12}},
		Affinity:    Affinity{Bindings: 9, Lookups: map[string]uint64{"miss": 4, "hit": 11}, Changes: map[string]uint64{"moved": 1}},
	}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	var samples []string
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	require.Equal(t, []string{
		`penstock_info{version="1.0"} 1`,
		`penstock_requests_total{outcome="completed"} 40`,
		`penstock_requests_total{outcome="rejected"} 2`,
		`penstock_requests_in_flight 3`,
		`penstock_upstream_slots{upstream="a\"b"} 10`,
		`penstock_upstream_slots_held{upstream="a\"b"} 3`,
		`penstock_upstream_slots_held{upstream="free"} 0`,
		`penstock_upstream_queue_waiting{upstream="a\"b"} 1`,
		`penstock_upstream_queue_waiting{upstream="free"} 0`,
		`penstock_upstream_breaker{upstream="a\"b",state="closed"} 0`,
		`penstock_upstream_breaker{upstream="a\"b",state="open"} 0`,
		`penstock_upstream_breaker{upstream="a\"b",state="half_open"} 1`,
		`penstock_upstream_breaker{upstream="free",state="closed"} 1`,
		`penstock_upstream_breaker{upstream="free",state="open"} 0`,
		`penstock_upstream_breaker{upstream="free",state="half_open"} 0`,
		`penstock_journal_queue 5`,
		`penstock_journal_spooled 8`,
		`penstock_journal_commits_total 6`,
		`penstock_journal_events_total 7`,
		`penstock_store_up{kind="sqlite"} 1`,
		`penstock_projection_lag_events{projection="requestlog"} 0`,
		`penstock_projection_lag_events{projection="billing"} 12`,
		`penstock_affinity_bindings 9`, `penstock_affinity_lookups_total{result="hit"} 11`,
		`penstock_affinity_lookups_total{result="miss"} 4`, `penstock_affinity_changes_total{change="moved"} 1`,
		`penstock_draining 0`,
	}, samples)
	require.Contains(t, answer.Header().Get("Content-Type"), "text/plain")
}
