package actors

import (
	"net/http"
	"strings"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/request"
)

// stopped ends the request with the failure of an attempt that no other could mend: the upstream's own answer, or our
// refusal when it gave none.
func (l *life) stopped(t *tried) Answer {
	s := &request.Settled{
		Outcome: request.FailedOutcome, Status: t.ClientStatus, Code: t.ClientCode, Stage: failure.StageResponse, Reason: string(t.class),
	}
	if t.status == 0 || t.instream || t.ClientCode != "" && l.snap.Settings.OnExhausted != catalog.OnExhaustedLastAnswer {
		r := t.refusal()
		s.Status, s.Code, s.Stage = r.Status, r.Code, r.Stage
		l.settled(s, t)
		return refusalAnswer(l.c, r, true)
	}
	s.Status = t.status
	l.settled(s, t)
	return Answer{Status: t.status, Headers: t.headers, Body: t.body}
}

// refusal is our own answer for a failure.
func (t *tried) refusal() failure.Refusal {
	code := t.ClientCode
	if code == "" {
		code = failure.UpstreamHTTPError
	}
	r := failure.New(code, string(t.class)).WithRetry(t.retryAfter)
	if t.instream && t.ClientStatus != 0 {
		r.Status = t.ClientStatus
	}
	if t.evidence != "" && t.class == failure.CallerFault {
		r.Message = t.evidence
	}
	return r
}

// exhausted ends the request when every attempt has failed and none is left.
func (l *life) exhausted() Answer {
	t := l.last
	end := failure.Exhausted(l.snap.Settings.OnExhausted, t.Verdict, t.status != 0 && !t.instream, t.retryAfter)
	if end.PassLast {
		return l.stopped(t)
	}
	r := end.Refusal
	l.settled(&request.Settled{Outcome: request.FailedOutcome, Status: r.Status, Code: r.Code, Reason: r.Reason, Stage: r.Stage}, t)
	return refusalAnswer(l.c, r, true)
}

// hidden are the headers of an upstream's answer that the client does not get: those of the connection, those that
// we set, and those that show the operator's account.
var hidden = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-authenticate": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true, "content-length": true, "date": true, "server": true, "set-cookie": true,
	"x-request-id": true, "alt-svc": true, "via": true, "strict-transport-security": true, "nel": true, "report-to": true,
	"openai-organization": true, "openai-project": true, "anthropic-organization-id": true,
}

func isHidden(name string) bool {
	return hidden[name] || strings.HasPrefix(name, "anthropic-ratelimit-") || strings.HasPrefix(name, "x-ratelimit-") ||
		strings.HasPrefix(name, "access-control-") || strings.HasPrefix(name, "cf-") || strings.HasPrefix(name, "x-envoy-")
}

// passing are the headers of an upstream's answer that the client gets.
func passing(in Incoming) []Header {
	hs := make([]Header, 0, 8)
	in.Headers(func(name, value []byte) {
		lower := lowerName(name)
		if !isHidden(lower) {
			hs = append(hs, Header{Name: http.CanonicalHeaderKey(lower), Value: string(value)})
		}
	})
	return hs
}

// lowerName is name in lower case, without an allocation for the usual names.
func lowerName(name []byte) string {
	if s, ok := commonNames[string(name)]; ok {
		return s
	}
	return strings.ToLower(string(name))
}

var commonNames = map[string]string{
	"Content-Type": "content-type", "content-type": "content-type", "Content-Length": "content-length", "Date": "date",
	"Server": "server", "Transfer-Encoding": "transfer-encoding", "Cache-Control": "cache-control", "Connection": "connection",
	"X-Request-Id": "x-request-id", "x-request-id": "x-request-id", "Request-Id": "request-id", "request-id": "request-id",
}
