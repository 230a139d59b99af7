package projections_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/projections"
)

// What a later version has written, or somebody has damaged, is passed over, and the operator is told where it is: at the start,
// where it mostly is met, nobody was told, and a replay called the rows equal.
func TestAnEventThatCanNotBeDecodedIsNamedWhereverItIsMet(t *testing.T) {
	store, m := memory.NewStore(), newFaulty()
	traffic(t, store, 20)
	poison := func() string {
		head, err := store.Head(context.Background())
		noErr(t, err)
		row := events.Row{Stream: "upstream/later", Version: events.AnyVersion, At: time.Unix(1, 0), Facts: []events.Fact{&request.Resumed{}}}
		noErr(t, events.Encode(&row))
		row.Types, row.Payload = "later.thing@3", []byte(`[{"x":1}]`)
		result, err := store.Append(context.Background(), []events.Append{{Rows: []events.Row{row}}}, 0)
		noErr(t, err)
		noErr(t, result[0].Err)
		return "position=" + strconv.FormatInt(int64(head)+1, 10) + " stream=upstream/later"
	}
	var log bytes.Buffer
	at := poison()
	r := projections.NewRunner(projections.Options{Store: store, Model: m, Projections: all, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	noErr(t, r.Start(context.Background()))
	if !strings.Contains(log.String(), at) || !strings.Contains(log.String(), "passed over\" rows=1") {
		t.Errorf("at the start: %s", log.String())
	}
	again := poison() // of another node
	head, err := store.Head(context.Background())
	noErr(t, err)
	noErr(t, r.WaitFor(context.Background(), head))
	noErr(t, r.Stop(context.Background()))
	if !strings.Contains(log.String(), again) || strings.Count(log.String(), at) != 1 {
		t.Errorf("while it works: %s", log.String())
	}
	report, err := projections.Verify(context.Background(), store, m, all[0], shadow)
	noErr(t, err)
	if !report.Equal || report.Undecodable != 2 {
		t.Errorf("a replay says %+v", report)
	}
	report, err = projections.Rebuild(context.Background(), store, m, all[0], nil)
	noErr(t, err)
	if report.Undecodable != 2 {
		t.Errorf("a rebuild says %+v", report)
	}
}
