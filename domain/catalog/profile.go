package catalog

import (
	"maps"
	"slices"
)

// DefaultProfile changes no default.
const DefaultProfile = "penstock"

// profiles are sets of other defaults, after gateways whose users know their ways. A profile does nothing else: every setting
// can still be set.
var profiles = map[string]map[string]string{
	DefaultProfile: nil,
	// An account that is blocked is never asked; up to ten upstreams per request.
	"autorouter": {"failover.max_attempts": "10", "scheduling.all_blocked": "reject"},
	// Accounts are weighed by many factors; an address is blocked late.
	"sub2api": {
		"failover.max_attempts": "10", "scheduling.all_blocked": "reject", "scheduling.strategy": StrategyScore,
		"auth.failures": "120", "auth.window": "1m", "auth.block": "1m",
	},
	// Credentials that are refused end the request, and little is tried; who guesses keys is blocked soon.
	"orchestrator": {
		"failover_on_auth": "false", "failover.max_attempts": "3", "on_exhausted": OnExhaustedBadGateway,
		"scheduling.all_blocked": "reject", "scheduling.strategy": StrategyLRU, "auth.failures": "5", "auth.window": "1m",
	},
	// Tiers and health come before a session's account, and the last answer goes to the client as it is.
	"gproxy": {
		"on_exhausted": OnExhaustedLastAnswer, "affinity.mode": AffinityLeadingRun, "scheduling.strategy": StrategyRoundRobin,
	},
}

// Profiles are the names of the profiles, the default first.
func Profiles() []string {
	names := slices.Sorted(maps.Keys(profiles))
	return slices.Concat([]string{DefaultProfile}, slices.DeleteFunc(names, func(n string) bool { return n == DefaultProfile }))
}

// ProfileSettings are the defaults of a profile; false: there is none of that name.
func ProfileSettings(name string) (Settings, bool) {
	s := DefaultSettings()
	set, ok := profiles[name]
	for setting, value := range set {
		if _, _, err := s.put(setting, value); err != nil {
			panic("catalog: profile " + name + ": " + setting + ": " + err.Error())
		}
	}
	return s, ok
}
