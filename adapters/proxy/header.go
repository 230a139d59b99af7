package proxy

import (
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/dialect"
)

// Names of headers as the server has made them canonical, so that they need not be once for each look.
var (
	authorization   = []byte("Authorization")
	clientRequestID = []byte("X-Client-Request-Id")
	googleAPIKey    = []byte("X-Goog-Api-Key")
	origin          = []byte("Origin")
	plainAPIKey     = []byte("X-Api-Key")
	requestID       = []byte("X-Request-Id")
	upgrade         = []byte("Upgrade")
)

// isWithheld says which of the client's headers no upstream sees: its credentials and cookies, those of the connection,
// those of proxies before us, and those that we set.
func isWithheld(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie",
		"Connection", "Keep-Alive", "Te", "Trailer", "Trailers", "Transfer-Encoding", "Upgrade", "Expect",
		"Host", "Content-Length", "Accept-Encoding", "Forwarded", "X-Real-Ip", "True-Client-Ip":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Envoy-") || strings.HasPrefix(name, "X-Vercel-") ||
		strings.HasPrefix(name, "Cf-") || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Fly-")
}

// forwarded are the client's headers that go on, in their order. The strings are valid as long as the request is. A
// header that Connection names belongs to the connection as well. What they tell of the client goes into clues.
func forwarded(list []actors.Header, ctx *fasthttp.RequestCtx, clues *dialect.Clues) []actors.Header {
	h := &ctx.Request.Header
	all, names := forwardedBut(list, h, nil, clues)
	if names {
		*clues = dialect.Clues{}
		all, _ = forwardedBut(list, h, h.PeekAll("Connection"), clues)
	}
	return all
}

// forwardedBut are the headers that go on but for the named ones; names: Connection names some that may be among them.
func forwardedBut(list []actors.Header, h *fasthttp.RequestHeader, named [][]byte, clues *dialect.Clues) (_ []actors.Header, names bool) {
	for k, v := range h.All() {
		name, value := text(k), text(v)
		if isWithheld(name) {
			names = names || name == "Connection" && !strings.EqualFold(value, "keep-alive") // which is withheld itself
			continue
		}
		if listed(named, name) {
			continue
		}
		clues.Header(name, value)
		list = append(list, actors.Header{Name: name, Value: value})
	}
	return list, names
}

// listed says whether one of the comma-separated lists has the name.
func listed(lists [][]byte, name string) bool {
	for _, list := range lists {
		for n := range strings.SplitSeq(text(list), ",") {
			if strings.EqualFold(strings.TrimSpace(n), name) {
				return true
			}
		}
	}
	return false
}

// query is the query of the URL without the client's credential, its order and escapes unchanged. The name of a
// parameter may be escaped itself.
func query(ctx *fasthttp.RequestCtx) string {
	q := text(ctx.URI().QueryString())
	if !strings.Contains(q, "key") && !strings.Contains(q, "%") {
		return q
	}
	var keep []string
	for p := range strings.SplitSeq(q, "&") {
		name, _, _ := strings.Cut(p, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if name != "key" {
			keep = append(keep, p)
		}
	}
	return strings.Join(keep, "&")
}
