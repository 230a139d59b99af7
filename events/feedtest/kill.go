package feedtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/events"
)

// group of the process that is killed.
const killedGroup = "killed"

// Consume is the life of the process that Killed kills: it writes the position of each message, and acknowledges when
// it reads a line.
func Consume(feed events.Feed, r io.Reader, w io.Writer) error {
	sub, err := feed.Subscriber(events.FeedOptions{Group: killedGroup})
	if err != nil {
		return err
	}
	out, err := sub.Subscribe(context.Background(), events.Topic)
	if err != nil {
		return err
	}
	told := bufio.NewScanner(r)
	for m := range out {
		fmt.Fprintln(w, m.UUID)
		if !told.Scan() {
			break
		}
		m.Ack()
	}
	return sub.Close()
}

// Killed starts a process that runs Consume over the rig's store, kills it in the middle of its work, and so on until
// all messages have come: none may be missing, and each process goes on at or before where the one before it was
// killed. Every second one is killed only when it has stored a checkpoint, which the next one must then begin behind.
func Killed(t *testing.T, r Rig, process func() *exec.Cmd) {
	const facts, kills = 1000, 6
	b := newBench(t, r)
	for i := range facts / 10 {
		numbers := make([]int64, 10)
		for k := range numbers {
			numbers[k] = int64(i*10 + k)
		}
		b.put(row("upstream/a", numbers...))
	}
	seen, stored := 0, events.Position(0)
	for run := range kills + 1 {
		stop := facts * (run + 1) / (kills + 1)
		c := startConsumer(t, process())
		from := c.position()
		require.LessOrEqual(t, from, seen+1, "process %d has lost messages", run)
		require.Greater(t, from, int(stored), "process %d does not begin behind the checkpoint", run)
		for at := from; at < stop; at++ {
			c.acknowledge()
			require.Equal(t, at+1, c.position())
		}
		seen = stop
		if run%2 == 1 {
			before := stored
			require.Eventually(t, func() bool { return b.checkpoint(killedGroup) > before }, patience, patience/1000)
		}
		stored = b.checkpoint(killedGroup)
		require.Less(t, stored, events.Position(seen), "what was not acknowledged counts as such")
		c.kill()
	}
	require.Equal(t, facts, seen)
	require.NotZero(t, stored)
}

// consumer is the process under test.
type consumer struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Writer
	lines *bufio.Scanner
}

func startConsumer(t *testing.T, cmd *exec.Cmd) *consumer {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &consumer{t, cmd, stdin, bufio.NewScanner(stdout)}
	t.Cleanup(c.kill)
	return c
}

// position is the next message that it got.
func (c *consumer) position() int {
	c.t.Helper()
	require.True(c.t, c.lines.Scan(), "the consumer says no more")
	at, err := strconv.Atoi(c.lines.Text())
	require.NoError(c.t, err, "the consumer says %q", c.lines.Text())
	return at
}

func (c *consumer) acknowledge() {
	c.t.Helper()
	_, err := io.WriteString(c.stdin, "\n")
	require.NoError(c.t, err)
}

// kill is SIGKILL.
func (c *consumer) kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	_ = c.cmd.Wait()         // it was killed
}
