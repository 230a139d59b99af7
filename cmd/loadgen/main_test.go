package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/loadgen/load"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

func TestOneJSONLineIsPrinted(t *testing.T) {
	s := simulator.New(simulator.Options{})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("-label x -stream -n 10 -c 2 -url "+s.URL()), &out); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(out.Bytes(), &m); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v: %s", err, out.String())
	}
	if m["label"] != "x" || m["ok"] != 10.0 || m["status"].(map[string]any)["200"] != 10.0 || m["latency"].(map[string]any)["p50_us"] == 0.0 {
		t.Errorf("%v", m)
	}
	for _, name := range strings.Fields("url path api stream connections rate req_bytes seconds requests rps errors aborted incomplete_streams bad_body " +
		"stale_reconnects events events_per_s body_bytes ttfb connect active_max procs loadgen_cpu_s host_busy_frac steal_frac foreign_cpu_frac") {
		if _, ok := m[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}

func TestFlagsBecomeOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body.json")
	os.WriteFile(file, []byte(`{}`), 0o600)
	got, procs, err := parse(append(strings.Fields("-keys a,b -abort-rate .5 -abort-after-ms 1.5 -d 2s -warmup 0 -procs 2 -proc gw=12 -proc db=13 -body "+file), "-H", "x: 1"))
	want := load.Options{URL: "http://127.0.0.1:18080", API: "openai", Model: "mock-model", Keys: []string{"a", "b"}, ReqBytes: 1024, RIDPrefix: "r", Connections: 16,
		Duration: 2 * time.Second, AbortRate: .5, AbortAfterEvents: -1, AbortAfter: 1500 * time.Microsecond, Timeout: time.Minute, Seed: 1, Body: []byte(`{}`),
		Headers: []string{"x: 1"}, Processes: []load.Process{{Name: "gw", PID: 12}, {Name: "db", PID: 13}}}
	if err != nil || procs != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %d\n got %+v\nwant %+v", err, procs, got, want)
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	for args, word := range map[string]string{"stray": "stray", "-proc x": "proc", "-body /nowhere": "nowhere", "-url http://192.0.2.1:1": "loopback", "-d 0s": "duration"} {
		if err := run(t.Context(), strings.Fields(args), nil); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
