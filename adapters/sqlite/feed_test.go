package sqlite_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/sqlite"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/feedtest"
)

func feedRig(t *testing.T, path string) feedtest.Rig {
	s := openStore(t, path, sqlite.StoreOptions{})
	var bell events.Bell
	return feedtest.Rig{Store: s, Feed: s.Feed(&bell, slog.New(slog.DiscardHandler)), Ring: bell.Ring}
}

func TestTheSQLiteFeedKeepsThePromisesOfAFeed(t *testing.T) {
	feedtest.Run(t, func(t *testing.T) feedtest.Rig { return feedRig(t, filepath.Join(t.TempDir(), "events.db")) })
}

// consumerFile tells the test binary to be a consumer of that store.
const consumerFile = "PENSTOCK_TEST_FEED_FILE"

func TestAKilledConsumerOfTheSQLiteFeedLosesNothing(t *testing.T) {
	if path := os.Getenv(consumerFile); path != "" {
		var bell events.Bell
		require.NoError(t, feedtest.Consume(openStore(t, path, sqlite.StoreOptions{}).Feed(&bell, nil), os.Stdin, os.Stdout))
		return
	}
	path := filepath.Join(t.TempDir(), "events.db")
	feedtest.Killed(t, feedRig(t, path), func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), consumerFile+"="+path)
		return cmd
	})
}

// The feed reads what it was given, not what the catalogue knows: a fact of a newer version passes.
func TestTheFeedHandsOnFactsThatThisVersionDoesNotKnow(t *testing.T) {
	r := feedRig(t, filepath.Join(t.TempDir(), "events.db"))
	rows := one(row(t, "a", 0))
	rows[0].Rows[0].Types, rows[0].Rows[0].Payload = "later.thing@3", []byte(`[{"x":1}]`)
	_, err := r.Store.Append(context.Background(), rows, 0)
	require.NoError(t, err)
	sub, err := r.Feed.Subscriber(events.FeedOptions{})
	require.NoError(t, err)
	defer sub.Close()
	out, err := sub.Subscribe(context.Background(), events.Topic)
	require.NoError(t, err)
	m := <-out
	require.Equal(t, `{"x":1}`, string(m.Payload))
	require.Equal(t, "later.thing", m.Metadata.Get(events.MetaType))
	require.Equal(t, "3", m.Metadata.Get(events.MetaSchema))
}
