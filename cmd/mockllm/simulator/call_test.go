package simulator

import (
	"io"
	"strings"
	"testing"
)

// A body chooses the usage that its answer reports, whatever the dialect; the record says the same.
func TestTheBodyChoosesTheUsageAndTheRecordTellsIt(t *testing.T) {
	const all = "[usage:prompt_tokens=900,cached_tokens=100,cache_write_tokens=50,cache_write_1h_tokens=20,out_tokens=700,reasoning_tokens=30," +
		"audio_input_tokens=11,audio_output_tokens=12,image_input_tokens=13,image_output_tokens=14,web_searches=2,file_searches=3,images=4," +
		"service_tier=flex]"
	for _, c := range []struct {
		name, path, body string
		told             string
		want             Usage
		has              []string // in the answer
	}{
		{"chat", "/v1/chat/completions", `{"model":"m","x":"` + all + `[rid:r1]"}`, "whole",
			Usage{900, 100, 50, 0, 700, 30, 11, 12, 13, 14, 0, 2, 0, "flex"},
			[]string{`"audio_tokens":11,"image_tokens":13`, `"num_search_queries":2`, `"service_tier":"flex"`}},
		{"chat stream without usage", "/v1/chat/completions", `{"model":"m","stream":true,"x":"` + all + `"}`, "none",
			Usage{900, 100, 50, 0, 700, 30, 11, 12, 13, 14, 0, 2, 0, "flex"}, []string{`"service_tier":"flex"`}},
		{"responses stream", "/v1/responses", `{"model":"m","stream":true,"x":"` + all + `"}`, "whole",
			Usage{900, 100, 50, 0, 700, 30, 11, 12, 13, 14, 4, 2, 3, "flex"},
			[]string{`"type":"file_search_call"`, `"type":"image_generation_call"`, `"service_tier":"flex"`}},
		{"messages", "/v1/messages", `{"model":"m","x":"` + all + `"}`, "whole",
			Usage{900, 100, 50, 20, 700, 30, 0, 0, 0, 0, 0, 2, 0, "flex"},
			[]string{`"web_search_requests":2`, `"service_tier":"flex"`, `"ephemeral_1h_input_tokens":20`}},
		{"gemini", "/v1beta/models/m:generateContent", `{"x":"` + all + `"}`, "whole",
			Usage{900, 100, 0, 0, 700, 30, 11, 12, 13, 14, 0, 2, 0, "flex"},
			[]string{`"modality":"AUDIO","tokenCount":11`, `"webSearchQueries":["mock","mock"]`, `"serviceTier":"flex"`}},
		{"pictures", "/v1/images/generations", `{"model":"m","x":"` + all + `"}`, "whole",
			Usage{Prompt: 900, Output: 700, Images: 4}, []string{`"},{"b64_json"`}},
		{"moderation", "/v1/moderations", `{"model":"m","x":"` + all + `"}`, "none", Usage{Prompt: 900, Output: 700}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, Options{TrackRequests: true})
			status, body := post(t, s.URL()+c.path, c.body)
			for _, part := range c.has {
				if !strings.Contains(body, part) {
					t.Errorf("no %s in %s", part, body)
				}
			}
			var calls []Call
			if got := get(t, s.URL()+"/requests", &calls); got != 200 || len(calls) != 1 || status != 200 {
				t.Fatalf("%d %d %+v", status, got, calls)
			}
			if k := calls[0]; k.Usage != c.want || k.Told != c.told || k.Outcome != "completed" || k.Path != c.path || k.Model != "m" || k.Seq != 1 {
				t.Errorf("have %+v\nwant %+v %s", k, c.want, c.told)
			}
		})
	}
}

func TestAChoiceThatCanNotBeMeantIsRefused(t *testing.T) {
	s := start(t, Options{TrackRequests: true})
	for _, choice := range []string{"[usage:tokens=1]", "[usage:out_tokens=x]", "[usage:out_tokens=-1]", "[usage:out_tokens=1"} {
		if status, body := post(t, s.URL()+"/v1/chat/completions", `{"model":"m","x":"`+choice+`"}`); status != 400 || !strings.Contains(body, "[usage:") {
			t.Errorf("%s: %d %s", choice, status, body)
		}
	}
	for _, k := range s.Calls() {
		if k.Told != "none" || k.Status != 400 {
			t.Errorf("%+v", k)
		}
	}
}

func TestWhatABrokenAnswerToldOfItsUsageIsRecorded(t *testing.T) {
	b := Healthy()
	b.TruncRate, b.FaultAfter, b.ChunkBytes = 1, 2, 10
	for path, told := range map[string]string{
		"/v1/messages": "start", "/v1/chat/completions": "none", "/v1/responses": "none", "/v1beta/models/m:streamGenerateContent?alt=sse": "running",
	} {
		s := start(t, Options{TrackRequests: true, Config: Config{Default: b}})
		resp, err := client(t).Post(s.URL()+path, "application/json", strings.NewReader(`{"model":"m","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // it breaks off
		resp.Body.Close()
		if k := s.Calls()[0]; k.Told != told || k.Fault != "trunc_rate" || k.Outcome != "faulted" || k.Content != 20 {
			t.Errorf("%s: %+v", path, k)
		}
	}
}

func TestTheRecordOfCallsIsBounded(t *testing.T) {
	var d diary
	c := &conn{}
	for n := range 2*callsMax + 3 {
		d.begin(c, &turn{a: answer{n: uint64(n + 1)}})
	}
	if k := d.copies(); len(k) != callsMax || k[callsMax-1].Seq != 2*callsMax+3 || len(d.calls) > 2*callsMax {
		t.Errorf("%d kept of %d, the last is %d", len(k), len(d.calls), k[len(k)-1].Seq)
	}
}
