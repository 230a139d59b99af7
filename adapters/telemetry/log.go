// Package telemetry is how a gateway is watched: structured logs through slog and the figures of /metrics. Secrets do
// not pass: attributes with a secret's name and texts with a secret's shape are blotted out.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"

	"github.com/cockroachdb/errors"
)

// NewLogger returns a logger that writes to w. format is "text" or "json" ("" is text); level is "debug", "info",
// "warn" or "error" ("" is info). The error names the setting that is wrong.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if level != "" {
		if err := least.UnmarshalText([]byte(level)); err != nil {
			return nil, errors.Newf("log level: want debug, info, warn or error, got %q", level)
		}
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: redact}
	switch format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, errors.Newf("log format: want text or json, got %q", format)
}

// blot stands where a secret was.
const blot = "***"

// secretNames are attributes whose value is never shown, in lower case without - and _.
var secretNames = map[string]bool{
	"apikey": true, "xapikey": true, "xgoogapikey": true, "authorization": true, "proxyauthorization": true,
	"cookie": true, "setcookie": true, "password": true, "secret": true, "secretkey": true,
	"token": true, "admintoken": true, "accesstoken": true, "refreshtoken": true, "credential": true,
}

// secretShapes are texts that look like a credential wherever they stand: keys of the providers and of Penstock,
// bearer tokens, and passwords or keys in an address.
var secretShapes = regexp.MustCompile(
	`\b(?:sk|gsk|xai|pplx)-[A-Za-z0-9_\-]{8,}|\bAIza[A-Za-z0-9_\-]{20,}|(?i:\bbearer\s+)[A-Za-z0-9._~+/\-]{8,}=*|://[^/\s:@]+:[^/\s@]+@|(?i:[?&](?:key|api_key|token)=)[^&\s"]+`)

var nameSigns = strings.NewReplacer("-", "", "_", "")

func redact(_ []string, attr slog.Attr) slog.Attr {
	if secretNames[strings.ToLower(nameSigns.Replace(attr.Key))] {
		return slog.String(attr.Key, blot)
	}
	switch value := attr.Value.Any().(type) {
	case string:
		attr.Value = slog.StringValue(Redact(value))
	case error:
		attr.Value = slog.StringValue(Redact(value.Error()))
	case []byte:
		return blotted(attr, string(value))
	default:
		if attr.Value.Kind() == slog.KindAny {
			return blotted(attr, fmt.Sprintf("%+v", value))
		}
	}
	return attr
}

// blotted is a value that is no text, such as a list, a map or a struct: it stays what it is unless its text holds a credential.
func blotted(attr slog.Attr, text string) slog.Attr {
	if shown := Redact(text); shown != text {
		attr.Value = slog.StringValue(shown)
	}
	return attr
}

// Redact blots out what looks like a credential in a text, and returns other texts as they are.
func Redact(text string) string { return secretShapes.ReplaceAllString(text, blot) }
