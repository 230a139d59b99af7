package actors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/catalog"
)

// The model that a key may use and that is billed is the one that the upstream is asked for, wherever a client names one.
func TestTheUpstreamIsAskedForTheModelThatWasAllowed(t *testing.T) {
	const cheap, dear = "/v1beta/models/cheap:generateContent", "/v1beta/models/dear:generateContent"
	only := key("k", func(k *catalog.Key) { k.Models = []string{"cheap", "models/cheap"} })
	for _, c := range []struct {
		path, body string
		rewrite    map[string]string
		status     int
		target     string
	}{
		{cheap, `{}`, nil, 200, cheap},
		{dear, `{}`, nil, 403, ""},
		{cheap, `{"model":"cheap"}`, nil, 200, cheap},
		{cheap, `{"model":"dear"}`, nil, 403, ""},
		{dear, `{"model":"cheap"}`, nil, 200, cheap},
		{dear, `{"model":"models/cheap"}`, nil, 200, cheap},
		{dear, `{"model":"cheap"}`, map[string]string{"cheap": "cheap-1"}, 200, "/v1beta/models/cheap-1:generateContent"},
	} {
		r := newRig(t, upstream("a", func(u *catalog.Upstream) { u.UpstreamModels = c.rewrite }), account("a1", "a"), only)
		r.reply("a", whole(`{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}`))
		if x := r.run(r.call(c.path, c.body)); x.Status != c.status {
			t.Errorf("%s with %s: %d %s", c.path, c.body, x.Status, x.body())
		}
		got := ""
		for _, sent := range r.ups.calls {
			got += sent.target
		}
		if got != c.target {
			t.Errorf("%s with %s: the upstream was asked for %q", c.path, c.body, got)
		}
	}
}

// A header that the operator sets at an upstream takes the place of the client's, however either is spelled.
func TestTheOperatorsHeaderTakesThePlaceOfTheClients(t *testing.T) {
	for _, name := range []string{"x-team", "X-Team", "X-TEAM"} {
		r := newRig(t, upstream("a", func(u *catalog.Upstream) { u.Headers = map[string]string{name: "ours"} }), account("a1", "a"), key("k"))
		var got []string
		r.ups.script = func(o *actors.Outgoing) reply {
			for _, h := range o.Headers {
				if strings.EqualFold(h.Name, "x-team") {
					got = append(got, h.Value)
				}
			}
			return whole(`{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		}
		call := r.chat()
		call.Headers = []actors.Header{{Name: "X-Team", Value: "theirs"}, {Name: "X-Other", Value: "o"}}
		if x := r.run(call); x.Status != 200 || !slices.Equal(got, []string{"ours"}) {
			t.Errorf("%s: %d, the upstream gets %q", name, x.Status, got)
		}
	}
}
