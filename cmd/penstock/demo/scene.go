package demo

import "github.com/penstock/penstock/cmd/mockllm/simulator"

// behaviors are the simulated upstreams: one that fails often, one that is well, one that is slow.
func behaviors() map[string]simulator.Config {
	well := simulator.Healthy()
	well.TTFBMs, well.TTFBJitterMs, well.Chunks, well.RespBytes = 8, 12, 12, 200
	well.PromptTokens, well.OutTokens, well.CachedTokens = 1200, 180, 400
	shaky := well
	shaky.ErrRate, shaky.ErrStatus, shaky.ResetRate, shaky.EmptyRate = 0.2, 503, 0.08, 0.08
	slow := well
	slow.TTFBMs, slow.TTFBJitterMs = 60, 30
	return map[string]simulator.Config{"steady": {Default: well}, "shaky": {Default: shaky}, "small": {Default: slow}}
}

var capabilities = []string{"openai_chat_compatible", "openai_responses", "anthropic_messages", "gemini_native_generate"}

// resources are what an operator would apply.
func (s *stage) resources() []map[string]any {
	upstream := func(id string, priority int, models []string, more map[string]any) map[string]any {
		rules := []map[string]any{}
		for _, m := range models {
			rules = append(rules, map[string]any{"type": "exact", "value": m})
		}
		u := map[string]any{
			"kind": "upstream", "id": id, "base_url": s.upstreams[id].URL(), "capabilities": capabilities, "priority": priority, "model_rules": rules,
		}
		for k, v := range more {
			u[k] = v
		}
		return u
	}
	account := func(upstream string) map[string]any {
		return map[string]any{"kind": "account", "id": upstream + "-1", "upstream": upstream, "api_key": "sk-simulated-" + upstream}
	}
	price := func(model, in, out, cached string) map[string]any {
		return map[string]any{"kind": "price", "model": model, "input": in, "output": out, "cached_input": cached}
	}
	usual := []string{"gpt-demo", "claude-demo", "gemini-demo"}
	return []map[string]any{
		upstream("shaky", 0, usual, map[string]any{"breaker": map[string]any{"failures": 1000}}), account("shaky"),
		upstream("steady", 1, usual, nil), account("steady"),
		upstream("small", 0, []string{"slow-demo"}, map[string]any{
			"slots": 2, "queue": map[string]any{"enabled": true, "timeout": "20s", "max_length": 12},
		}), account("small"),
		{"kind": "user", "id": "alice"}, {"kind": "user", "id": "bob"},
		price("gpt-demo", "2.5", "15", "0.25"), price("claude-demo", "3", "15", "0.3"),
		price("gemini-demo", "1.25", "10", "0.125"), price("slow-*", "0.1", "0.4", "0.01"),
	}
}

func keys() []map[string]any {
	return []map[string]any{
		{"id": "alice-laptop", "user": "alice", "access": "unrestricted"},
		{"id": "bob-ci", "user": "bob", "access": "unrestricted", "models": []string{"gpt-demo", "claude-demo", "slow-demo"}},
	}
}
