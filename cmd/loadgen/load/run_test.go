package load

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// upstream runs a simulator that is healthy but for change.
func upstream(t *testing.T, change func(*simulator.Behavior)) *simulator.Server {
	t.Helper()
	b := simulator.Healthy()
	if change != nil {
		change(&b)
	}
	s := simulator.New(simulator.Options{Seed: 1, TrackRequests: true, Config: simulator.Config{Default: b}})
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustRun(t *testing.T, o Options) Result {
	t.Helper()
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

var apis = []string{"openai", "responses", "anthropic", "gemini"}

func TestEveryAPIIsAskedAndReadWholeStreamedAndNot(t *testing.T) {
	for _, api := range apis {
		for _, stream := range []bool{false, true} {
			s := upstream(t, func(b *simulator.Behavior) { b.Chunks = 10 })
			res := mustRun(t, Options{URL: s.URL(), API: api, Stream: stream, Total: 60, Connections: 4, RID: true, Keys: []string{"k1", "k2"}, ReqBytes: 2000})
			if res.OK != 60 || res.Requests != 60 || res.Failed() != 0 || res.IncompleteStreams != 0 || res.Status[200] != 60 || len(res.Errors) != 0 {
				t.Errorf("%s, stream %v: %+v", api, stream, res)
			}
			if least := int64(60 * 10); stream && res.Events < least || !stream && res.Events != 0 {
				t.Errorf("%s, stream %v: %d events", api, stream, res.Events)
			}
			if res.Latency.N != 60 || res.TTFB.N != 60 || res.TTFB.Max > res.Latency.Max || res.Connect.N < 1 || res.Connect.N > 4 || res.ReqBytes != 2000 {
				t.Errorf("%s, stream %v: %+v", api, stream, res)
			}
			st, records := s.Stats(), s.Requests()
			if st.All.Completed != 60 || st.All.MaxInFlight > 4 || st.ByKey["k1"].Requests+st.ByKey["k2"].Requests != 60 {
				t.Errorf("%s, stream %v: the upstream saw %+v", api, stream, st)
			}
			if len(records) != 60 || records["r-000000000060"].Completed != 1 || records["r-000000000001"].LastBody != 2000 {
				t.Errorf("%s, stream %v: %d ids", api, stream, len(records))
			}
		}
	}
}

func TestWhatGoesWrongIsCountedByKind(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream bool
		change func(*simulator.Behavior)
		check  func(Result) bool
	}{
		{"a stream cut by FIN is an error", true, func(b *simulator.Behavior) { b.TruncRate = 1 },
			func(r Result) bool { return r.Errors["eof_mid_body"] == 5 && r.OK == 0 && r.Latency.N == 0 }},
		{"a stream that ends well without its terminal event is incomplete", true, func(b *simulator.Behavior) { b.NoContentRate = 1 },
			func(r Result) bool { return r.IncompleteStreams == 5 && r.OK == 0 && r.Status[200] == 5 }},
		{"so is one with an error event", true, func(b *simulator.Behavior) { b.MidstreamErrRate = 1 },
			func(r Result) bool { return r.IncompleteStreams == 5 && r.Events == 5*(1+3+1) }},
		{"a body cut by FIN is an error", false, func(b *simulator.Behavior) { b.TruncRate = 1 },
			func(r Result) bool { return r.Errors["eof_mid_body"] == 5 }},
		{"a stall that ends by RST is an error", true, func(b *simulator.Behavior) { b.StallRate, b.StallMs = 1, 1 },
			func(r Result) bool { return r.Errors["reset_mid_body"] == 5 }},
		{"a reset before the headers", false, func(b *simulator.Behavior) { b.ResetRate = 1 },
			func(r Result) bool { return r.Errors["reset"] == 5 && len(r.Status) == 0 }},
		{"an error status is no success and has no latency", false, func(b *simulator.Behavior) { b.ErrRate, b.ErrStatus = 1, 503 },
			func(r Result) bool {
				return r.Status[503] == 5 && r.OK == 0 && len(r.Errors) == 0 && r.Latency.N == 0 && r.Failed() == 5
			}},
		{"a timeout", false, func(b *simulator.Behavior) { b.TTFBMs = 600_000 },
			func(r Result) bool { return r.Errors["timeout"] == 5 }},
	} {
		s := upstream(t, c.change)
		limit := time.Minute
		if c.name == "a timeout" {
			limit = 500 * time.Millisecond
		}
		res := mustRun(t, Options{URL: s.URL(), Stream: c.stream, Total: 5, Connections: 5, Timeout: limit})
		if !c.check(res) || res.Requests != 5 {
			t.Errorf("%s: %+v", c.name, res)
		}
	}
}

func TestAServerThatIsDownIsAResult(t *testing.T) {
	s := upstream(t, nil)
	s.Close()
	if res := mustRun(t, Options{URL: s.URL(), Total: 3}); res.Errors["refused"] != 3 || res.Failed() != 3 {
		t.Errorf("%+v", res)
	}
}

func TestAnAnswerWithoutTheExpectedTextIsABadBody(t *testing.T) {
	s := upstream(t, func(b *simulator.Behavior) { b.RespBytes = 20_000 })
	if res := mustRun(t, Options{URL: s.URL(), Total: 20, Expect: `"fp_mock"`}); res.OK != 20 {
		t.Errorf("at the end of a body of many reads: %+v", res)
	}
	if res := mustRun(t, Options{URL: s.URL(), Total: 20, Expect: "absent"}); res.BadBody != 20 || res.OK != 0 {
		t.Errorf("%+v", res)
	}
}

func TestAbortsAreCountedOnBothSides(t *testing.T) {
	stall := func(b *simulator.Behavior) { b.StallRate, b.FaultAfter, b.FlushEvery = 1, 5, 1 }
	for name, c := range map[string]struct {
		o      Options
		change func(*simulator.Behavior)
	}{
		"at the headers":     {Options{Stream: true, AbortAfterEvents: 0}, stall},
		"after three events": {Options{Stream: true, AbortAfterEvents: 3}, stall},
		"before the answer":  {Options{AbortAfterEvents: -1, AbortAfter: 20 * time.Millisecond}, func(b *simulator.Behavior) { b.TTFBMs = 60_000 }},
		"in mid-stream":      {Options{Stream: true, AbortAfterEvents: -1, AbortAfter: 50 * time.Millisecond}, stall},
	} {
		s := upstream(t, c.change)
		o := c.o
		o.URL, o.Total, o.Connections, o.AbortRate = s.URL(), 12, 3, 1
		res := mustRun(t, o)
		if res.Aborted != 12 || res.Requests != 12 || len(res.Errors) != 0 || res.OK != 0 || res.Failed() != 0 {
			t.Errorf("%s: %+v", name, res)
		}
		s.Close() // waits until every connection was seen off
		if st := s.Stats(); st.All.Aborted != 12 {
			t.Errorf("%s: the upstream saw %+v", name, st.All)
		}
	}
}

func TestTheShareOfAbortsFollowsTheSeed(t *testing.T) {
	s := upstream(t, nil)
	run := func(seed uint64) int64 {
		return mustRun(t, Options{URL: s.URL(), Stream: true, Total: 200, AbortRate: .3, AbortAfterEvents: 1, Seed: seed}).Aborted
	}
	a, b := run(5), run(5)
	if a != b || a < 30 || a > 90 {
		t.Errorf("of 200 at a rate of 0.3: %d, then %d", a, b)
	}
}

func TestAnOpenLoopCountsLatencyFromTheDueTime(t *testing.T) {
	s := upstream(t, func(b *simulator.Behavior) { b.TTFBMs = 20 })
	res := mustRun(t, Options{URL: s.URL(), Total: 5, Rate: 1000}) // one connection: the fifth waits for four
	if res.OK != 5 || res.ServiceLatency == nil || res.LateBy == nil {
		t.Fatalf("%+v", res)
	}
	waited := res.Latency.Mean - res.ServiceLatency.Mean // 0, 19, 38, 57 and 76 ms at least
	if res.Latency.Max < 90_000 || waited < 35_000 || res.ServiceLatency.P50 < 20_000 {
		t.Errorf("latency %+v, service %+v", res.Latency, *res.ServiceLatency)
	}
	if res := mustRun(t, Options{URL: s.URL(), Total: 5, Connections: 5}); res.ServiceLatency != nil || res.LateBy != nil {
		t.Error("a closed loop has no due times")
	}
}

func TestAnOpenLoopKeepsItsRate(t *testing.T) {
	s := upstream(t, nil)
	for _, poisson := range []bool{false, true} {
		res := mustRun(t, Options{URL: s.URL(), Total: 101, Rate: 500, Poisson: poisson, Connections: 8, Seed: 3})
		if res.Seconds < .12 || res.OK != 101 { // 0.2 s, give or take chance
			t.Errorf("poisson %v: %d requests in %v s", poisson, res.OK, res.Seconds)
		}
	}
}

func TestARunEndsOnTimeEvenWhenNothingAnswers(t *testing.T) {
	s := upstream(t, func(b *simulator.Behavior) { b.TTFBMs = 3_600_000 })
	res := mustRun(t, Options{URL: s.URL(), Duration: 100 * time.Millisecond, Connections: 7, Ramp: time.Millisecond})
	if res.Requests != 0 || res.ActiveMax != 7 || res.Interrupted {
		t.Errorf("%+v", res)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	res, err := Run(ctx, Options{URL: s.URL(), Duration: time.Hour, Warmup: time.Hour, Rate: 100, Connections: 2})
	if err != nil || !res.Interrupted || res.Seconds > 60 {
		t.Errorf("%v %+v", err, res)
	}
}

func TestOnlyTheMeasuredWindowIsCounted(t *testing.T) {
	s := upstream(t, nil)
	res := mustRun(t, Options{URL: s.URL(), Warmup: 50 * time.Millisecond, Duration: 50 * time.Millisecond, Connections: 2})
	if n := s.Stats().All.Requests; res.OK == 0 || res.OK >= n || res.Seconds < .05 {
		t.Errorf("%d counted of %d sent, in %v s", res.OK, n, res.Seconds)
	}
}

func TestHeadersPathAndBodyAreSentAsGiven(t *testing.T) {
	s := upstream(t, nil)
	mustRun(t, Options{URL: s.URL() + "/ignored", Path: "/openai/v1/responses?x=1", API: "responses", Body: []byte(`{"a":1}`), Headers: []string{"X-Team: a"}, Total: 1})
	l, ok := s.Last()
	if !ok || l.Path != "/openai/v1/responses?x=1" || l.Body != `{"a":1}` || l.Headers["x-team"] != "a" || l.Headers["authorization"] != "Bearer sk-test" {
		t.Errorf("%+v", l)
	}
	mustRun(t, Options{URL: s.URL() + "/gemini/", API: "gemini", Model: "g 1", Stream: true, Total: 1})
	if l, _ := s.Last(); l.Path != "/gemini/v1beta/models/g%201:streamGenerateContent?alt=sse" || l.Headers["x-goog-api-key"] != "sk-test" {
		t.Errorf("%+v", l)
	}
}

func TestBadOptionsAreRefusedByName(t *testing.T) {
	ok := Options{URL: "http://127.0.0.1:9", Total: 1}
	for word, change := range map[string]func(*Options){
		"http://HOST:PORT":  func(o *Options) { o.URL = "127.0.0.1:9" },
		"loopback":          func(o *Options) { o.URL = "http://192.0.2.1:80" },
		"api":               func(o *Options) { o.API = "cohere" },
		"connections":       func(o *Options) { o.Connections = -1 },
		"abort rate: not":   func(o *Options) { o.AbortRate = 1.5 },
		"abort rate: given": func(o *Options) { o.AbortRate, o.AbortAfterEvents = 1, -1 },
		"needs a stream":    func(o *Options) { o.AbortRate, o.AbortAfterEvents = 1, 2 },
		"duration":          func(o *Options) { o.Total = 0 },
		"negative":          func(o *Options) { o.Warmup = -1 },
		"rate":              func(o *Options) { o.Rate = -1 },
		"header":            func(o *Options) { o.Headers = []string{"nonsense"} },
		"line break":        func(o *Options) { o.Keys = []string{"a\r\nb: c"} },
		"rid":               func(o *Options) { o.RID, o.Body = true, []byte("{}") },
		"no process":        func(o *Options) { o.Processes = []Process{{Name: "x", PID: 1 << 30}} },
	} {
		o := ok
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestAProcessTreeIsAccounted(t *testing.T) {
	s := upstream(t, nil)
	res := mustRun(t, Options{URL: s.URL(), Duration: 100 * time.Millisecond, Connections: 2, Processes: []Process{{Name: "me", PID: os.Getpid()}}})
	a := res.Processes["me"]
	if a.CPU <= 0 || a.CPUPerReq <= 0 || a.RSSMax <= 0 || a.Threads < 2 || a.FDs < 4 || res.LoadgenCPU <= 0 {
		t.Errorf("%+v", res)
	}
	if got := slices.Collect(maps.Keys(res.Processes)); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestAConnectionThatTheServerClosedMeanwhileIsNoError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // one answer per connection, without saying so
				defer c.Close()
				c.Read(make([]byte, 8192))
				c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
			}()
		}
	}()
	res := mustRun(t, Options{URL: "http://" + ln.Addr().String(), Total: 10})
	if res.OK != 10 || res.StaleReconnects != 9 || res.Connect.N != 10 {
		t.Errorf("%+v", res)
	}
}

func TestABodyMayEndWithTheConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 8192))
			c.Write([]byte("HTTP/1.0 200 OK\r\n\r\ndata: 1\n\nda"))
			c.Write([]byte("ta: [DONE]\n\n"))
			c.Close()
		}
	}()
	res := mustRun(t, Options{URL: "http://" + ln.Addr().String(), Stream: true, Total: 4})
	if res.OK != 4 || res.Events != 8 || res.BodyBytes != 4*23 {
		t.Errorf("%+v", res)
	}
}
