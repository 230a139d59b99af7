package projections_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
	"github.com/penstock/penstock/projections/lawtest"
)

// settledV1 is request.settled as the first version wrote it. It is frozen: old databases hold it.
type settledV1 struct {
	Outcome          request.Outcome `json:"outcome"`
	Status           int             `json:"status"`
	Code             string          `json:"code,omitempty"`
	Reason           string          `json:"reason,omitempty"`
	Stage            string          `json:"failure_stage,omitempty"`
	Class            string          `json:"class,omitempty"`
	UpstreamStatus   int             `json:"upstream_status,omitempty"`
	UpstreamID       string          `json:"upstream_request_id,omitempty"`
	Evidence         string          `json:"evidence,omitempty"`
	Attempts         int             `json:"attempts"`
	Sent             bool            `json:"did_send_upstream"`
	Usage            pricing.Usage   `json:"usage,omitzero"`
	UsageSource      pricing.Source  `json:"usage_source"`
	ServiceTier      string          `json:"service_tier,omitempty"`
	PriceVersion     string          `json:"price_version,omitempty"`
	InputMultiplier  string          `json:"input_multiplier,omitempty"`
	OutputMultiplier string          `json:"output_multiplier,omitempty"`
	GroupMultiplier  string          `json:"group_multiplier,omitempty"`
	UpstreamCost     money.Amount    `json:"upstream_cost,omitzero"`
	Cost             money.Amount    `json:"cost,omitzero"`
	Unpriced         bool            `json:"unpriced,omitempty"`
	UnpricedReason   string          `json:"unpriced_reason,omitempty"`
	ClientGone       bool            `json:"client_gone,omitempty"`
	OnDisconnect     string          `json:"on_disconnect,omitempty"`
	TTFTUS           int64           `json:"ttft_us,omitempty"`
	AttemptUS        int64           `json:"attempt_us,omitempty"`
	QueueState       string          `json:"queue_state,omitempty"`
	WaitedUS         int64           `json:"waited_us,omitempty"`
	DurationUS       int64           `json:"duration_us"`
}

// inSchema1 is an append as the first version stored it.
func inSchema1(t *testing.T, a events.Append) events.Append {
	t.Helper()
	row := a.Rows[0]
	objects, err := events.Objects(row.Payload)
	noErr(t, err)
	for i, fact := range row.Facts {
		f, ok := fact.(*request.Settled)
		if !ok {
			continue
		}
		old := settledV1{
			Outcome: f.Outcome, Status: f.Status, Code: f.Code, Reason: f.Reason, Stage: f.Stage, Class: f.Class,
			UpstreamStatus: f.UpstreamStatus, UpstreamID: f.UpstreamID, Evidence: f.Evidence, Attempts: f.Attempts, Sent: f.Sent,
			Usage: f.Usage, UsageSource: f.UsageSource, ServiceTier: f.ServiceTier, PriceVersion: f.PriceVersion,
			InputMultiplier: f.Multipliers.Input, OutputMultiplier: "1", GroupMultiplier: f.Multipliers.Group,
			UpstreamCost: f.UpstreamCost, Cost: f.Cost, Unpriced: f.Unpriced, UnpricedReason: f.UnpricedReason,
			ClientGone: f.ClientGone, OnDisconnect: f.OnDisconnect, TTFTUS: f.TTFTUS, AttemptUS: f.AttemptUS,
			QueueState: f.QueueState, WaitedUS: f.WaitedUS, DurationUS: f.DurationUS,
		}
		objects[i], err = json.Marshal(old)
		noErr(t, err)
	}
	texts := make([]string, len(objects))
	for i, o := range objects {
		texts[i] = string(o)
	}
	row.Types = strings.ReplaceAll(row.Types, "request.settled@2", "request.settled")
	row.Payload = []byte("[" + strings.Join(texts, ",") + "]")
	return events.Append{Rows: []events.Row{row}}
}

// A database that the first version has written tells the same rows, to the last digit, as one of today.
func TestAnOldDatabaseReplaysToTheSameRows(t *testing.T) {
	history, err := lawtest.History{Seed: 11, Requests: 200}.Appends()
	noErr(t, err)
	old, err := sqlite.OpenStore(t.TempDir()+"/events.db", sqlite.StoreOptions{})
	noErr(t, err)
	t.Cleanup(func() { noErr(t, old.Close()) })
	var before []events.Append
	settled := 0
	for i := range history {
		row := &history[i].Rows[0]
		for _, fact := range row.Facts {
			if f, ok := fact.(*request.Settled); ok {
				f.Multipliers = request.Multipliers{Input: "1.25"}
				f.PriceOrigin = "" // which the first version did not tell
				settled++
			}
		}
		noErr(t, events.Encode(row))
		before = append(before, inSchema1(t, history[i]))
	}
	today, m := memory.NewStore(), memory.NewReadModel(all...)
	lawtest.Commits(t, today, history, 16)
	lawtest.Commits(t, old, before, 16)
	lawtest.Start(t, projections.Options{Store: today, Model: m, Projections: all})

	seen := 0
	noErr(t, old.Find(context.Background(), events.Query{Type: "request.settled", Limit: 1000}, func(c *events.Committed) bool {
		f, ok := c.Facts[len(c.Facts)-1].(*request.Settled)
		if !ok || strings.Contains(c.Types, "@") || f.Multipliers != (request.Multipliers{Input: "1.25"}) {
			t.Errorf("%s: %+v", c.Types, c.Facts)
		}
		seen++
		return true
	}))
	if seen == 0 || seen != settled {
		t.Errorf("%d of %d settlements were found by name", seen, settled)
	}
	for _, p := range all {
		report, err := projections.Verify(context.Background(), old, m, p, shadow)
		noErr(t, err)
		if !report.Equal || report.Rows == 0 {
			t.Errorf("%s: %+v", p.Name(), report)
		}
	}
}
