package proxy

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALimitMovesItsTimerOnlyWhereItWouldBeLate(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var l limit
	require.False(t, l.set(time.Time{}), "none, and none is set")
	require.True(t, l.set(at.Add(3*time.Minute)), "the first")
	require.False(t, l.set(at.Add(10*time.Minute)), "later: the timer stands before it")
	require.False(t, l.set(time.Time{}), "none")
	require.True(t, l.set(at.Add(time.Minute)), "sooner")
	require.False(t, l.set(at.Add(2*time.Minute)))
	require.True(t, l.early(at.Add(time.Minute)), "the timer went off, the deadline has not come")
	require.Equal(t, at.Add(2*time.Minute), l.armed)
	require.False(t, l.early(at.Add(2*time.Minute)))
}

// A read that the timer ends too soon goes on, and one whose deadline has come ends, wherever the timer stood.
func TestAReadEndsAtItsDeadlineAndNotBefore(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	nc, err := ln.Accept()
	require.NoError(t, err)
	c := &watched{TCPConn: nc.(*net.TCPConn), io: nc, w: &watcher{conns: map[uint64]*watched{}}}
	defer c.Close()

	began := time.Now()
	require.NoError(t, c.SetReadDeadline(began.Add(20*time.Millisecond)))
	require.NoError(t, c.SetReadDeadline(began.Add(80*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(began), 80*time.Millisecond)

	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	time.AfterFunc(40*time.Millisecond, func() { _, _ = client.Write([]byte("x")) })
	n, err := c.Read(make([]byte, 1))
	require.NoError(t, err, "without a deadline")
	require.Equal(t, 1, n)
}
