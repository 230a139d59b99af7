package proxy

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
)

// peer is the address at the other end of the connection.
func peer(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return access.Plain(t.AddrPort().Addr())
	}
	return netip.Addr{}
}

// client is the address of the client: the peer, unless that is a proxy that the operator trusts. Then it is the last address
// of X-Forwarded-For that is no such proxy: each wrote down who had asked it, and what stands before that is only claimed. It is
// not valid when a trusted proxy has written what is no address.
func client(ctx *fasthttp.RequestCtx, at netip.Addr, proxies *access.IPs) netip.Addr {
	if proxies == nil || !proxies.Allows(at) {
		return at
	}
	lines := ctx.Request.Header.PeekAll("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0; i-- {
		hops := strings.Split(text(lines[i]), ",")
		for k := len(hops) - 1; k >= 0; k-- {
			hop, ok := hopOf(strings.TrimSpace(hops[k]))
			if !ok {
				return netip.Addr{}
			}
			if at = hop; !proxies.Allows(at) {
				return at
			}
		}
	}
	return at
}

// hopOf reads an address, which some proxies write with a port.
func hopOf(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return access.Plain(a), true
	}
	a, err := netip.ParseAddrPort(s)
	return access.Plain(a.Addr()), err == nil
}

// guard counts failed authentications by address.
type guard struct {
	mu       sync.Mutex
	throttle *access.Throttle
	until    atomic.Int64 // microseconds; from then on nobody is blocked, unless somebody fails again
}

// blocked is until when the address may not try; zero when it may.
func (g *guard) blocked(a netip.Addr, p access.ThrottlePolicy, now time.Time) time.Time {
	if g.until.Load() <= now.UnixMicro() {
		return time.Time{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under(p).Blocked(a, now)
}

// failed counts a failure.
func (g *guard) failed(a netip.Addr, p access.ThrottlePolicy, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := g.under(p).Failed(a, now); !until.IsZero() {
		g.until.Store(max(g.until.Load(), until.UnixMicro()))
	}
}

// under is the throttle with the policy in force.
func (g *guard) under(p access.ThrottlePolicy) *access.Throttle {
	if g.throttle == nil {
		g.throttle = access.NewThrottle(p)
	}
	g.throttle.Reconfigure(p)
	return g.throttle
}

// identify finds the key of a secret. An address that failed too often is refused unread, unless the key was used within the
// last minutes: who shares an address with somebody who guesses goes on working, and guessing gets nobody anywhere.
func (s *Server) identify(snap *catalog.Snapshot, call *actors.Call, secret []byte) (*catalog.Key, *failure.Refusal) {
	p := snap.Settings.Guards.Throttle()
	if until := s.guard.blocked(call.Address, p, call.At); !until.IsZero() {
		if key := s.keys.recall(snap, secret, call.At); key != nil {
			return key, nil
		}
		r := failure.New(failure.AuthThrottled, "").WithUntil(until, call.At)
		return nil, &r
	}
	if key := s.keys.find(snap, secret, call.At); key != nil {
		s.keys.used(key.ID, call.At)
		return key, nil
	}
	s.guard.failed(call.Address, p, call.At)
	r := failure.New(failure.InvalidAPIKey, "")
	return nil, &r
}

// admits checks what the key says of addresses and hours.
func admits(snap *catalog.Snapshot, call *actors.Call) *failure.Refusal {
	no, until := snap.Access(call.Key.ID).Check(call.Address, call.At)
	if no == "" {
		return nil
	}
	r := failure.New(string(no), "").WithUntil(until, call.At)
	return &r
}
