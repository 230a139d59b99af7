package actors

import (
	"slices"

	"github.com/penstock/penstock/domain/catalog"
)

// knows says that the actor was told exactly this before, so that a change of one key of many is told to one actor only.
// Resources are never changed in place: what is the same pointer is the same, and what is not is told again.
func (r *callerRef) knows(u *catalog.User, keys []catalog.Key) bool {
	if !r.told || (r.user == nil) != (u == nil) || len(r.keys) != len(keys) {
		return false
	}
	if u != nil && (r.user.Slots != u.Slots || r.user.Limits != u.Limits || r.user.Budget != u.Budget || r.user.Overdraft != u.Overdraft) {
		return false
	}
	for i := range keys {
		if !sameKey(&r.keys[i], &keys[i]) {
			return false
		}
	}
	return true
}

// sameKey compares what actors of callers look at.
func sameKey(a, b *catalog.Key) bool {
	return a.ID == b.ID && a.User == b.User && a.Group == b.Group && a.Slots == b.Slots && a.Limits == b.Limits && a.Budget == b.Budget &&
		a.MaxIPs == b.MaxIPs && a.IPWindow == b.IPWindow
}

// moved are the keys that a caller had before and another one has now. The first serves them until the other is found: it may take
// a while until that knows what was spent before.
func moved(before, own, all []catalog.Key) []catalog.Key {
	stays := make(map[string]bool, len(own))
	for i := range own {
		stays[own[i].ID] = true
	}
	var moving []catalog.Key
	for _, was := range before {
		if !stays[was.ID] && slices.ContainsFunc(all, func(k catalog.Key) bool { return k.ID == was.ID }) {
			moving = append(moving, was)
		}
	}
	return moving
}

// take notes where the actor of a caller is found.
func (is *directory) take(r *callerRef) {
	is.callers[r.id], is.rated = r, is.rated || r.rated
	for i := range r.keys {
		is.keys[r.keys[i].ID] = r
	}
}
