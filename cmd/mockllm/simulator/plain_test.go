package simulator

import "testing"

func TestPlainEndpointsAnswerTheirOwnJSONAndTheirDialectsErrors(t *testing.T) {
	for _, c := range []struct {
		path          string
		answer, fault []any // a way into the JSON, and what is there
	}{
		{"/v1/embeddings", []any{"usage", "total_tokens", 77.0}, []any{"error", "code", "rate_limit_exceeded"}},
		{"/v1/moderations", []any{"results", 0, "flagged", false}, []any{"error", "code", "rate_limit_exceeded"}},
		{"/v1/images/generations", []any{"data", 0, "b64_json", "iVBORw0KGgo="}, []any{"error", "code", "rate_limit_exceeded"}},
		{"/v1/audio/transcriptions", []any{"text", "lorem ip"}, []any{"error", "code", "rate_limit_exceeded"}},
		{"/v1/messages/count_tokens", []any{"input_tokens", 77.0}, []any{"error", "type", "rate_limit_error"}},
		{"/v1beta/models/m1:countTokens", []any{"totalTokens", 77.0}, []any{"error", "status", "RESOURCE_EXHAUSTED"}},
	} {
		s := start(t, like(func(b *Behavior) { b.PromptTokens, b.RespBytes = 77, 8 }))
		sh := shape{c.path, c.path, `{"model":"m1","stream":true,"input":"hi"}`, false}
		check := func(way []any, want int) {
			t.Helper()
			res, body := fetch(t, s, sh)
			last := len(way) - 1
			if got := at(object(t, string(body)), way[:last]...); res.StatusCode != want || got != way[last] {
				t.Errorf("%s: %d %s", c.path, res.StatusCode, body)
			}
		}
		check(c.answer, 200)
		s.SetConfig(Config{Default: Behavior{ErrRate: 1, ErrStatus: 429}})
		check(c.fault, 429)
		if st := s.Stats(); st.ByModel["m1"].Requests != 2 {
			t.Errorf("%s: %+v", c.path, st.ByModel)
		}
	}
}
