package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
)

// hashes are those of all rows of a seeded store, in order.
func hashes(t *testing.T, folder string) (list []string, facts int) {
	t.Helper()
	s, err := sqlite.OpenStore(filepath.Join(folder, "events.db"), sqlite.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open := map[string]bool{}
	err = s.After(context.Background(), 0, func(c *events.Committed) bool {
		list = append(list, string(c.Hash[:]))
		facts += len(c.Facts)
		if strings.HasPrefix(c.Stream, events.RequestStreams) {
			if open[c.Stream] = true; c.Terminal {
				delete(open, c.Stream)
			}
		}
		return true
	})
	if err != nil || len(open) > 0 {
		t.Fatalf("%d requests have not ended, %v", len(open), err)
	}
	return list, facts
}

func TestSeedMakesTheSameEventsFromTheSameFlagsAndNeverAddsToAStore(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	seed := func(folder string, more ...string) (string, error) {
		var out bytes.Buffer
		err := run(context.Background(), append([]string{"-data", folder, "-events", "20000", "-seed", "7"}, more...), &out)
		return out.String(), err
	}
	for _, folder := range []string{first, second} {
		if _, err := seed(folder); err != nil {
			t.Fatal(err)
		}
	}
	a, facts := hashes(t, first)
	b, _ := hashes(t, second)
	if facts < 20000 || strings.Join(a, "") != strings.Join(b, "") {
		t.Errorf("%d facts in %d and %d rows", facts, len(a), len(b))
	}
	if _, err := seed(first); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("filled twice: %v", err)
	}
	said, err := seed(first, "-replay")
	if err != nil || strings.Count(said, "events/s") != 5 {
		t.Errorf("%s, %v", said, err)
	}
}

func TestSeedRefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"-data", "x", "-store", "y"}, {"-data", "x", "-events", "0"}, {"-data", "x", "more"}} {
		if err := run(context.Background(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
