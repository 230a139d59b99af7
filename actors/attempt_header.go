package actors

import (
	"net/http"
	"strings"
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
