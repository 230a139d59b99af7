// Package access is what decides who comes in beside the key: addresses, hours, how many addresses at once, the program
// that calls, and how often an address may fail to authenticate. Pure machines and checks: no clock, no goroutines, no
// locks; what mutates is called from one goroutine.
package access

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Code is why somebody is not let in; the values are codes of the table of refusals. "" lets in.
type Code string

// The codes.
const (
	IPDenied     Code = "IP_DENIED"
	OutsideHours Code = "OUTSIDE_HOURS"
)

// Rules are those of one key, checked after authentication (D35, D51). A nil pointer has none. They are immutable and
// safe for any number of readers.
type Rules struct {
	IPs    *IPs
	Curfew *Curfew
}

// Check says whether an address may come in at a time; until is when the hours open again, zero for any other refusal.
// It does not allocate.
func (r *Rules) Check(address netip.Addr, now time.Time) (no Code, until time.Time) {
	switch {
	case r == nil:
	case !r.IPs.Allows(address):
		return IPDenied, time.Time{}
	case r.Curfew != nil && r.Curfew.Closed(now):
		return OutsideHours, r.Curfew.Opens(now)
	}
	return "", time.Time{}
}

// IPs is a list of who may come in and one of who may not. nil lets everybody in.
type IPs struct {
	allow, deny ranges
	closed      bool
}

// NoIPs lets nobody in.
func NoIPs() *IPs { return &IPs{closed: true} }

// ParseIPs reads addresses and ranges. An empty allow list allows every address that is not denied. The error names the
// first that is none.
func ParseIPs(allow, deny []string) (*IPs, error) {
	var l IPs
	for _, side := range [...]struct {
		into *ranges
		list []string
	}{{&l.allow, allow}, {&l.deny, deny}} {
		for _, s := range side.list {
			p, err := ParsePrefix(s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			side.into.add(p)
		}
	}
	return &l, nil
}

// Allows says whether an address may come in: the allow list is asked first, then the deny list (D36). An address that is
// not known is not let in.
func (l *IPs) Allows(a netip.Addr) bool {
	if l == nil {
		return true
	}
	a = Plain(a)
	return !l.closed && a.IsValid() && (l.allow.empty() || l.allow.has(a)) && !l.deny.has(a)
}

// Plain is the address without a zone, and an IPv4 address that is written as IPv6 as what it is.
func Plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// Site is what counts as one address: an IPv4 address, or the /64 of an IPv6 address, which one host has to itself.
func Site(a netip.Addr) netip.Addr {
	if a = Plain(a); a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

var (
	errAddress = errors.New("is no IP address")
	errZone    = errors.New("must not have a zone")
	errMapped  = errors.New("mixes IPv4 and IPv6")
)

// ParsePrefix reads an address (a range of one) or a range. Bits behind the length are dropped, and an IPv4 range that is
// written as IPv6 (::ffff:10.0.0.0/104) becomes what it is.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			return netip.Prefix{}, errAddress
		case a.Zone() != "":
			return netip.Prefix{}, errZone
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, errMapped
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// ranges is a set of ranges: one look-up for each length that is in it. The zero value is empty.
type ranges struct {
	of     map[netip.Prefix]struct{}
	v4, v6 []int // lengths
}

func (r *ranges) empty() bool { return len(r.of) == 0 }

func (r *ranges) add(p netip.Prefix) {
	if r.of == nil {
		r.of = map[netip.Prefix]struct{}{}
	}
	r.of[p] = struct{}{}
	lengths := &r.v6
	if p.Addr().Is4() {
		lengths = &r.v4
	}
	for _, n := range *lengths {
		if n == p.Bits() {
			return
		}
	}
	*lengths = append(*lengths, p.Bits())
}

func (r *ranges) has(a netip.Addr) bool {
	lengths := r.v6
	if a.Is4() {
		lengths = r.v4
	}
	for _, n := range lengths {
		p, _ := a.Prefix(n)
		if _, ok := r.of[p]; ok {
			return true
		}
	}
	return false
}
