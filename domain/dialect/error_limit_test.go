package dialect

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWhatARefusalsBodySaysOfItsLimit(t *testing.T) { // wire 2.4: RetryInfo, QuotaFailure
	for name, c := range map[string]struct {
		body string
		want ErrorLimit
	}{
		"Google, per minute and model": {`{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaDimensions":{"location":"global","model":"gemini-2.5-pro"}}]},{"@type":"type.googleapis.com/google.rpc.Help","links":[{"url":"x"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`,
			ErrorLimit{RetryDelay: "34s", PerMinute: true, Model: "gemini-2.5-pro"}},
		"Google, several quotas":       {`[{"error":{"details":[{"violations":[{"quotaId":"APerMinute"},{"quotaId":"BPerDay"}]}]}}]`, ErrorLimit{PerMinute: true, PerDay: true}},
		"a subscription's window":      {`{"error":{"type":"usage_limit_reached","resets_at":1767326645,"resets_in_seconds":3600.5}}`, ErrorLimit{RetryDelay: "3600.5", ResetsAt: "1767326645"}},
		"beside the error":             {`{"retry_after":3,"error":"slow down"}`, ErrorLimit{RetryDelay: "3"}},
		"milliseconds":                 {`{"error":{"retry_after_ms":"150"}}`, ErrorLimit{RetryDelay: "150ms"}},
		"one detail instead of a list": {`{"error":{"details":{"error_code":"busy","retryDelay":"1s"}}}`, ErrorLimit{RetryDelay: "1s"}},
		"cut off after the delay":      {`{"error":{"details":[{"retryDelay":"5s"},{"viol`, ErrorLimit{RetryDelay: "5s"}},
		"null":                         {`{"error":{"details":null,"resets_at":null}}`, ErrorLimit{}},
		"of other types":               {`{"error":{"details":[7,"x",[]],"retry_after":{"a":1},"resets_at":true}}`, ErrorLimit{}},
		"violations that are none":     {`{"error":{"details":[{"violations":{"quotaId":"PerDay"}},{"violations":["PerDay"]}]}}`, ErrorLimit{}},
		"an error that is a text":      {`{"error":"PerDay"}`, ErrorLimit{}},
		"no JSON":                      {`<html>`, ErrorLimit{}},
		"broken within":                {`{"error":{"retry_after":3,}}`, ErrorLimit{}},
		"nothing":                      {``, ErrorLimit{}},
		"an empty array":               {`[]`, ErrorLimit{}},
		"a text as long as a book":     {`{"error":{"retry_after":"` + strings.Repeat("1", 300) + `"}}`, ErrorLimit{}},
	} {
		if got := ReadErrorLimit([]byte(c.body)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func FuzzABodysLimitIsReadFromAnything(f *testing.F) {
	f.Add([]byte(`{"error":{"details":[{"violations":[{"quotaId":"PerDay"}]},{"retryDelay":"5s"}]}}`))
	f.Add([]byte(`[{"error":`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l := ReadErrorLimit(body)
		if len(l.RetryDelay) > 258 || len(l.ResetsAt) > 256 || len(l.Model) > 256 {
			t.Fatalf("%+v", l)
		}
		if l != (ErrorLimit{}) && json.Valid(body) && !json.Valid(body[:len(body)-1]) && ReadErrorLimit(append(body, ' ')) != l {
			t.Fatalf("a space changes %+v", l)
		}
	})
}
