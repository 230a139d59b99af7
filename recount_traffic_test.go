package penstock_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"

	"github.com/penstock/penstock/cmd/mockllm/simulator"
)

// recountRig is a gateway with all that the traffic needs: a faulty upstream, a sound one, and one that is cut when clients go.
func (r *rig) recountRig() {
	faulty, sound, hasty := simulator.Healthy(), simulator.Healthy(), simulator.Healthy()
	for _, b := range []*simulator.Behavior{&faulty, &sound, &hasty} {
		b.Chunks, b.FlushEvery, b.FaultAfter = 6, 2, 3
	}
	faulty.ErrRate, faulty.ResetRate, faulty.TruncRate, faulty.MidstreamErrRate, faulty.NoContentRate, faulty.FailedRate = .1, .04, .08, .08, .06, .06
	hasty.ChunkMs = 2
	for id, b := range map[string]simulator.Behavior{"faulty": faulty, "sound": sound, "hasty": hasty} {
		m := recountUpstreams[id]
		spec := map[string]any{"multipliers": map[string]any{"input": m[0], "output": m[1]}, "breaker": map[string]any{"failures": 1_000_000},
			"on_disconnect": "drain"}
		if id == "hasty" {
			spec["on_disconnect"] = "cancel"
		}
		r.upstream(id, b, spec)
	}
	for id, multiplier := range recountGroups {
		if id != "" {
			r.apply(map[string]any{"kind": "group", "id": id, "upstreams": []string{"faulty", "sound", "hasty"}, "multiplier": multiplier})
		}
	}
	for id, group := range recountKeys {
		more := map[string]any{}
		if group != "" {
			more["group"] = group
		}
		if factor := recountFactors[id]; factor != "" {
			more["multiplier"] = factor
		}
		r.key(id, more)
	}
	for _, t := range recountTariffs {
		doc := map[string]any{"kind": "price"}
		for k, v := range t {
			doc[k] = v
		}
		r.apply(doc)
	}
}

// recountTraffic sends n requests of all kinds from number first on, some of whose clients go away, and tells what was asked.
func (r *rig) recountTraffic(first, n int) map[string]asked {
	var mu sync.Mutex
	all := map[string]asked{}
	var group sync.WaitGroup
	next := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range next {
				a := r.recountCall(i)
				mu.Lock()
				all[a.id] = a
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- first + i
	}
	close(next)
	group.Wait()
	return all
}

func (r *rig) recountCall(i int) asked {
	d := rand.New(rand.NewPCG(5, uint64(i)))
	a := asked{id: fmt.Sprintf("q%d", i), key: []string{"plain", "paying", "saving", "own", "both"}[d.IntN(5)], model: recountModels[d.IntN(len(recountModels))]}
	stream := d.IntN(100) < 70
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"max_tokens":4000,"messages":[{"role":"user","content":"[rid:%s]%s"}],"input":"x","contents":[]}`,
		a.model, stream, a.id, chosen(d))
	path := []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/" + a.model}[d.IntN(4)]
	if strings.HasPrefix(path, "/v1beta") {
		path += ":generateContent"
		if stream {
			path = strings.Replace(path, ":generate", ":streamGenerate", 1) + "Content?alt=sse"
			path = strings.Replace(path, "ContentContent", "Content", 1)
		}
	}
	a.body = len(body)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+r.gw.Addr()+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", r.secret[a.key])
	req.Header.Set("X-Client-Request-Id", a.id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	if stream && d.IntN(100) < 12 { // goes away after the first bytes
		_, _ = io.ReadFull(resp.Body, make([]byte, 40))
		return a
	}
	_, _ = io.Copy(io.Discard, resp.Body) // broken ones too
	return a
}

// chosen is a usage that the upstream is asked to report.
func chosen(d *rand.Rand) string {
	n := func(most int) int { return d.IntN(most + 1) }
	prompt, out := []int{200 + n(1500), 2000, 2001, 8000, 3000 + n(9000)}[d.IntN(5)], 600+n(2000)
	text := fmt.Sprintf("[usage:prompt_tokens=%d,out_tokens=%d", prompt, out)
	for _, part := range []struct {
		name string
		most int
		odds int
	}{
		{"cached_tokens", prompt / 4, 50}, {"reasoning_tokens", 200, 40}, {"audio_input_tokens", prompt / 8, 15},
		{"audio_output_tokens", 100, 15}, {"image_input_tokens", prompt / 8, 15}, {"image_output_tokens", 100, 15},
		{"web_searches", 3, 15}, {"file_searches", 2, 15}, {"images", 2, 10},
	} {
		if d.IntN(100) < part.odds {
			text += fmt.Sprintf(",%s=%d", part.name, n(part.most))
		}
	}
	if d.IntN(100) < 40 {
		write := n(prompt / 4)
		text += fmt.Sprintf(",cache_write_tokens=%d,cache_write_1h_tokens=%d", write, n(write))
	}
	if tier := []string{"", "flex", "priority", "default", "batch"}[d.IntN(5)]; tier != "" {
		text += ",service_tier=" + tier
	}
	return text + "]"
}
