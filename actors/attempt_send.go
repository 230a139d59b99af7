package actors

import (
	"strings"

	"github.com/penstock/penstock/domain/dialect"
)

// outgoing builds the call of the present attempt, in room that the next attempt uses again.
func (l *life) outgoing(fresh bool) *Outgoing {
	u := l.up
	scheme, host, root := splitURL(u.BaseURL)
	o := &l.room.out
	*o = Outgoing{
		Method: l.c.Ask.Method, Scheme: scheme, Host: host, Target: l.target(root, u.PathPrefix), Body: l.body(),
		Connect: u.Timeouts.Connect.Std(), First: u.Timeouts.FirstByte.Std(), Idle: u.Timeouts.Idle.Std(),
		Fresh: fresh, Gone: l.cut,
	}
	o.Headers = l.c.Headers
	if len(u.Headers) > 0 {
		o.Headers = withOwn(l.c.Headers, u.Headers)
	}
	secret, _ := l.d.Credential(l.lease.Account)
	o.Headers = append(o.Headers, authorization(l.c.Endpoint.Dialect, secret), Header{"Accept-Encoding", "identity"})
	return o
}

// withOwn are the client's headers, but for those that the upstream sets, and the upstream's own.
func withOwn(client []Header, own map[string]string) []Header {
	to := make([]Header, 0, len(client)+len(own)+2)
	for _, h := range client {
		if !names(own, h.Name) {
			to = append(to, h)
		}
	}
	for name, value := range own {
		to = append(to, Header{name, value})
	}
	return to
}

// names says that a header is among the own ones, however either is spelled.
func names(own map[string]string, header string) bool {
	for name := range own {
		if strings.EqualFold(name, header) {
			return true
		}
	}
	return false
}

// authorization is the header in which the dialect's providers take a credential.
func authorization(d dialect.Dialect, secret string) Header {
	switch d {
	case dialect.AnthropicMessages:
		return Header{"x-api-key", secret}
	case dialect.Gemini:
		return Header{"x-goog-api-key", secret}
	}
	return Header{"Authorization", "Bearer " + secret}
}

// splitURL cuts a base URL, which was checked when it was written, into scheme, host and path without a final slash.
func splitURL(base string) (scheme, host, root string) {
	scheme, rest, _ := strings.Cut(base, "://")
	host, root = rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, root = rest[:i], strings.TrimRight(rest[i:], "/")
	}
	return scheme, host, root
}

// target is the path and query at the upstream. The canonical path begins with /v1 or /v1beta; a root that ends with
// the same does not double it, and a path prefix stands in its place.
func (l *life) target(root string, prefix *string) string {
	path := l.c.Endpoint.Path
	if m := l.pathModel(); m != "" {
		path = withModel(path, m)
	}
	version := "/v1"
	if strings.HasPrefix(path, "/v1beta/") {
		version = "/v1beta"
	}
	switch {
	case prefix != nil:
		path = strings.TrimRight(*prefix, "/") + strings.TrimPrefix(path, version)
	case strings.HasSuffix(root, version):
		path = strings.TrimPrefix(path, version)
	}
	path = root + path
	if l.c.Query != "" {
		path += "?" + l.c.Query
	}
	return path
}

// pathModel is the model to put into a path that names one: the upstream's name for it, or that of the body, which is the one
// that was allowed and is billed. "": the path stays as it came.
func (l *life) pathModel() string {
	switch named := l.c.Endpoint.Model; {
	case named == "":
		return ""
	case l.cand.UpstreamModel == "" && l.c.Ask.Model != named:
		return strings.TrimPrefix(l.c.Ask.Model, "models/") // which Google's libraries put before it
	}
	return l.cand.UpstreamModel
}

// withModel puts another model into a path such as /v1beta/models/m:generateContent.
func withModel(path, model string) string {
	i, k := strings.Index(path, "/models/"), strings.LastIndexByte(path, ':')
	if i < 0 || k < i {
		return path
	}
	return path[:i] + "/models/" + escapePath(model) + path[k:]
}

// escapePath escapes what may not stand in a path segment; slashes stay.
func escapePath(s string) string {
	const plain = "-_.~/@:+"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// body is what is sent: the client's bytes, but for a spliced model and usage option.
func (l *life) body() []byte {
	b, scan, model := l.c.Body, l.c.Scan, l.cand.UpstreamModel
	if l.foreign() {
		b = dialect.DropReasoning(nil, b)
		scan, _ = dialect.ScanRequest(b, l.c.Endpoint.Dialect) // which is as valid as before
	}
	renamed := model != "" && l.c.Endpoint.Model == "" && !scan.ModelSpan.Empty()
	switch {
	case renamed && l.injects():
		return dialect.SpliceBoth(nil, b, scan, model)
	case renamed:
		return dialect.SpliceModel(nil, b, scan, model)
	case l.injects():
		return dialect.SpliceUsage(nil, b, scan)
	}
	return b
}

// injects says that we ask for the usage of a chat stream on our own, and keep its chunk from the client.
func (l *life) injects() bool {
	return l.c.Endpoint.Dialect == dialect.OpenAIChat && l.c.Endpoint.Kind == dialect.Generate && l.c.Scan.Stream &&
		!l.c.Scan.IncludeUsage && l.snap.Settings.ChatUsage == "inject"
}
