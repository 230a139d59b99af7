package actors

import (
	"net/http"
	"strings"

	"github.com/penstock/penstock/domain/account"
)

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
func (l *life) passing() []Header {
	l.headers = l.paper.head.take()[:0]
	l.way.heard.Forget()
	l.in.Headers(l.passOn)
	return l.headers
}

// passOn takes one header of an upstream's answer.
func (l *life) passOn(name, value []byte) {
	shown, known := commonNames[string(name)]
	if !known {
		l.way.heard.Take(name, value, l.now)
		lower := strings.ToLower(string(name))
		if isHidden(lower) {
			return
		}
		shown = http.CanonicalHeaderKey(lower)
	}
	if shown != "" {
		l.headers = append(l.headers, Header{Name: shown, Value: textValue(value)})
	}
}

// quota is what the headers of the present answer say of the account's limits, once: later it may be old news.
func (l *life) quota() account.Quota {
	q := l.way.heard.Quota()
	l.way.heard.Forget()
	return q
}

// commonNames are the names that most answers have, as the client gets them; "": it does not. They cost no allocation.
var commonNames = map[string]string{
	"Content-Type": "Content-Type", "Cache-Control": "Cache-Control", "Request-Id": "Request-Id",
	"Content-Length": "", "Date": "", "Server": "", "Transfer-Encoding": "", "Connection": "", "X-Request-Id": "", "Set-Cookie": "",
}

// textValue is a value as a string, without an allocation for the types of most answers.
func textValue(b []byte) string {
	switch string(b) {
	case "application/json":
		return "application/json"
	case "text/event-stream":
		return "text/event-stream"
	case "text/event-stream; charset=utf-8":
		return "text/event-stream; charset=utf-8"
	}
	return string(b)
}
