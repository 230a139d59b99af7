package proxy

import (
	"bufio"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
)

// waiting is a dispatcher whose requests wait until their client goes; it tells when one has begun and how it ended.
func waiting() (d *scripted, begun chan *actors.Call, gone chan string) {
	begun, gone = make(chan *actors.Call, 16), make(chan string, 16)
	return &scripted{begin: func(c *actors.Call) actors.Answer {
		begun <- c
		<-c.Gone.Done()
		gone <- c.Ask.Model
		return actors.Answer{Status: 499, Headers: jsonType, Body: []byte(`{}`)}
	}}, begun, gone
}

// Pains 30-32: a client that goes is noticed while nothing is read from it and nothing written to it.
func TestAClientThatHangsUpIsNoticedWhileTheUpstreamThinks(t *testing.T) {
	for what, leave := range map[string]func(*net.TCPConn){
		"it closes":             func(c *net.TCPConn) { c.Close() },
		"it resets":             func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"it closes one half":    func(c *net.TCPConn) { _ = c.CloseWrite() },
		"it pipelines, then so": func(c *net.TCPConn) { _, _ = io.WriteString(c, chat()); c.Close() },
		"half a request, then":  func(c *net.TCPConn) { _, _ = io.WriteString(c, "POST /v1/chat"); c.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			d, begun, gone := waiting()
			f := start(t, d, nil)
			c := f.dial()
			_, err := io.WriteString(c, chat())
			require.NoError(t, err)
			<-begun
			require.Empty(t, gone)
			leave(c)
			select {
			case <-gone:
			case <-time.After(time.Minute):
				t.Fatal("nobody noticed")
			}
		})
	}
}

func TestAClientThatPipelinesAndStaysIsNotGone(t *testing.T) {
	proceed := make(chan struct{})
	begun := make(chan *actors.Call, 2)
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		begun <- c
		<-proceed
		if c.Gone.Fired() {
			return actors.Answer{Status: 499}
		}
		return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{}`)}
	}}
	f := start(t, d, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat()+chat())
	require.NoError(t, err)
	br := bufio.NewReader(c)
	for range 2 { // the first answer leaves with the second
		<-begun
		proceed <- struct{}{}
	}
	for range 2 {
		r, _ := f.hear(br)
		require.Equal(t, 200, r.StatusCode)
	}
}

func TestAClientThatHangsUpWithinAStreamIsNoticedWithoutAWrite(t *testing.T) {
	ended := make(chan error, 1)
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		return actors.Answer{Status: 200, Stream: func(w io.Writer) error {
			_, err := io.WriteString(w, "data: 1\n\n")
			<-c.Gone.Done() // the upstream says nothing more
			ended <- err
			return io.ErrClosedPipe
		}}
	}}
	f := start(t, d, nil)
	c := f.dial()
	_, err := io.WriteString(c, chat())
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	b := make([]byte, 9)
	_, err = io.ReadFull(r.Body, b)
	require.NoError(t, err)
	c.Close()
	require.NoError(t, <-ended)
	eventually(t, "nothing is under way", func() bool { return f.InFlight() == 0 })
}

func TestAClientOverTLSIsWatchedToo(t *testing.T) {
	certificate := httptest.NewTLSServer(http.NotFoundHandler())
	defer certificate.Close()
	d, begun, gone := waiting()
	f := start(t, d, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() {
		served <- f.http.Serve(tls.NewListener(&watchListener{Listener: ln, w: f.watch}, &tls.Config{Certificates: certificate.TLS.Certificates}))
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	_, err = io.WriteString(c, chat())
	require.NoError(t, err)
	<-begun
	c.Close()
	<-gone
	ln.Close()
	require.NoError(t, <-served)
}

func TestConnectionsThatHaveGoneAreForgotten(t *testing.T) {
	f := start(t, &scripted{}, nil)
	before := len(openFiles(t))
	for range 50 {
		f.ask("POST", "/v1/chat/completions", `{"model":"m"}`, "Authorization", secretA)
	}
	eventually(t, "no connection is kept", func() bool {
		f.watch.mu.RLock()
		defer f.watch.mu.RUnlock()
		return len(f.watch.conns) == 0 && len(openFiles(t)) <= before
	})
}

func openFiles(t *testing.T) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return list
}

// A watch that has been disarmed, even at the very moment of the hang-up, never reaches the next request.
func TestADisarmedWatchNeverTouchesTheNextRequest(t *testing.T) {
	n := uint64(20260301)
	if v := os.Getenv("PENSTOCK_SEED"); v != "" {
		var err error
		n, err = strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: PENSTOCK_SEED=%d go test -race -run '^%s$' ./adapters/proxy", n, t.Name())
		}
	}()
	random := rand.New(rand.NewPCG(n, 1))
	for range 3000 {
		c := &watched{w: &watcher{conns: map[uint64]*watched{}}}
		var first, second actors.Gone
		spin, at := random.IntN(200), random.IntN(3)
		var all sync.WaitGroup
		all.Go(func() {
			for range spin {
				_ = c.gone.Load()
			}
			c.hungUp()
		})
		c.onGone(&first)
		for range random.IntN(200) {
			_ = c.gone.Load()
		}
		c.disarm(&first)
		if at > 0 { // another request on the same connection
			c.onGone(&second)
			c.disarm(&first) // late: it loses the race
			all.Wait()
			if !first.Fired() && !second.Fired() {
				t.Fatal("nobody was told")
			}
			continue
		}
		all.Wait()
		if second.Fired() {
			t.Fatal("told although it was never armed")
		}
	}
}

// The same through the server: keep-alive connections that carry one request after the other, and hang up after a
// random number of them. Only the request that is there at the hang-up may be told.
func TestOnlyTheRequestThatIsThereAtTheHangUpIsTold(t *testing.T) {
	var answered, cancelled atomic.Int32
	d := &scripted{begin: func(c *actors.Call) actors.Answer {
		if c.Ask.Client == "stays" {
			if c.Gone.Fired() {
				cancelled.Add(1)
			}
			answered.Add(1)
			return actors.Answer{Status: 200, Headers: jsonType, Body: []byte(`{}`)}
		}
		<-c.Gone.Done()
		return actors.Answer{Status: 499}
	}}
	f := start(t, d, nil)
	var all sync.WaitGroup
	for g := range 8 {
		random := rand.New(rand.NewPCG(uint64(g), 7))
		all.Go(func() {
			for range 25 {
				c, err := net.Dial("tcp", f.addr)
				if err != nil {
					t.Error(err)
					return
				}
				br := bufio.NewReader(c)
				for range random.IntN(6) {
					_, _ = io.WriteString(c, chat("User-Agent", "stays"))
					r, err := http.ReadResponse(br, nil)
					if err != nil || r.StatusCode != 200 {
						t.Errorf("answer: %v %v", r, err)
						break
					}
					_, _ = io.Copy(io.Discard, r.Body)
				}
				_, _ = io.WriteString(c, chat("User-Agent", "leaves"))
				c.Close()
			}
		})
	}
	all.Wait()
	eventually(t, "all have ended", func() bool { return f.InFlight() == 0 })
	require.Positive(t, answered.Load())
	require.Zero(t, cancelled.Load())
}
