package failure

import (
	"time"

	"github.com/penstock/penstock/domain/catalog"
)

// End is what the client gets for a request that no attempt served. Exactly one of the two is set.
type End struct {
	PassLast bool    // the last upstream's answer unchanged, with its status
	Refusal  Refusal // else this
}

// Exhausted is the end after the last attempt. How is one of catalog's OnExhausted values; answered says that the last
// attempt has an HTTP answer that can be passed on; retryAfter is the upstream's, 0 when it gave none. A verdict
// without a ClientCode passes the answer under every policy: it is about the caller's request.
func Exhausted(how string, last Verdict, answered bool, retryAfter time.Duration) End {
	if answered && (last.ClientCode == "" || how == catalog.OnExhaustedLastAnswer && last.mayPass()) {
		return End{PassLast: true}
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
