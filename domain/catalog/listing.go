package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Models lists the models that a key may ask for by name, sorted: those that the rules of its upstreams name and those
// that they rewrite. An upstream that takes every model adds the ones that people set a price for, and those of a
// synced list for it alone; other lists say nothing of what an upstream serves. Expressions name nothing.
func (s *Snapshot) Models(k *Key) []string {
	found := map[string]bool{}
	grant := s.Grant(k)
	for _, u := range s.upstreams {
		if !u.Active || !grant.Upstream(u) {
			continue
		}
		for _, r := range u.ModelRules {
			if r.Type != "regex" && u.declares(r.Value) {
				found[r.Value] = true
			}
		}
		for name := range u.UpstreamModels {
			if !u.models.explicit || u.Match(name).Matched {
				found[name] = true
			}
		}
		if !u.models.explicit {
			for key := range s.prices.manual.exact {
				if key.upstream == "" || key.upstream == u.ID {
					found[key.model] = true
				}
			}
			for key := range s.prices.synced.exact {
				if key.upstream == u.ID {
					found[key.model] = true
				}
			}
		}
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return !k.allowsModel(name) })
	return slices.SortedFunc(maps.Keys(found), strings.Compare)
}

// Users is all users in force, sorted by id.
func (s *Snapshot) Users() []User {
	list := make([]User, 0, len(s.users))
	for _, id := range slices.Sorted(maps.Keys(s.users)) {
		list = append(list, *s.users[id])
	}
	return list
}

// Keys is all keys in force, sorted by id; revoked and expired ones too.
func (s *Snapshot) Keys() []Key {
	list := make([]Key, 0, len(s.keys.byID))
	for _, id := range slices.Sorted(maps.Keys(s.keys.byID)) {
		list = append(list, *s.keys.byID[id])
	}
	return list
}
