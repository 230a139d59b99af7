package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/events"
	"github.com/penstock/penstock/events/feedtest"
)

func feedRig(t *testing.T, dsn string) feedtest.Rig {
	s := openStore(t, dsn, postgres.StoreOptions{})
	return feedtest.Rig{Store: s, Feed: s.Feed(nil, nil)}
}

func TestThePostgreSQLFeedKeepsThePromisesOfAFeed(t *testing.T) {
	server := pgtest.Shared(t)
	feedtest.Run(t, func(t *testing.T) feedtest.Rig { return feedRig(t, server.NewDatabase(t)) })
}

// consumerDSN tells the test binary to be a consumer of that database.
const consumerDSN = "PENSTOCK_TEST_FEED_DSN"

func TestAKilledConsumerOfThePostgreSQLFeedLosesNothing(t *testing.T) {
	if dsn := os.Getenv(consumerDSN); dsn != "" {
		s := openStore(t, dsn, postgres.StoreOptions{Shared: true})
		require.NoError(t, feedtest.Consume(s.Feed(nil, nil), os.Stdin, os.Stdout))
		return
	}
	dsn := pgtest.Shared(t).NewDatabase(t)
	feedtest.Killed(t, feedRig(t, dsn), func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), consumerDSN+"="+dsn)
		return cmd
	})
}

// A consumer goes on behind its checkpoint after the server has thrown out every session, its own among them.
func TestAConsumerOutlivesALostConnection(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.NewDatabase(t)
	s := openStore(t, dsn, postgres.StoreOptions{})
	for _, group := range []string{"g", ""} {
		sub, err := s.Feed(nil, nil).Subscriber(events.FeedOptions{Group: group, From: events.FeedHead})
		require.NoError(t, err)
		out, err := sub.Subscribe(context.Background(), events.Topic)
		require.NoError(t, err)
		before := head(t, s)
		for i := range 4 {
			put(t, s, one(row(t, "upstream/a", events.AnyVersion))...)
			select {
			case m := <-out:
				require.Equal(t, before+events.Position(i+1), events.PositionOf(m), group)
				require.True(t, m.Ack())
			case <-time.After(time.Minute):
				require.FailNow(t, "no message comes")
			}
			if i%2 == 0 {
				require.Eventually(t, func() bool { return group == "" || checkpoint(t, s, group) == before+events.Position(i+1) }, time.Minute, time.Millisecond)
				server.KillBackends(t, dsn)
				require.Eventually(t, func() bool { return s.Probe(context.Background()) == nil }, time.Minute, 10*time.Millisecond)
			}
		}
		require.NoError(t, sub.Close())
	}
}

// lineOut is a log whose lines come out of a channel.
type lineOut chan string

func (l lineOut) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Each time that notifications end it is said once, also when they had come back in between.
func TestEachEndOfNotificationsIsLogged(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.NewDatabase(t)
	said := make(lineOut, 16)
	s := openStore(t, dsn, postgres.StoreOptions{})
	sub, err := s.Feed(nil, slog.New(slog.NewTextHandler(said, nil))).Subscriber(events.FeedOptions{From: events.FeedHead})
	require.NoError(t, err)
	_, err = sub.Subscribe(context.Background(), events.Topic)
	require.NoError(t, err)
	defer sub.Close()
	const listening = `SELECT pid::text FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'LISTEN%' AND state = 'idle'`
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	a := auditor(t, server.DSN())
	for range 2 {
		require.Eventually(t, func() bool {
			return len(lines(t, a, listening, u.Path[1:])) == 1
		}, time.Minute, 10*time.Millisecond)
		server.KillBackends(t, dsn)
		select {
		case line := <-said:
			require.Contains(t, line, "cut off")
		case <-time.After(time.Minute):
			require.FailNow(t, "nothing is logged")
		}
	}
	require.Empty(t, said)
}

func checkpoint(t *testing.T, s *postgres.Store, group string) events.Position {
	list, err := s.Feed(nil, nil).Checkpoints(context.Background())
	require.NoError(t, err)
	for _, c := range list {
		if c.Group == group {
			return c.Position
		}
	}
	return -1
}

// Facts of one row, of several days and of no day come in the order of their positions, each once.
func TestTheFeedReadsAllDaysInOneOrder(t *testing.T) {
	s := openStore(t, pgtest.Shared(t).NewDatabase(t), postgres.StoreOptions{})
	const day = 24 * time.Hour
	for i := range 30 {
		at := time.UnixMilli(1_772_000_000_000).Add(time.Duration(i*7%5) * day)
		ms := fmt.Sprintf("%012x", at.UnixMilli())
		id := fmt.Sprintf("%s-%s-7000-8000-%012x", ms[:8], ms[8:], i)
		put(t, s, one(row(t, "request/"+id, 0))...)
		put(t, s, one(row(t, "upstream/a", events.AnyVersion))...)
	}
	sub, err := s.Feed(nil, nil).Subscriber(events.FeedOptions{Group: "g"})
	require.NoError(t, err)
	defer sub.Close()
	out, err := sub.Subscribe(context.Background(), events.Topic)
	require.NoError(t, err)
	for i := range 60 {
		m := <-out
		require.EqualValues(t, i+1, events.PositionOf(m))
		m.Ack()
	}
}
