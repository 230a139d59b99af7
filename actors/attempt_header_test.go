package actors

import (
	"net/http"
	"strings"
	"testing"
)

func TestCommonHeadersAreTreatedAsAnyOther(t *testing.T) {
	for name, shown := range commonNames {
		lower := strings.ToLower(name)
		want := http.CanonicalHeaderKey(lower)
		if isHidden(lower) {
			want = ""
		}
		if shown != want {
			t.Errorf("%s: %q instead of %q", name, shown, want)
		}
	}
	for _, v := range []string{"application/json", "text/event-stream", "text/event-stream; charset=utf-8", "text/html", ""} {
		if got := textValue([]byte(v)); got != v {
			t.Errorf("%q became %q", v, got)
		}
	}
}
