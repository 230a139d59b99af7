package dialect

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/domain/pricing"
)

// geminiForms writes chunks in the forms that Gemini streams in.
func geminiForms(chunks ...string) map[Format][]string {
	return map[Format][]string{
		SSE:       {events(chunks...), strings.ReplaceAll(events(chunks...), "\n", "\r\n")},
		JSONArray: {"[" + strings.Join(chunks, "\n,\r\n") + "\n]\n", " [ " + strings.Join(chunks, ",") + "]"},
	}
}

func TestGeminiStreamsAreMetered(t *testing.T) {
	const thought = `{"candidates":[{"content":{"parts":[{"text":"hm]","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":15,"totalTokenCount":40,"thoughtsTokenCount":25},"modelVersion":"gemini-3-pro","responseId":"r1"}`
	const text = `{"candidates":[{"content":{"parts":[{"text":"a \"}\" b"}]}}],"usageMetadata":{"promptTokenCount":15,"candidatesTokenCount":4,"thoughtsTokenCount":25,"cachedContentTokenCount":5},"modelVersion":"gemini-3-pro","responseId":"r1"}`
	const last = `{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"sig"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":13,"candidatesTokenCount":6,"thoughtsTokenCount":25,"toolUsePromptTokenCount":2,"cachedContentTokenCount":5},"modelVersion":"gemini-3-pro","responseId":"r1"}`
	named := state{Model: "gemini-3-pro", ID: "r1"}
	with := func(s state, change func(*state)) state { change(&s); return s }
	for _, c := range []struct {
		name   string
		chunks []string
		want   state
	}{
		{"a whole answer: thoughts are output, the last usage wins (new-api 1014, pain 64)", []string{thought, text, last}, with(named, func(s *state) {
			s.Content, s.Finished, s.Terminal, s.Complete, s.Output, s.Events = true, true, true, true, 10, 3
			s.Usage, s.Source = pricing.Usage{Input: 10, CachedInput: 5, Output: 31, Reasoning: 25}, pricing.Reported
		})},
		{"cut, pain 56", []string{thought, text}, with(named, func(s *state) {
			s.Content, s.Output, s.Events = true, 10, 2
			s.Usage, s.Source = pricing.Usage{Input: 10, CachedInput: 5, Output: 29, Reasoning: 25}, pricing.Partial
		})},
		{"a signature alone is no content", []string{last}, with(named, func(s *state) {
			s.Finished, s.Terminal, s.Complete, s.Events = true, true, true, 1
			s.Usage, s.Source = pricing.Usage{Input: 10, CachedInput: 5, Output: 31, Reasoning: 25}, pricing.Reported
		})},
		{"a call is content", []string{`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}],"usageMetadata":{"trafficType":"ON_DEMAND"}}`}, state{Content: true, Source: pricing.None, Tier: "ON_DEMAND", Output: 12, Events: 1}},
		{"a picture is content", []string{`{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}}]}`}, state{Content: true, Source: pricing.None, Events: 1}},
		{"a blocked prompt is complete", []string{`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}`}, state{Finished: true, Terminal: true, Complete: true, Usage: pricing.Usage{Input: 3}, Source: pricing.Reported, Events: 1}},
		{"an error", []string{text, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE","details":[{"@type":"x","reason":"BUSY"}]}}`}, with(named, func(s *state) {
			s.Content, s.Output, s.Events = true, 7, 2
			s.Failed, s.Failure = true, StreamError{"UNAVAILABLE", "BUSY", "The model is overloaded.", 503}
			s.Usage, s.Source = pricing.Usage{Input: 10, CachedInput: 5, Output: 29, Reasoning: 25}, pricing.Partial
		})},
	} {
		for format, streams := range geminiForms(c.chunks...) {
			for _, stream := range streams {
				c.want.Boundary = true
				if got := meter(t, Gemini, format, stream); got != c.want {
					t.Errorf("%s (format %d)\n got %+v\nwant %+v", c.name, format, got, c.want)
				}
			}
		}
	}
}

// A reason to stop is one of its candidate, and not its last word when the candidate goes on (litellm#2195, kelivo#1003).
func TestGeminiReasonsToStopAreOfTheirCandidates(t *testing.T) {
	const (
		bare  = `{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}`
		text  = `{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`
		each  = `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`
		both  = `{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0},{"index":1}]}`
		one   = `{"candidates":[{"finishReason":"STOP","index":1}],"usageMetadata":{"promptTokenCount":1}}`
		other = `{"candidates":[{"index":0,"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":2}}`
		used  = `{"usageMetadata":{"promptTokenCount":3}}`
	)
	for _, c := range []struct {
		name            string
		chunks          []string
		complete, whole bool
		source          pricing.Source
	}{
		{"the last word", []string{text, bare}, true, true, pricing.None},
		{"usage behind it", []string{text, bare, used}, true, true, pricing.Reported},
		{"before the text", []string{bare, text}, false, false, pricing.None},
		{"before the text, and behind it", []string{bare, text, bare, used}, true, false, pricing.Reported},
		{"with each", []string{each, each}, true, false, pricing.None},
		{"one of two", []string{both, one}, false, false, pricing.Partial},
		{"both of two", []string{both, one, other}, true, true, pricing.Reported},
	} {
		for format, streams := range geminiForms(c.chunks...) {
			var m Meter
			m.Reset(Gemini, format)
			m.Feed([]byte(streams[0]))
			if _, source := m.Usage(); m.Complete() != c.complete || m.Whole() != c.whole || source != c.source || m.Ended() != (c.complete && format == JSONArray) {
				t.Errorf("%s (format %d): complete %v, whole %v, ended %v, usage %s", c.name, format, m.Complete(), m.Whole(), m.Ended(), source)
			}
		}
	}
}

func TestAnArrayIsCompleteOnlyWithItsBracket(t *testing.T) {
	const last = `{"candidates":[{"content":{"parts":[{"text":"[{\\"}]},"finishReason":"STOP"}]}`
	var m Meter
	m.Reset(Gemini, JSONArray)
	if n := m.Feed([]byte("[" + last)); n != 1+len(last) || m.Complete() || !m.Terminal() || !m.AtBoundary() {
		t.Errorf("%d ready; complete %v", n, m.Complete())
	}
	if n := m.Feed([]byte(", ")); n != 0 || m.AtBoundary() {
		t.Errorf("a comma belongs to what follows; %d ready", n)
	}
	if n := m.Feed([]byte(last + "\n]\n")); n != len(last)+3 || !m.Complete() || !m.AtBoundary() {
		t.Errorf("%d ready; complete %v", n, m.Complete())
	}
	if n := m.Feed([]byte(" \n")); n != 2 || !m.Complete() {
		t.Errorf("what follows the array passes; %d ready", n)
	}
}

func TestAnErrorObjectInsteadOfAnArrayIsRead(t *testing.T) {
	got := meter(t, Gemini, JSONArray, `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}`+"\n")
	want := state{Failed: true, Failure: StreamError{"RESOURCE_EXHAUSTED", "429", "quota", 429}, Source: pricing.None, Boundary: true, Events: 1}
	if got != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}
