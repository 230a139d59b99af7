package penstock_test

import (
	"testing"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/domain/catalog"
)

// §3 rows 1, 8, 9; D16, D48: the profiles differ in what follows a refused credential and in what the client is told when nobody
// can serve it; a setting of the operator counts more, also after a restart.
func TestProfilesAreOtherDefaults(t *testing.T) {
	for _, c := range []struct {
		profile         string
		refused, failed int // status behind a 401, and when all fail with 500
	}{
		{catalog.DefaultProfile, 200, 503},
		{"autorouter", 200, 503},
		{"sub2api", 200, 503},
		{"orchestrator", 502, 502},
		{"gproxy", 200, 500},
	} {
		t.Run(c.profile, func(t *testing.T) {
			r := newRig(t, func(o *penstock.Config) { o.Profile = c.profile })
			refuses, fails := fixed(), fixed()
			refuses.ErrRate, refuses.ErrStatus = 1, 401
			fails.ErrRate, fails.ErrStatus = 1, 500
			upstream := func(model string, priority int) map[string]any {
				return map[string]any{"priority": priority, "model_rules": []map[string]any{{"type": "exact", "value": model}}}
			}
			r.upstream("refuses", refuses, upstream("a", 0))
			r.upstream("serves", fixed(), upstream("a", 1))
			first, second := r.upstream("fails", fails, upstream("b", 0)), r.upstream("fails-too", fails, upstream("b", 1))
			key := r.key("team", nil)
			ask := func(model string) int {
				resp, _ := r.post("/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`, "Authorization", key)
				return resp.StatusCode
			}
			if got := ask("a"); got != c.refused {
				t.Errorf("behind a refused credential: %d", got)
			}
			if got := ask("b"); got != c.failed {
				t.Errorf("nobody could serve it: %d", got)
			}
			if n := first.Stats().All.Requests; n != 1 || second.Stats().All.Requests != n {
				t.Errorf("%d and %d calls", n, second.Stats().All.Requests)
			}
			r.apply(map[string]any{"kind": "setting", "name": "on_exhausted", "value": "bad_gateway"})
			r.close()
			r.open()
			if got := ask("b"); got != 502 {
				t.Errorf("as the operator has it: %d", got)
			}
		})
	}
}
