package failure

import (
	"net/http"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/account"
)

// hear reads headers as they come with an answer at t0.
func hear(h *Headroom, pairs ...string) account.Quota {
	h.Forget()
	for i := 0; i < len(pairs); i += 2 {
		h.Take([]byte(http.CanonicalHeaderKey(pairs[i])), []byte(pairs[i+1]), func() time.Time { return t0 })
	}
	return h.Quota()
}

// B50: how much of its limits an account has used, and when that is over, is read from the answers of OpenAI and Anthropic.
func TestAnswersTellHowMuchOfALimitIsUsed_B50(t *testing.T) {
	in := func(d time.Duration) time.Time { return t0.Add(d) }
	for _, c := range []struct {
		name    string
		headers []string
		want    account.Quota
	}{
		{"nothing", nil, account.Quota{}},
		{"other headers", []string{"content-type", "application/json", "x-request-id", "1"}, account.Quota{}},
		{"OpenAI: of two limits the one with less left", []string{
			"x-ratelimit-limit-requests", "500", "x-ratelimit-remaining-requests", "499", "x-ratelimit-reset-requests", "120ms",
			"x-ratelimit-limit-tokens", "30000", "x-ratelimit-remaining-tokens", "7500", "x-ratelimit-reset-tokens", "45s",
		}, account.Quota{Used: 0.75, Until: in(45 * time.Second)}},
		{"in any order", []string{"x-ratelimit-reset-tokens", "6m0s", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-limit-tokens", "10"},
			account.Quota{Used: 1, Until: in(6 * time.Minute)}},
		{"Anthropic", []string{
			"anthropic-ratelimit-requests-limit", "50", "anthropic-ratelimit-requests-remaining", "40", "anthropic-ratelimit-requests-reset", "2026-01-02T03:04:10Z",
			"anthropic-ratelimit-input-tokens-limit", "1000", "anthropic-ratelimit-input-tokens-remaining", "500", "anthropic-ratelimit-input-tokens-reset", "2026-01-02T03:04:35Z",
		}, account.Quota{Used: 0.5, Until: in(30 * time.Second)}},
		{"a subscription's windows lapse", []string{
			"anthropic-ratelimit-unified-status", "allowed",
			"anthropic-ratelimit-unified-5h-utilization", "0.25", "anthropic-ratelimit-unified-5h-reset", "1767326645",
			"anthropic-ratelimit-unified-7d-utilization", "0.5", "anthropic-ratelimit-unified-7d-reset", "1767495845",
		}, account.Quota{Used: 0.5, Until: in(48 * time.Hour), Lapses: in(48 * time.Hour)}},
		{"a window of minutes beside one of days", []string{
			"anthropic-ratelimit-requests-limit", "10", "anthropic-ratelimit-requests-remaining", "1", "anthropic-ratelimit-requests-reset", "2026-01-02T03:04:35Z",
			"anthropic-ratelimit-unified-5h-utilization", "0.25", "anthropic-ratelimit-unified-5h-reset", "1767326645",
		}, account.Quota{Used: 0.9, Until: in(30 * time.Second), Lapses: in(time.Hour)}},
		{"Codex: percent and seconds", []string{"x-codex-primary-used-percent", "12.5", "x-codex-primary-reset-after-seconds", "3600"},
			account.Quota{Used: 0.125, Until: in(time.Hour), Lapses: in(time.Hour)}},
		{"nothing is used", []string{"x-codex-primary-used-percent", "0", "x-codex-primary-reset-after-seconds", "3600"},
			account.Quota{Until: in(time.Hour), Lapses: in(time.Hour)}},
		{"what is left, but not of how much", []string{"x-ratelimit-remaining-tokens", "5", "x-ratelimit-reset-tokens", "1s"}, account.Quota{}},
		{"no word of its end", []string{"x-ratelimit-limit-tokens", "10", "x-ratelimit-remaining-tokens", "5"}, account.Quota{}},
		{"an end in the past", []string{"x-ratelimit-limit-tokens", "10", "x-ratelimit-remaining-tokens", "5", "x-ratelimit-reset-tokens", "2015-01-02T03:04:35Z"}, account.Quota{}},
		{"more left than there is", []string{"x-ratelimit-limit-tokens", "10", "x-ratelimit-remaining-tokens", "50", "x-ratelimit-reset-tokens", "1s"}, account.Quota{Until: in(time.Second)}},
		{"more used than there is", []string{"x-codex-primary-used-percent", "250", "x-codex-primary-reset-after-seconds", "60"}, account.Quota{Used: 1, Until: in(time.Minute), Lapses: in(time.Minute)}},
		{"nonsense", []string{
			"x-ratelimit-limit-tokens", "inf", "x-ratelimit-remaining-tokens", "-1", "x-ratelimit-reset-tokens", "1s",
			"x-ratelimit-limit-requests", "1e999", "x-ratelimit-remaining-requests", "1e999", "x-ratelimit-reset-requests", "1s",
			"x-ratelimit-limit", "0", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "1",
		}, account.Quota{}},
	} {
		var h Headroom
		hear(&h, "x-codex-primary-used-percent", "99", "x-codex-primary-reset-after-seconds", "60") // of the answer before
		got := hear(&h, c.headers...)
		if d := got.Used - c.want.Used; d > 1e-9 || d < -1e-9 || !got.Until.Equal(c.want.Until) || !got.Lapses.Equal(c.want.Lapses) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReadingTheLimitsOfAnAnswerCostsNoAllocation(t *testing.T) {
	h, now := Headroom{}, func() time.Time { return t0 }
	type header struct{ name, value []byte }
	var headers []header
	for _, s := range [][2]string{
		{"Anthropic-Ratelimit-Requests-Limit", "50"}, {"Anthropic-Ratelimit-Requests-Remaining", "40"}, {"Anthropic-Ratelimit-Requests-Reset", "2026-01-02T03:04:10Z"},
		{"X-Ratelimit-Limit-Tokens", "30000"}, {"X-Ratelimit-Remaining-Tokens", "29000"}, {"X-Ratelimit-Reset-Tokens", "2s"}, {"Content-Type", "text/plain"},
	} {
		headers = append(headers, header{[]byte(s[0]), []byte(s[1])})
	}
	used := 0.0
	if n := testing.AllocsPerRun(100, func() {
		h.Forget()
		for i := range headers {
			h.Take(headers[i].name, headers[i].value, now)
		}
		q := h.Quota()
		used = q.Used
	}); n > 0 || used < 0.19 || used > 0.21 {
		t.Errorf("%v allocations, %v used", n, used)
	}
}

// There is a place for every limit of the tables.
func TestEveryLimitHasItsPlace(t *testing.T) {
	if n := len(windows) + len(quotas); n != limitsMax {
		t.Errorf("%d limits, %d places", n, limitsMax)
	}
	for name := range headroomNames {
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s never comes so", name)
		}
	}
}
