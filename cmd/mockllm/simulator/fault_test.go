package simulator

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// seen is what a real client saw of one request.
type seen struct {
	status   int
	head     http.Header
	body     string
	err      error // of the request or of reading the body
	noAnswer bool  // the request itself failed
}

func look(t *testing.T, s *Server, sh shape) seen {
	t.Helper()
	res, err := send(t, client(t), s, sh)
	if err != nil {
		return seen{err: err, noAnswer: true}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return seen{status: res.StatusCode, head: res.Header, body: string(b), err: err}
}

// contents counts the content chunks in a stream of any dialect.
func contents(body string) int { return strings.Count(body, "lorem ipsum dolo") }

// terminal tells whether any dialect's terminal marker is there.
func terminal(body string) bool {
	for _, m := range []string{"[DONE]", "response.completed", "message_stop", "finishReason"} {
		if strings.Contains(body, m) {
			return true
		}
	}
	return false
}

func TestEachFaultIsWhatARealClientSees(t *testing.T) {
	reset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	for _, c := range []struct {
		name   string
		field  string
		change func(*Behavior)
		whole  func(seen) bool // nil: the fault does not touch non-stream answers
		stream func(seen) bool
	}{
		{"reset before the headers", "reset_rate", func(b *Behavior) { b.ResetRate = 1 },
			func(v seen) bool { return v.noAnswer && reset(v.err) },
			func(v seen) bool { return v.noAnswer && reset(v.err) }},
		{"hang, then reset", "hang_rate", func(b *Behavior) { b.HangRate, b.HangMs = 1, 5 },
			func(v seen) bool { return v.noAnswer && reset(v.err) },
			func(v seen) bool { return v.noAnswer && reset(v.err) }},
		{"reset after the headers", "reset_after_headers", func(b *Behavior) { b.ResetAfterHeaders = 1 },
			func(v seen) bool { return v.status == 200 && v.body == "" && reset(v.err) },
			func(v seen) bool { return v.status == 200 && v.body == "" && reset(v.err) }},
		{"wrong content type", "wrong_type_rate", func(b *Behavior) { b.WrongTypeRate = 1 },
			func(v seen) bool {
				return v.status == 200 && v.err == nil && strings.HasPrefix(v.head.Get("Content-Type"), "text/html") && strings.Contains(v.body, "<html>")
			},
			func(v seen) bool {
				return v.status == 200 && v.err == nil && strings.HasPrefix(v.head.Get("Content-Type"), "text/html") && strings.Contains(v.body, "<html>")
			}},
		{"empty body", "empty_rate", func(b *Behavior) { b.EmptyRate = 1 },
			func(v seen) bool { return v.status == 200 && v.err == nil && v.body == "" },
			func(v seen) bool { return v.status == 200 && v.err == nil && v.body == "" }},
		{"garbage JSON", "garbage_rate", func(b *Behavior) { b.GarbageRate = 1 },
			func(v seen) bool {
				return v.status == 200 && v.err == nil && v.body != "" && !json.Valid([]byte(v.body)) && v.head.Get("Content-Type") == "application/json"
			},
			func(v seen) bool {
				data, _ := strings.CutPrefix(v.body, "data: ")
				return v.status == 200 && v.err == nil && data != "" && !json.Valid([]byte(data))
			}},
		{"a line without an end", "oversized_rate", func(b *Behavior) { b.OversizedRate, b.OversizedBytes = 1, 100_000 },
			func(v seen) bool {
				return v.status == 200 && v.err == nil && len(v.body) > 100_000 && !strings.Contains(v.body, "\n")
			},
			func(v seen) bool {
				return v.status == 200 && v.err == nil && len(v.body) > 100_000 && !strings.Contains(v.body, "\n")
			}},
		{"no content", "nocontent_rate", func(b *Behavior) { b.NoContentRate = 1 }, nil,
			func(v seen) bool {
				return v.status == 200 && v.err == nil && v.body != "" && contents(v.body) == 0 && !terminal(v.body)
			}},
		{"truncation after 2 chunks", "trunc_rate", func(b *Behavior) { b.TruncRate, b.FaultAfter = 1, 2 },
			func(v seen) bool {
				return v.status == 200 && errors.Is(v.err, io.ErrUnexpectedEOF) && len(v.body) > 100 && !json.Valid([]byte(v.body))
			},
			func(v seen) bool {
				return v.status == 200 && errors.Is(v.err, io.ErrUnexpectedEOF) && contents(v.body) == 2 && !terminal(v.body)
			}},
		{"stall after 2 chunks", "stall_rate", func(b *Behavior) { b.StallRate, b.StallMs, b.FaultAfter = 1, 5, 2 },
			func(v seen) bool { return v.status == 200 && reset(v.err) && len(v.body) > 100 },
			func(v seen) bool {
				return v.status == 200 && reset(v.err) && contents(v.body) == 2 && !terminal(v.body)
			}},
		{"stall before any chunk", "stall_rate", func(b *Behavior) { b.StallRate, b.StallMs, b.FaultAfter = 1, 5, 0 },
			func(v seen) bool { return v.status == 200 && reset(v.err) },
			func(v seen) bool { return v.status == 200 && reset(v.err) && v.body != "" && contents(v.body) == 0 }},
		{"cut between the last chunk and the end events", "trunc_rate", func(b *Behavior) { b.TruncRate, b.FaultAfter = 1, 1000 },
			func(v seen) bool { return errors.Is(v.err, io.ErrUnexpectedEOF) },
			func(v seen) bool {
				return errors.Is(v.err, io.ErrUnexpectedEOF) && contents(v.body) == Healthy().Chunks && !terminal(v.body)
			}},
		{"error event after 3 chunks", "midstream_error_rate", func(b *Behavior) { b.MidstreamErrRate = 1 }, nil,
			func(v seen) bool {
				return v.status == 200 && v.err == nil && contents(v.body) == 3 && !terminal(v.body)
			}},
	} {
		for _, sh := range shapes {
			check := c.whole
			if sh.stream() {
				check = c.stream
			}
			t.Run(c.name+"/"+sh.name, func(t *testing.T) {
				s := start(t, like(c.change))
				v := look(t, s, sh)
				wantFaults := int64(1)
				if check == nil {
					check, wantFaults = func(v seen) bool { return v.err == nil && readerOf(sh)(t, sh, []byte(v.body)).terminal }, 0
				}
				if !check(v) {
					t.Errorf("saw status %d, error %v, body %.300q", v.status, v.err, v.body)
				}
				st := s.Stats()
				if st.All.Faulted != wantFaults || st.Faults[c.field] != wantFaults || st.All.InFlight != 0 {
					t.Errorf("counted %+v, faults %v", st.All, st.Faults)
				}
			})
		}
	}
}

func TestErrorStatusesHaveTheDialectsShape(t *testing.T) {
	type want map[string]any
	for _, c := range []struct {
		status int
		shape  int // of shapes
		want   want
	}{
		{500, 0, want{"error.type": "server_error", "error.code": "server_error"}},
		{429, 1, want{"error.type": "rate_limit_error", "error.code": "rate_limit_exceeded"}},
		{401, 2, want{"error.type": "invalid_request_error", "error.code": "invalid_api_key"}},
		{529, 4, want{"type": "error", "error.type": "overloaded_error", "request_id": "req_1"}},
		{429, 5, want{"type": "error", "error.type": "rate_limit_error"}},
		{400, 4, want{"error.type": "invalid_request_error"}},
		{503, 6, want{"error.status": "UNAVAILABLE", "error.code": 503.0}},
		{429, 7, want{"error.status": "RESOURCE_EXHAUSTED", "error.code": 429.0}},
	} {
		s := start(t, like(func(b *Behavior) { b.ErrRate, b.ErrStatus, b.RetryAfter = 1, c.status, 34 }))
		v := look(t, s, shapes[c.shape])
		if v.status != c.status || v.head.Get("Retry-After") != "34" {
			t.Errorf("%s: status %d, retry-after %q", shapes[c.shape].name, v.status, v.head.Get("Retry-After"))
		}
		m := object(t, v.body)
		for k, x := range c.want {
			var way []any
			for p := range strings.SplitSeq(k, ".") {
				way = append(way, p)
			}
			if got := at(m, way...); got != x {
				t.Errorf("%s %d: %s is %v, want %v", shapes[c.shape].name, c.status, k, got, x)
			}
		}
		if strings.HasPrefix(shapes[c.shape].name, "gemini") && at(m, "error", "details", 0, "retryDelay") != "34s" {
			t.Errorf("no RetryInfo in %s", v.body)
		}
		st := s.Stats()
		if st.Status[c.status] != 1 || st.All.Completed != 1 || st.Faults["err_rate"] != 1 {
			t.Errorf("%+v", st)
		}
		if st.Status[200] != 0 {
			t.Error("an error was counted as 200")
		}
	}
}

func TestErrorTypeAndBodyCanBeGiven(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.ErrRate, b.ErrStatus, b.ErrType = 1, 429, "insufficient_quota" }))
	m := object(t, look(t, s, shapes[0]).body)
	if at(m, "error", "type") != "insufficient_quota" || at(m, "error", "code") != "insufficient_quota" {
		t.Errorf("%v", m)
	}
	if st := at(object(t, look(t, s, shapes[6]).body), "error", "status"); st != "insufficient_quota" {
		t.Errorf("Gemini status %v", st)
	}
	const body = `[{"error":{"code":418}}]`
	if err := s.SetConfig(Config{Default: Behavior{ErrRate: 1, ErrStatus: 418, ErrBody: body}}); err != nil {
		t.Fatal(err)
	}
	if v := look(t, s, shapes[5]); v.status != 418 || v.body != body {
		t.Errorf("status %d, body %q", v.status, v.body)
	}
}

func TestMidstreamErrorsHaveTheDialectsShape(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.MidstreamErrRate = 1 }))
	last := func(sh shape) (event, event) {
		l := events(t, []byte(look(t, s, sh).body))
		return l[len(l)-2], l[len(l)-1]
	}
	if _, e := last(shapes[1]); at(object(t, e.data), "error", "type") != "server_error" {
		t.Errorf("chat: %+v", e)
	}
	if e, f := last(shapes[3]); e.name != "error" || at(object(t, e.data), "error", "code") != "server_error" ||
		f.name != "response.failed" || at(object(t, f.data), "response", "status") != "failed" ||
		at(object(t, f.data), "sequence_number").(float64) != at(object(t, e.data), "sequence_number").(float64)+1 {
		t.Errorf("responses: %+v %+v", e, f)
	}
	if _, e := last(shapes[5]); e.name != "error" || at(object(t, e.data), "error", "type") != "overloaded_error" {
		t.Errorf("messages: %+v", e)
	}
	if _, e := last(shapes[7]); at(object(t, e.data), "error", "status") != "UNAVAILABLE" {
		t.Errorf("gemini: %+v", e)
	}
	var array []any
	if err := json.Unmarshal([]byte(look(t, s, shapes[8]).body), &array); err != nil || at(array, 3, "error", "code") != 503.0 {
		t.Errorf("gemini array: %v %v", err, array)
	}
}

func TestFailedRateConcernsResponsesOnly(t *testing.T) {
	s := start(t, like(func(b *Behavior) { b.FailedRate = 1 }))
	for _, sh := range shapes {
		v := look(t, s, sh)
		if v.status != 200 || v.err != nil {
			t.Fatalf("%s: %+v", sh.name, v)
		}
		switch sh.name {
		case "responses JSON":
			if m := object(t, v.body); m["status"] != "failed" || at(m, "error", "code") != "server_error" {
				t.Errorf("%v", m)
			}
		case "responses SSE":
			l := events(t, []byte(v.body))
			if e := l[len(l)-1]; e.name != "response.failed" || contents(v.body) != 3 {
				t.Errorf("%+v after %d chunks", e, contents(v.body))
			}
		default:
			if !readerOf(sh)(t, sh, []byte(v.body)).terminal {
				t.Errorf("%s is not complete", sh.name)
			}
		}
	}
}

func TestARunOverOneConnectionRepeatsBySeed(t *testing.T) {
	outcomes := func(seed uint64) (out string) {
		o := like(func(b *Behavior) { b.ErrRate, b.EmptyRate, b.GarbageRate, b.TruncRate = .2, .2, .2, .2 })
		o.Seed = seed
		s := start(t, o)
		for range 2 { // ResetStats begins the same run again
			run := ""
			for range 100 {
				switch v := look(t, s, shapes[0]); {
				case v.status == 500:
					run += "e"
				case v.err != nil:
					run += "t"
				case v.body == "":
					run += "0"
				case !json.Valid([]byte(v.body)):
					run += "g"
				default:
					run += "."
				}
			}
			if out != "" && run != out {
				t.Errorf("seed %d: the second run differs", seed)
			}
			out = run
			s.ResetStats()
		}
		return out
	}
	a, b, other := outcomes(7), outcomes(7), outcomes(8)
	if a != b {
		t.Errorf("seed 7 gave\n%s\n%s", a, b)
	}
	if a == other {
		t.Error("seeds 7 and 8 gave the same run")
	}
	for _, kind := range []string{"e", "t", "0", "g", "."} { // 0.2, 0.16, 0.13, 0.10, 0.41 of 100
		if n := strings.Count(a, kind); n < 3 || n > 60 {
			t.Errorf("%q came %d times in 100", kind, n)
		}
	}
}
