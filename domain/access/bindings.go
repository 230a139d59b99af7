package access

import (
	"net/netip"
	"time"
)

// Bindings is the addresses from which one key is used (D39, D52). Known ones come in; a new one only while there are
// fewer than the most. IPv6 addresses of one /64 are one. Memory is bounded by the most.
type Bindings struct {
	most   int           // 0: no limit, nothing is kept
	window time.Duration // an address counts for so long after its last use; 0: for ever
	known  []binding
}

type binding struct {
	address netip.Addr
	used    time.Time
	told    time.Time // of the newest fact about it
}

// NewBindings makes one that knows no address.
func NewBindings(most int, window time.Duration) *Bindings {
	return &Bindings{most: most, window: window}
}

// Reconfigure sets other bounds. Addresses that are known beyond a smaller one stay known.
func (b *Bindings) Reconfigure(most int, window time.Duration) { b.most, b.window = most, window }

// Use says whether an address may come in at a time. When it says tell, the fact that the key is bound to it must be
// stored: it is new, or the fact is older than a quarter of the window, so that after a restart no address that is in
// use is forgotten.
func (b *Bindings) Use(address netip.Addr, now time.Time) (tell, ok bool) {
	if b.most == 0 {
		return false, true
	}
	if address = Site(address); !address.IsValid() {
		return false, false
	}
	b.forget(now)
	for i := range b.known {
		if k := &b.known[i]; k.address == address {
			k.used = later(k.used, now)
			if b.window > 0 && now.Sub(k.told) > b.window/4 {
				k.told, tell = now, true
			}
			return tell, true
		}
	}
	if len(b.known) >= b.most {
		return false, false
	}
	b.known = append(b.known, binding{address, now, now})
	return true, true
}

// Bind folds the fact that an address was bound at a time.
func (b *Bindings) Bind(address netip.Addr, at time.Time) { b.add(binding{Site(address), at, at}) }

// Inherit takes over what others know of the same key.
func (b *Bindings) Inherit(from *Bindings) {
	for _, k := range from.known {
		b.add(k)
	}
}

func (b *Bindings) add(is binding) {
	for i := range b.known {
		if k := &b.known[i]; k.address == is.address {
			k.used, k.told = later(k.used, is.used), later(k.told, is.told)
			return
		}
	}
	b.known = append(b.known, is)
}

func (b *Bindings) forget(now time.Time) {
	if b.window == 0 {
		return
	}
	kept := b.known[:0]
	for _, k := range b.known {
		if now.Sub(k.used) < b.window {
			kept = append(kept, k)
		}
	}
	b.known = kept
}

// Opens is when the next address is forgotten, so that another one may come in; zero when none ever is.
func (b *Bindings) Opens() time.Time {
	var first time.Time
	if b.window == 0 {
		return first
	}
	for _, k := range b.known {
		if at := k.used.Add(b.window); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// Each calls yield for every address with its last use.
func (b *Bindings) Each(yield func(netip.Addr, time.Time) bool) {
	for _, k := range b.known {
		if !yield(k.address, k.used) {
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Bound: a key is used from an address, which is new or was told long ago. It is folded by Bind at the time of the fact.
type Bound struct {
	Key     string     `json:"key"`
	Address netip.Addr `json:"address"` // as Site gives it
}
