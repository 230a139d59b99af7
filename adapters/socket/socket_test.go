package socket_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/adapters/socket"
)

// pair are the two ends of a connection; the first one is direct.
func pair(t *testing.T) (direct net.Conn, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	direct = socket.Direct(nc.(*net.TCPConn))
	at, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { at.Close() })
	return direct, at.(*net.TCPConn)
}

// What does not fit into the kernel's buffers waits for the peer, in both directions at once, and nothing is lost.
func TestManyBytesGoBothWaysAtOnce(t *testing.T) {
	direct, peer := pair(t)
	sent := make([]byte, 9<<20)
	_, _ = rand.Read(sent)
	go func() { _, _ = io.Copy(peer, peer) }() // says back what it hears
	failed := make(chan error, 1)
	go func() {
		n, err := direct.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		failed <- err
	}()
	heard := make([]byte, len(sent))
	_, err := io.ReadFull(direct, heard)
	require.NoError(t, err)
	require.NoError(t, <-failed)
	require.True(t, bytes.Equal(sent, heard))
}

func TestTheEndOfTheStreamIsEOF(t *testing.T) {
	direct, peer := pair(t)
	_, err := peer.Write([]byte("last"))
	require.NoError(t, err)
	require.NoError(t, peer.CloseWrite())
	all, err := io.ReadAll(direct)
	require.NoError(t, err)
	require.Equal(t, "last", string(all))
	n, err := direct.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
}

// What callers look for in an error is there, under the names of package net.
func TestErrorsAreThoseOfPackageNet(t *testing.T) {
	t.Run("deadline", func(t *testing.T) {
		direct, _ := pair(t)
		require.NoError(t, direct.SetDeadline(time.Now().Add(20*time.Millisecond)))
		_, err := direct.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.True(t, strings.HasPrefix(err.Error(), "read tcp 127.0.0.1:"), err)
		n, err := direct.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, n)
	})
	t.Run("deadline while it writes", func(t *testing.T) {
		direct, peer := pair(t)
		many := make([]byte, 64<<20)
		go func() { // the deadline comes when the other end has some
			_, _ = peer.Read(make([]byte, 1))
			_ = direct.SetWriteDeadline(time.Now())
		}()
		n, err := direct.Write(many)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Positive(t, n, "it says how much went out")
		require.Less(t, n, len(many))
	})
	t.Run("reset", func(t *testing.T) {
		direct, peer := pair(t)
		require.NoError(t, peer.SetLinger(0))
		require.NoError(t, peer.Close())
		_, err := direct.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Contains(t, err.Error(), ": read: ")
		_, err = direct.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		require.Contains(t, err.Error(), ": write: ")
	})
	t.Run("closed by another goroutine while it reads", func(t *testing.T) {
		direct, peer := pair(t)
		go func() { // closes when the other end knows that the read has begun, or shortly before
			_, _ = peer.Read(make([]byte, 1))
			direct.Close()
		}()
		_, err := direct.Write([]byte("x"))
		require.NoError(t, err)
		_, err = direct.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = direct.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestAReadAndAWriteAllocateNothing(t *testing.T) {
	direct, peer := pair(t)
	p, q := make([]byte, 16), make([]byte, 16)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = direct.Write(p)
		_, _ = io.ReadFull(peer, q)
		_, _ = peer.Write(q)
		_, _ = io.ReadFull(direct, p)
	}))
}
