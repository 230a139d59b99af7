package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// Pains 59, 60: each write of a stream is on the wire at once, and nothing between us and the client may hold it.
func TestAStreamLeavesWriteByWrite(t *testing.T) {
	next := make(chan struct{})
	d := &scripted{begin: func(*actors.Call) actors.Answer {
		return actors.Answer{Status: 200, Headers: []actors.Header{{Name: "Content-Type", Value: "text/event-stream"}}, Stream: func(w io.Writer) error {
			for range 3 {
				if _, err := io.WriteString(w, "data: x\n\n"); err != nil {
					return err
				}
				<-next
			}
			return nil
		}}
	}}
	f := start(t, d, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat())
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, "no", r.Header.Get("X-Accel-Buffering"))
	require.Equal(t, "no-cache", r.Header.Get("Cache-Control"))
	for range 3 {
		b := make([]byte, 9)
		_, err := io.ReadFull(r.Body, b)
		require.NoError(t, err)
		next <- struct{}{}
	}
	_, err = r.Body.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// pain 56: a cut is no clean end.
func TestAStreamThatFailsCutsTheConnection(t *testing.T) {
	d := &scripted{begin: func(*actors.Call) actors.Answer {
		return actors.Answer{Status: 200, Stream: func(w io.Writer) error {
			_, _ = io.WriteString(w, "data: x\n\n")
			return errors.New("upstream cut")
		}}
	}}
	f := start(t, d, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat())
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b, err := io.ReadAll(r.Body)
	require.Equal(t, "data: x\n\n", string(b))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// pains 34-36: the stream of a request is run exactly once, also when its head can not be written any more.
func TestAStreamIsRunEvenWhenTheClientIsGoneBeforeItsHead(t *testing.T) {
	begun, proceed, ran := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		close(begun)
		<-c.Gone.Done()
		<-proceed
		return actors.Answer{
			Status: 200, Headers: []actors.Header{{Name: "X-Large", Value: strings.Repeat("x", 256<<10)}}, // more than the write buffer
			Stream: func(w io.Writer) error {
				_, err := io.WriteString(w, "data: x\n\n")
				ran <- err
				return err
			},
		}
	}}
	f := start(t, d, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat())
	require.NoError(t, err)
	<-begun
	require.NoError(t, c.SetLinger(0))
	c.Close()
	proceed <- struct{}{}
	require.Error(t, <-ran)
	eventually(t, "nothing is under way", func() bool { return f.InFlight() == 0 })
	require.Empty(t, ran, "once")
}

// pain 28.
func TestShutdownDrainsWhatIsUnderWayAndTakesNothingNew(t *testing.T) {
	begun, proceed := make(chan struct{}, 2), make(chan struct{})
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		begun <- struct{}{}
		if c.Ask.Client == "stream" {
			return actors.Answer{Status: 200, Stream: func(w io.Writer) error {
				<-proceed
				_, err := io.WriteString(w, "data: end\n\n")
				return err
			}}
		}
		<-proceed
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{"done":true}`)}
	}}
	f := start(t, d, nil)
	idle := f.dial() // a connection that has carried a request and rests
	_, err := io.WriteString(idle, message("GET", "/health", ""))
	require.NoError(t, err)
	f.hear(bufio.NewReader(idle))
	plain, stream := f.dial(), f.dial()
	_, _ = io.WriteString(plain, chat())
	_, _ = io.WriteString(stream, chat("User-Agent", "stream"))
	<-begun
	<-begun
	shut := make(chan error, 1)
	go func() { shut <- f.Shutdown(context.Background()) }()
	_, err = idle.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err, "the resting connection is closed: the server drains")
	require.Empty(t, shut)
	eventually(t, "both are under way", func() bool { return f.InFlight() == 2 })
	close(proceed)
	_, b := f.hear(bufio.NewReader(plain))
	require.Equal(t, `{"done":true}`, b)
	_, b = f.hear(bufio.NewReader(stream))
	require.Equal(t, "data: end\n\n", b)
	require.NoError(t, <-shut)
	require.Zero(t, f.InFlight())
	require.NoError(t, f.Cut(0), "nothing is left to cut")
}

func TestCutEndsWhatDidNotDrain(t *testing.T) {
	begun, gone := make(chan struct{}, 2), make(chan struct{}, 2)
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		begun <- struct{}{}
		if c.Ask.Client == "stubborn" {
			<-gone // hears of nothing
			return actors.Answer{Status: 200}
		}
		<-c.Gone.Done()
		return actors.Answer{Status: 503, Headers: jsonType, Body: []byte(`{}`)}
	}}
	f := start(t, d, nil)
	a, b := f.dial(), f.dial()
	_, _ = io.WriteString(a, chat())
	_, _ = io.WriteString(b, chat("User-Agent", "stubborn"))
	<-begun
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, f.Shutdown(ctx), context.Canceled)
	require.ErrorContains(t, f.Cut(50*time.Millisecond), "requests did not end")
	r, _ := f.hear(bufio.NewReader(a))
	require.Equal(t, 503, r.StatusCode)
	eventually(t, "one is left", func() bool { return f.InFlight() == 1 })
	require.ErrorContains(t, f.Cut(50*time.Millisecond), "1 requests did not end")
	gone <- struct{}{}
	require.NoError(t, f.Cut(time.Minute))
}

// Whoever is shut down before, or while, it begins to serve leaves no listener that takes connections for ever.
func TestAServerThatIsShutDownAsItBeginsServesNobody(t *testing.T) {
	for round := range 100 {
		s, err := Open(Options{Dispatcher: &scripted{}, Catalog: func() *catalog.Snapshot { return nil }})
		require.NoError(t, err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		served := make(chan error, 1)
		serve := func() { served <- s.Serve(ln) }
		if round > 0 {
			go serve()
		}
		require.NoError(t, s.Shutdown(t.Context()))
		if round == 0 {
			go serve()
		}
		require.NoError(t, <-served)
		_, err = net.Dial("tcp", ln.Addr().String())
		require.Error(t, err, "round %d", round)
		s.Close()
	}
}
