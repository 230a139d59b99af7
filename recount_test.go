package penstock_test

import (
	"encoding/json"
	"flag"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

var recounted = flag.Int("recount", 1000, "requests whose bill is added up by hand")

// What the callers have and what the upstreams ask, for the second opinion as for the gateway.
var (
	recountGroups    = map[string]string{"": "1", "dear": "1.5", "cheap": "0.3333"}                                   // multipliers
	recountKeys      = map[string]string{"plain": "", "paying": "dear", "saving": "cheap", "own": "", "both": "dear"} // their groups
	recountFactors   = map[string]string{"own": "1.1", "both": "0.8571"}                                              // of their own
	recountUpstreams = map[string][2]string{"faulty": {"1.25", "0.9"}, "sound": {"1", "1"}, "hasty": {"0.77", "1.0001"}}
	recountModels    = []string{"mixed", "listed", "globbed-7", "unpriced"}
	recountTariffs   = tariffs{
		{"model": "mixed", "input": "1.234567", "output": "9.876543", "cached_input": "0.123457", "cache_write_5m": "1.543209",
			"cache_write_1h": "2.469134", "reasoning": "11.111111", "audio_input": "32.1", "audio_output": "64.000003", "image_input": "5.5",
			"image_output": "40", "per_request": "0.000123", "per_image": "0.011", "per_web_search": "0.010001", "per_file_search": "0.0025",
			"tiers": []map[string]any{
				{"above_input_tokens": 2000, "input": "2.469134", "output": "14.8"},
				{"above_input_tokens": 8000, "inclusive": true, "input": "4.9", "cached_input": "0.49"},
			},
			"service_tiers": map[string]any{
				"flex":     map[string]any{"input": "0.617283", "output": "4.938271"},
				"priority": map[string]any{"input": "2.2", "tiers": []map[string]any{{"above_input_tokens": 2000, "input": "4.4"}}},
			}},
		{"model": "mixed", "upstream": "sound", "input": "1", "output": "7.000001", "per_web_search": "0.02"},
		{"model": "listed", "input": "0.333333", "output": "0.666667"},
		{"model": "listed", "source": "synced", "input": "0.3", "output": "0.6", "cached_input": "0.03",
			"tiers": []map[string]any{{"above_input_tokens": 3000, "input": "0.9", "output": "1.8"}}},
		{"model": "globbed-*", "source": "synced", "input": "0.000007", "output": "3"},
	}
)

// asked is what a client sent and did.
type asked struct {
	id, key, model string
	body           int // bytes
}

// sum is what the second opinion, or the bill, has under one key, model and upstream.
type sum struct {
	caller, upstream   big.Int
	used               spending
	requests, unpriced int64
}

// Show: the bill of mixed requests, added up from the upstreams' own records and the prices alone, is the gateway's to the last
// digit, by key, model and upstream; and it is the same after the read models were made again. Pains 65-67, 69; D44-D52.
func TestTheBillIsWhatTheUpstreamsOwnRecordsAddUpTo(t *testing.T) {
	r := newRig(t, nil)
	r.recountRig()
	sent := r.recountTraffic(0, *recounted)
	for n := len(sent); len(r.recountLacks()) > 0 && n < 2**recounted+1000; n += 100 { // which call a fault meets is left to chance
		maps.Copy(sent, r.recountTraffic(n, 100))
	}
	r.settled(sent)
	want := r.recount(sent)
	require.Empty(t, r.recountLacks(), "the traffic is as mixed as it is meant to be")
	compare := func() {
		t.Helper()
		have := r.billed()
		for at, w := range want {
			h := have[at]
			if h == nil {
				t.Errorf("%s: not billed: %+v", at, w)
				continue
			}
			if h.caller.Cmp(&w.caller) != 0 || h.upstream.Cmp(&w.upstream) != 0 || h.requests != w.requests || h.unpriced != w.unpriced {
				t.Errorf("%s: billed %s (upstream %s) for %d requests (%d unpriced), it adds up to %s (%s) for %d (%d)", at, dollars(&h.caller),
					dollars(&h.upstream), h.requests, h.unpriced, dollars(&w.caller), dollars(&w.upstream), w.requests, w.unpriced)
			}
			for class, n := range w.used {
				if h.used[class] != n {
					t.Errorf("%s: %d %s, it adds up to %d", at, h.used[class], class, n)
				}
			}
			if h.caller.Cmp(&w.caller) != 0 || h.upstream.Cmp(&w.upstream) != 0 {
				r.recountDiffers(at, sent)
			}
		}
		require.Len(t, have, len(want))
	}
	compare()
	r.verify()
	status, body := r.admin("POST", "/api/v1/replay", map[string]any{})
	require.Equal(t, 200, status, "%s", body)
	compare()
}

// recount adds up what the upstreams' records and the tariffs make.
func (r *rig) recount(sent map[string]asked) map[string]*sum {
	all := map[string]*sum{}
	at := func(a asked, upstream string) *sum {
		key := strings.Join([]string{a.key, a.model, upstream}, " ")
		if all[key] == nil {
			all[key] = &sum{used: spending{}}
		}
		return all[key]
	}
	logged, unpriced := r.recountLog(), map[string]bool{}
	for upstream, s := range r.up {
		last := map[string]uint64{} // calls of the requests
		for _, k := range s.Calls() {
			last[k.Request] = max(last[k.Request], k.Seq)
		}
		for _, k := range s.Calls() {
			a, known := sent[k.Request]
			require.True(r.t, known, "%+v", k)
			into := at(a, upstream)
			used, paid := usedBy(k, a.body)
			if cut := logged[k.Request].cut(upstream); cut != nil && k.Seq == last[k.Request] { // it may have written all of it into a connection that was cut
				used = r.unseen(logged[k.Request].Source, cut, k, a.body)
			}
			if used == nil {
				continue
			}
			for class, n := range used {
				into.used[class] += n
			}
			by := recountTariffs.rates(a.model, upstream, k.Usage.ServiceTier, used.input())
			if by == nil {
				unpriced[k.Request] = true
				continue
			}
			m := recountUpstreams[upstream]
			into.upstream.Add(&into.upstream, used.cost(by, m[0], m[1]))
			if paid {
				into.caller.Add(&into.caller, used.cost(by, m[0], m[1], recountGroups[recountKeys[a.key]], recountFactors[a.key]))
			}
		}
	}
	for id, e := range logged {
		if !e.Sent {
			continue
		}
		into := at(sent[id], e.Upstream)
		into.requests++
		if unpriced[id] {
			into.unpriced++
		}
	}
	return all
}

// recountDiffers shows the calls of a sum of which the log tells another usage than their upstream.
func (r *rig) recountDiffers(at string, sent map[string]asked) {
	r.t.Helper()
	logged := r.recountLog()
	for upstream, s := range r.up {
		for _, k := range s.Calls() {
			a := sent[k.Request]
			if strings.Join([]string{a.key, a.model, upstream}, " ") != at {
				continue
			}
			var have spending
			e := logged[k.Request]
			for _, one := range e.Attempts {
				if one.Upstream == upstream && have.input() == 0 {
					have = one.Usage
				}
			}
			used, _ := usedBy(k, a.body)
			if used.input() != have.input() || used["output"] != have["output"] {
				r.t.Logf("%s: upstream %+v, of which %v counts; log %+v", at, k, used, e)
			}
		}
	}
}

// recountLacks is what the traffic is meant to have had and has not.
func (r *rig) recountLacks() (lacks []string) {
	seen, attempts := map[string]int{}, map[string]int{}
	for _, s := range r.up {
		for _, k := range s.Calls() {
			attempts[k.Request]++
			for _, what := range []string{k.Outcome, k.Told, k.Fault, k.Usage.ServiceTier, strings.TrimSuffix(k.Path, k.Model)} {
				seen[what]++
			}
			for what, n := range map[string]int{"1h": k.Usage.CacheWrite1h, "audio": k.Usage.AudioOutput, "files": k.Usage.FileSearches, "images": k.Usage.Images} {
				seen[what] += n
			}
			if attempts[k.Request] > 1 {
				seen["retried"]++
			}
		}
	}
	for _, what := range []string{"completed", "client_aborted", "faulted", "none", "start", "running", "whole", "err_rate", "reset_rate",
		"trunc_rate", "midstream_error_rate", "nocontent_rate", "failed_rate", "flex", "priority", "batch", "1h", "audio", "files", "images", "retried",
		"/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		if seen[what] == 0 {
			lacks = append(lacks, what)
		}
	}
	return lacks
}

// usedBy is what an attempt used: as the upstream told it, a part of that with what has passed, or an estimate of four bytes to a
// token. paid: the caller got something of the answer. nil: nothing that anybody knows of.
func usedBy(k simulator.Call, body int) (used spending, paid bool) {
	guess := int64(k.Content+3) / 4
	u := k.Usage
	in := spending{
		"cached_input": int64(u.Cached), "cache_write_5m": int64(u.CacheWrite - u.CacheWrite1h), "cache_write_1h": int64(u.CacheWrite1h),
		"audio_input": int64(u.AudioInput), "image_input": int64(u.ImageInput),
		"input": int64(u.Prompt - u.Cached - u.CacheWrite - u.AudioInput - u.ImageInput),
	}
	switch {
	case k.Told == "start":
		in["output"] = max(1, guess)
		return in, k.Content > 0
	case k.Told == "whole", k.Told == "running":
		in["output"], in["reasoning"] = int64(u.Output-u.AudioOutput-u.ImageOutput), int64(u.Reasoning)
		in["audio_output"], in["image_output"] = int64(u.AudioOutput), int64(u.ImageOutput)
		in["images"], in["file_searches"] = int64(u.Images), int64(u.FileSearches)
		if k.Told == "whole" || !strings.HasPrefix(k.Path, "/v1beta") { // Gemini names its searches at the end
			in["web_searches"] = int64(u.WebSearches)
		}
		return in, true
	case k.Stream && k.Content > 0:
		return spending{"input": int64(body+3) / 4, "output": guess}, true
	}
	return nil, false
}

// recountEntry is a line of the log.
type recountEntry struct {
	Client   string           `json:"client_request_id"`
	Upstream string           `json:"upstream"`
	State    string           `json:"state"`
	Sent     bool             `json:"did_send_upstream"`
	Source   string           `json:"usage_source"`
	Attempts []recountAttempt `json:"attempts"`
}

// cut is the attempt at the upstream that was given up for a client that had gone, which is always the last one.
func (e recountEntry) cut(upstream string) *recountAttempt {
	if n := len(e.Attempts); n > 0 && e.Attempts[n-1].Upstream == upstream && e.Attempts[n-1].Class == "cancelled" {
		return &e.Attempts[n-1]
	}
	return nil
}

type recountAttempt struct {
	Upstream string           `json:"upstream"`
	Class    string           `json:"class"`
	Usage    map[string]int64 `json:"usage"`
}

func (r *rig) recountLog() map[string]recountEntry {
	all := map[string]recountEntry{}
	for before := ""; ; {
		status, body := r.admin("GET", "/api/v1/requests?limit=1000&before="+before, nil)
		require.Equal(r.t, 200, status, "%s", body)
		var page struct {
			Items []recountEntry `json:"items"`
			Next  string         `json:"next"`
		}
		require.NoError(r.t, json.Unmarshal(body, &page))
		for _, e := range page.Items {
			all[e.Client] = e
		}
		if before = page.Next; before == "" {
			return all
		}
	}
}

// unseen is the usage of an attempt that was cut for a client that had gone: nobody can know how much of it had passed, so that
// the gateway's own mark counts, within what the upstream says it sent.
func (r *rig) unseen(source string, cut *recountAttempt, k simulator.Call, body int) spending {
	have, zero := spending(cut.Usage), true
	for _, n := range have {
		zero = zero && n == 0
	}
	if zero {
		return nil
	}
	most, _ := usedBy(k, body)
	if source == "estimated" {
		require.EqualValues(r.t, (body+3)/4, have["input"])
		require.LessOrEqual(r.t, have["output"], int64(k.Content+3)/4)
	} else if most != nil {
		require.Equal(r.t, most.input(), have.input())
		require.LessOrEqual(r.t, have["output"], most["output"])
	}
	return have
}

// billed is the bill by key, model and upstream.
func (r *rig) billed() map[string]*sum {
	status, body := r.admin("GET", "/api/v1/billing?by=key,model,upstream", nil)
	require.Equal(r.t, 200, status, "%s", body)
	var page struct {
		Items []struct {
			Key, Model, Upstream string
			Requests             int64
			Unpriced             int64 `json:"unpriced_requests"`
			Usage                spending
			Cost                 string
			UpstreamCost         string `json:"upstream_cost"`
		}
	}
	require.NoError(r.t, json.Unmarshal(body, &page))
	all := map[string]*sum{}
	for _, l := range page.Items {
		s := &sum{used: l.Usage, requests: l.Requests, unpriced: l.Unpriced}
		s.caller.Set(units(fraction(l.Cost)))
		s.upstream.Set(units(fraction(l.UpstreamCost)))
		all[strings.Join([]string{l.Key, l.Model, l.Upstream}, " ")] = s
	}
	return all
}
