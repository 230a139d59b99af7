package failure

import (
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// End is what the client gets for a request that no attempt served: the last answer, or a refusal.
type End struct {
	PassLast bool    // the last upstream's answer unchanged, with its status
	Refusal  Refusal // else this
	// RetryAfter is for a passed answer that has no such header of its own, in whole seconds; 0: none. The Refusal has its
	// own.
	RetryAfter time.Duration
}

// Exhausted is the end after the last attempt. How is one of catalog's OnExhausted values; answered says that the last
// attempt has an HTTP answer that can be passed on; retryAfter is when it is worth to come back, 0 when that is not known:
// the soonest reopening of a candidate (Soonest), or else what the last upstream said. A verdict without a ClientCode
// passes the answer under every policy: it is about the caller's request, and no waiting mends that.
func Exhausted(how string, last Verdict, answered bool, retryAfter time.Duration) End {
	if answered && last.ClientCode == "" {
		return End{PassLast: true}
	}
	if answered && how == catalog.OnExhaustedLastAnswer && last.mayPass() {
		return End{PassLast: true, RetryAfter: wholeSeconds(retryAfter)}
	}
	code := last.ClientCode
	if code == "" {
		code = UpstreamHTTPError
	}
	r := New(code, string(last.Class)).WithRetry(retryAfter)
	if how == catalog.OnExhaustedBadGateway && r.Status != 499 && last.Class != Local {
		r.Status = 502
	}
	return End{Refusal: r}
}

// mayPass says that the upstream's answer can stand for the gateway's: an error about the request or the upstream. One
// about our credential cannot: the client would take it for its own key, and it may show parts of ours.
func (v Verdict) mayPass() bool {
	switch v.Class {
	case HTTP429, HTTP4xx, HTTP5xx, Overloaded, Quota, CallerFault:
		return true
	}
	return false
}
