package simulator

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func marked(id string) shape {
	return shape{"chat JSON", "/v1/chat/completions", `{"model":"m1","messages":"[rid:` + id + `] hi"}`, false}
}

func TestRecordsFollowARequestOverItsAttempts(t *testing.T) {
	s := start(t, Options{TrackRequests: true, Config: Config{Rules: []Rule{
		{Key: "limited", Behavior: Behavior{ErrRate: 1, ErrStatus: 429}},
		{Key: "cut", Behavior: Behavior{TruncRate: 1}},
	}}})
	c := client(t)
	for _, x := range []struct{ key, id string }{{"limited", "b"}, {"good", "a"}, {"cut", "b"}, {"good", "b"}} {
		res, err := sendAs(t.Context(), c, s, marked(x.id), x.key)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	r := s.Requests()
	if len(r) != 2 || r["b"].FirstSeq != 1 || r["a"].FirstSeq != 2 {
		t.Errorf("arrivals: %+v", r)
	}
	b := r["b"]
	if b.Attempts != 3 || b.Completed != 1 || b.Faulted != 2 || b.Aborted != 0 || b.Chunks != 1 {
		t.Errorf("b: %+v", b)
	}
	if !slices.Equal(b.Keys, []string{"limited", "cut", "good"}) || b.Key != "good" {
		t.Errorf("keys: %v, last %s", b.Keys, b.Key)
	}
	if b.LastBody != len(marked("b").body) {
		t.Errorf("last body: %d bytes", b.LastBody)
	}
}

func TestHeadersAndTheLastRequestAreKeptAsTheyArrived(t *testing.T) {
	s := start(t, like(func(*Behavior) {}))
	req, _ := http.NewRequest("POST", s.URL()+"/x/v1/messages?beta=true", strings.NewReader(`{"model":"m","t":"[rid:q]"}`))
	req.Header = http.Header{"X-Api-Key": {"sk-up"}, "Accept-Encoding": {"identity"}, "X-Multi": {"a", "b"}}
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	h := s.Requests()["q"].Headers
	for k, want := range map[string]string{"x-api-key": "sk-up", "accept-encoding": "identity", "x-multi": "a, b", "host": s.Addr()} {
		if h[k] != want {
			t.Errorf("%s is %q, want %q", k, h[k], want)
		}
	}
	var l LastRequest
	get(t, s.URL()+"/last", &l)
	if l.Method != "POST" || l.Path != "/x/v1/messages?beta=true" || l.Body != `{"model":"m","t":"[rid:q]"}` || l.Headers["x-api-key"] != "sk-up" {
		t.Errorf("/last: %+v", l)
	}
}

func TestNothingIsKeptUnlessAskedFor(t *testing.T) {
	s := start(t, Options{})
	fetch(t, s, marked("a"))
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d records", n)
	}
	var m map[string]any
	if status := get(t, s.URL()+"/last", &m); status != 404 || !strings.Contains(fmt.Sprint(m), "-track-rid") {
		t.Errorf("/last: %d %v", status, m)
	}
}

func TestTheDiaryIsBoundedInRecordsAndInBytes(t *testing.T) {
	arrive := func(d *diary, n int, head string) *record {
		return d.arrive(uint64(n), &conn{body: []byte(fmt.Sprintf("[rid:%d]", n)), headBuf: []byte(head), key: "k"})
	}
	t.Run("records", func(t *testing.T) {
		var d diary
		first := arrive(&d, 1, "")
		for i := 2; i <= recordsMax+10; i++ {
			arrive(&d, i, "")
		}
		if len(d.m) != recordsMax || d.forgotten != 10 || d.m["10"] != nil || d.m["11"] == nil {
			t.Errorf("%d records, %d forgotten", len(d.m), d.forgotten)
		}
		d.leave(first, completed, 200, 1) // an attempt may outlive its record
	})
	t.Run("bytes", func(t *testing.T) {
		var d diary
		head := strings.Repeat("x", 1<<20)
		for i := range 200 {
			arrive(&d, i, head)
		}
		if d.bytes > recordBytesMax || len(d.m) < 50 || d.m["199"] == nil {
			t.Errorf("%d bytes in %d records", d.bytes, len(d.m))
		}
		sum := 0
		for _, r := range d.m {
			sum += r.size()
		}
		if sum != d.bytes {
			t.Errorf("%d bytes counted, %d held", d.bytes, sum)
		}
	})
	t.Run("keys of one record", func(t *testing.T) {
		var d diary
		for range 3 * keysMax {
			arrive(&d, 1, "")
		}
		if r := d.records()["1"]; len(r.Keys) != keysMax || r.Attempts != 3*keysMax {
			t.Errorf("%d keys of %d attempts", len(r.Keys), r.Attempts)
		}
	})
}

func TestGroupsAreBounded(t *testing.T) {
	var g group
	for i := range groupMax + 5 {
		g.get(fmt.Sprint(i)).enter()
	}
	if n := len(g.m); n != groupMax+1 || g.m[other].total.Load() != 5 {
		t.Errorf("%d names", n)
	}
	g.get(strings.Repeat("n", 10_000))
	for name := range g.m {
		if len(name) > nameMax {
			t.Errorf("a name of %d bytes", len(name))
		}
	}
}
