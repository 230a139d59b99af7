//go:build unix

package simulator

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// Who has closed its connection is not in flight any more for whoever comes next, also when nobody has read that yet.
func TestExactLeavesOutWhoHasGoneUnnoticed(t *testing.T) {
	b := Healthy()
	b.TTFBMs = 60_000
	s := New(Options{Exact: true, Config: Config{Default: b}})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const body = `{"model":"m"}`
	for n := range int64(300) {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		for end := time.Now().Add(time.Minute); s.Stats().All.Requests <= n; time.Sleep(50 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatal("the request does not arrive")
			}
		}
		c.Close()
	}
	if m := s.Stats().All; m.MaxInFlight != 1 {
		t.Errorf("%+v: one call at a time, and no other was made before its client had gone", m)
	}
	for end := time.Now().Add(time.Minute); s.Stats().All.InFlight != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v", s.Stats().All)
		}
	}
	if m := s.Stats().All; m.Aborted != 300 || m.Requests != 300 {
		t.Errorf("%+v", m)
	}
}
