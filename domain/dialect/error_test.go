package dialect

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s\n got %s\nwant %s", name, got, want)
	}
}

var dialects = []Dialect{None, OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini}

var queueTimeout = Error{
	Status: 504, Code: "QUEUE_WAIT_TIMEOUT", Type: "timeout", Message: "Waited 30s for a free slot.", Reason: "UPSTREAM_FULL",
	RequestID: "0192", UserHint: "Try again later.", RetryAfter: 7, Sequence: 41, ResponseID: "resp_1", Model: "gpt-5",
}

func TestErrorBodiesHaveTheClientsShape_A46_A83(t *testing.T) {
	var b []byte
	for _, d := range dialects {
		b = append(b, "# "+d.String()+"\n"...)
		for _, e := range []Error{
			queueTimeout,
			{Status: 503, Code: "ALL_UPSTREAMS_UNAVAILABLE", Message: "No upstream can serve this request.", Reason: "NO_HEALTHY_CANDIDATES", DidSendUpstream: true},
			{Status: 429, Code: "BUDGET_EXCEEDED", Message: "The budget is spent."},
			{Status: 418, Message: "odd"},
			{Status: 599, Message: "\"quoted\" \\ \x00\x1f\u2028 é \xff\n\t\r😀"},
		} {
			line := AppendError(nil, d, e)
			if !json.Valid(line) {
				t.Errorf("%v: no JSON: %s", d, line)
			}
			b = append(append(b, line...), '\n')
		}
	}
	golden(t, "error_bodies.txt", b)
}

func TestErrorNamesFollowTheStatus_wire3_7(t *testing.T) {
	var b []byte
	for _, status := range []int{400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 501, 502, 503, 504, 529} {
		b = strconv.AppendInt(b, int64(status), 10)
		for _, d := range []Dialect{OpenAIChat, AnthropicMessages, Gemini} {
			a := ReadAnswer(d, AppendError(nil, d, Error{Status: status, Message: "m"}))
			b = append(b, " "+a.ErrorType...)
		}
		b = append(b, '\n')
	}
	golden(t, "error_names.txt", b)
}

func TestStreamErrorsHaveTheClientsShapeAndNeverEndTheStream_pain56(t *testing.T) {
	var b []byte
	for _, d := range dialects {
		b = append(b, "# "+d.String()+"\n"...)
		b = AppendStreamError(b, d, SSE, queueTimeout)
	}
	b = append(b, "# array\n"...)
	b = AppendStreamError(b, Gemini, JSONArray, queueTimeout)
	b = append(b, '\n')
	golden(t, "error_streams.txt", b)
	for _, mark := range []string{"[DONE]", "response.completed", "message_stop", "finishReason", "finish_reason"} {
		if strings.Contains(string(b), mark) {
			t.Errorf("an error must not carry %s", mark)
		}
	}
}

func TestOurOwnErrorsReadAsFailures(t *testing.T) {
	for _, d := range dialects {
		for _, format := range []Format{SSE, JSONArray} {
			if format == JSONArray && d != Gemini {
				continue
			}
			stream := string(AppendStreamError(nil, d, format, queueTimeout))
			if format == JSONArray {
				stream = `[{"candidates":[]}` + stream
			}
			got := meter(t, d, format, stream)
			if !got.Failed || got.Complete || got.Content || got.Failure.Message != queueTimeout.Message || !got.Boundary {
				t.Errorf("%v, format %d: %+v", d, format, got)
			}
		}
		a := ReadAnswer(d, AppendError(nil, d, queueTimeout))
		if !a.IsObject || a.ErrorMessage != queueTimeout.Message || a.HasContent {
			t.Errorf("%v: %+v", d, a)
		}
	}
}

func TestAnUpstreamsStatusIsOneThatTheClientKnows(t *testing.T) {
	for _, c := range []struct {
		d        Dialect
		in, want int
	}{{AnthropicMessages, 503, 529}, {AnthropicMessages, 529, 529}, {OpenAIChat, 529, 503}, {Gemini, 529, 503}, {OpenAIResponses, 503, 503}, {AnthropicMessages, 500, 500}} {
		if got := ClientStatus(c.d, c.in); got != c.want {
			t.Errorf("%v: %d becomes %d, want %d", c.d, c.in, got, c.want)
		}
	}
}

func TestModelListsHaveTheClientsShape(t *testing.T) {
	var b []byte
	for _, d := range dialects {
		b = append(b, "# "+d.String()+"\n"...)
		for _, models := range [][]string{nil, {"gpt-5"}, {"a\"b", "claude-sonnet-5"}} {
			line := AppendModels(nil, d, models, 1770000000)
			if !json.Valid(line) {
				t.Errorf("%v: no JSON: %s", d, line)
			}
			b = append(append(b, line...), '\n')
		}
		b = append(AppendModel(b, d, "m", 0), '\n')
	}
	golden(t, "models.txt", b)
}
