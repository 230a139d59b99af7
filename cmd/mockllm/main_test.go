package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

func TestFlagsMakeTheDefaultAndTheFileIsLaidOverIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, []byte(`{"default":{"chunks":4},"rules":[{"model":"x","behavior":{"err_rate":1}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, procs, o, err := parse(strings.Fields("-addr 127.0.0.1:7 -procs 2 -seed 9 -track-rid -ttfb 20 -chunks 8 -resp-bytes 10 -compress br -stall-rate .5 -config " + file))
	if err != nil {
		t.Fatal(err)
	}
	if addr != "127.0.0.1:7" || procs != 2 || o.Seed != 9 || !o.TrackRequests {
		t.Errorf("%s %d %+v", addr, procs, o)
	}
	want := simulator.Healthy()
	want.TTFBMs, want.Chunks, want.RespBytes, want.Compress, want.StallRate = 20, 8, 10, "br", .5
	if o.Base != want {
		t.Errorf("base\n got %+v\nwant %+v", o.Base, want)
	}
	want.Chunks = 4
	if o.Config.Default != want || len(o.Config.Rules) != 1 {
		t.Errorf("config %+v", o.Config)
	}
}

func TestWithoutFlagsTheUpstreamIsHealthy(t *testing.T) {
	_, procs, o, err := parse(nil)
	if err != nil || procs != 1 || o.Config.Default != simulator.Healthy() {
		t.Errorf("%d %+v %v", procs, o, err)
	}
}

func TestBadArgumentsAreRefusedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	os.WriteFile(file, []byte(`{"default":{"chnks":4}}`), 0o600)
	for args, word := range map[string]string{
		"stray": "stray", "-config /nowhere.json": "nowhere.json", "-config " + file: "chnks", "-err-rate 2": "err_rate", "-addr 0.0.0.0:0": "loopback",
	} {
		if err := run(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestItServesUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-addr", "127.0.0.1:0"}); err != nil {
		t.Error(err)
	}
}
