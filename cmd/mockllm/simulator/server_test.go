package simulator

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// hold opens n streams that stall after one chunk, and returns when each has its first byte.
func hold(t *testing.T, s *Server, n int) (cancel func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := client(t)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			res, err := sendAs(ctx, c, s, shapes[1], "sk-held")
			if err == nil {
				_, err = res.Body.Read(make([]byte, 1))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return stop
}

var stalling = like(func(b *Behavior) { b.StallRate, b.FaultAfter = 1, 1 })

func TestStatsKeepTheHighWaterMarkOfWhatWasInFlight(t *testing.T) {
	s := start(t, stalling)
	cancel := hold(t, s, 12)
	st := s.Stats()
	for name, c := range map[string]Count{"all": st.All, "key": st.ByKey["sk-held"], "model": st.ByModel["m1"], "path": st.ByPath[shapes[1].path]} {
		if c.InFlight != 12 || c.MaxInFlight != 12 || c.Requests != 12 || c.Completed != 0 {
			t.Errorf("%s while held: %+v", name, c)
		}
	}
	cancel()
	s.Close() // returns when every connection has been seen off
	st = s.Stats()
	if st.All.InFlight != 0 || st.All.MaxInFlight != 12 || st.All.Aborted != 12 {
		t.Errorf("after the clients left: %+v", st.All)
	}
	s.ResetStats()
	if c := s.Stats().All; c != (Count{}) {
		t.Errorf("after the reset: %+v", c)
	}
}

func TestResetStatsKeepsWhatIsInFlight(t *testing.T) {
	s := start(t, stalling)
	hold(t, s, 3)
	s.ResetStats()
	if c := s.Stats().All; c.InFlight != 3 || c.MaxInFlight != 3 || c.Requests != 0 {
		t.Errorf("%+v", c)
	}
}

func TestAnAnswerThatWasReadIsCountedAndNoLongerInFlight(t *testing.T) {
	s := start(t, Options{})
	c := client(t)
	for i := range 200 {
		res, err := send(t, c, s, shapes[i%len(shapes)])
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if st := s.Stats(); st.All.InFlight != 0 || st.All.Completed != int64(i+1) || st.Status[200] != int64(i+1) {
			t.Fatalf("after answer %d: %+v", i+1, st.All)
		}
	}
	if m := s.Stats().All.MaxInFlight; m != 1 {
		t.Errorf("one request at a time, but the high-water mark is %d", m)
	}
}

func TestAClientThatLeavesWhileWaitingIsSeenAtOnce(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.TTFBMs = 3_600_000 }))
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
	c.Close()
	waitFor(t, func() bool { return s.Stats().All.Aborted == 1 })
}

// waitFor polls for what another goroutine brings about.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(limit) {
			t.Fatal("did not happen within 10 s")
		}
		runtime.Gosched()
	}
}

// ours counts the goroutines that run this package's server.
func ours() int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "simulator.(*Server).accept(") +
		strings.Count(string(buf[:runtime.Stack(buf, true)]), "simulator.(*conn).serve(")
}

func TestCloseLeavesNoGoroutineAndNoConnection(t *testing.T) {
	before := ours()
	s := start(t, stalling)
	hold(t, s, 5)
	idle, err := net.Dial("tcp", s.Addr()) // never sends a byte
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	waitFor(t, func() bool { return s.Stats().Connections.InFlight == 6 })
	if n := ours() - before; n != 7 {
		t.Fatalf("%d goroutines with 6 connections and a listener: the test does not see what it should", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := ours(); n != before {
		t.Errorf("%d goroutines left", n-before)
	}
	if n := s.Stats().Connections.InFlight; n != 0 {
		t.Errorf("%d connections left", n)
	}
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		c.Close()
		t.Error("still listening")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestAServerComesBackOnItsOldAddress(t *testing.T) {
	s := start(t, Options{})
	addr := s.Addr()
	fetch(t, s, shapes[0])
	if err := s.Start("127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("second start: %v", err)
	}
	s.Close()
	if err := s.Start(addr); err != nil {
		t.Fatal(err)
	}
	fetch(t, s, shapes[0])
	if n := s.Stats().All.Completed; n != 2 {
		t.Errorf("%d answers counted over both runs", n)
	}
}

func TestSeveralServersShareNothing(t *testing.T) {
	a, b := start(t, Options{}), start(t, like(func(b *Behavior) { b.ErrRate = 1 }))
	if v := look(t, a, shapes[0]); v.status != 200 {
		t.Errorf("a: %d", v.status)
	}
	if v := look(t, b, shapes[0]); v.status != 500 {
		t.Errorf("b: %d", v.status)
	}
	if a.Stats().All.Requests != 1 || b.Stats().All.Requests != 1 || a.URL() == b.URL() {
		t.Error("counted together")
	}
}

func TestStartRefusesWhatIsNotLoopbackAndABadConfig(t *testing.T) {
	for addr, word := range map[string]string{"0.0.0.0:0": "loopback", ":0": "loopback", "example.com:80": "loopback", "127.0.0.1": "port"} {
		s := New(Options{})
		if err := s.Start(addr); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", addr, err)
		}
		if s.URL() != "" {
			t.Errorf("URL %q", s.URL())
		}
	}
	s := New(like(func(b *Behavior) { b.ErrRate = 2 }))
	if err := s.Start("127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "err_rate") {
		t.Errorf("bad config: %v", err)
	}
}
