package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/catalog"
)

func TestOneResourceFromCreationToRemoval(t *testing.T) {
	b := newBench(t)
	w := b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc)
	made := b.ok(http.StatusCreated, w)
	require.Equal(t, `"1"`, w.Header().Get("ETag"))
	require.Equal(t, "a", made["id"])

	w = b.ask("GET", "/api/v1/upstreams/a", "")
	require.Equal(t, made, b.ok(http.StatusOK, w))
	require.Equal(t, `"1"`, w.Header().Get("ETag"))

	changed := b.ask("PUT", "/api/v1/upstreams/a", strings.Replace(upstreamDoc, "10", "20", 1), "If-Match", `"1"`)
	require.EqualValues(t, 20, b.ok(http.StatusOK, changed)["slots"])
	require.Equal(t, `"2"`, changed.Header().Get("ETag"))

	b.ok(http.StatusNoContent, b.ask("DELETE", "/api/v1/upstreams/a", "", "If-Match", `"2"`))
	b.refused(http.StatusNotFound, b.ask("GET", "/api/v1/upstreams/a", ""))
	b.refused(http.StatusNotFound, b.ask("DELETE", "/api/v1/upstreams/a", ""))
}

func TestWritesThatMatchAnotherVersionAreRefused(t *testing.T) {
	b := newBench(t)
	b.refused(http.StatusPreconditionFailed, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc, "If-Match", "*"))
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc, "If-None-Match", "*"))
	other := strings.Replace(upstreamDoc, "10", "20", 1)
	b.refused(http.StatusPreconditionFailed, b.ask("PUT", "/api/v1/upstreams/a", other, "If-None-Match", "*"))
	b.refused(http.StatusPreconditionFailed, b.ask("PUT", "/api/v1/upstreams/a", other, "If-Match", `"2"`))
	b.refused(http.StatusPreconditionFailed, b.ask("DELETE", "/api/v1/upstreams/a", "", "If-Match", `"9"`))
	b.ok(http.StatusOK, b.ask("PUT", "/api/v1/upstreams/a", other, "If-Match", `W/"1"`))
	require.Equal(t, []string{"header.If-Match: takes the ETag of a GET, or *"},
		b.refused(http.StatusUnprocessableEntity, b.ask("PUT", "/api/v1/upstreams/a", other, "If-Match", `"x"`)))
}

func TestUnchangedPutKeepsItsVersion(t *testing.T) {
	b := newBench(t)
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc))
	shown := b.ask("GET", "/api/v1/upstreams/a", "").Body.String()
	w := b.ask("PUT", "/api/v1/upstreams/a", shown)
	b.ok(http.StatusOK, w)
	require.Equal(t, `"1"`, w.Header().Get("ETag"))
}

func TestPatchChangesOnlyWhatItNames(t *testing.T) {
	b := newBench(t)
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc))
	got := b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/upstreams/a", `{"slots":null,"breaker":{"failures":7}}`))
	require.NotContains(t, got, "slots")
	require.EqualValues(t, 7, got["breaker"].(map[string]any)["failures"])
	require.Equal(t, "5m", got["breaker"].(map[string]any)["open_for"], "the rest of the object stays")
	require.Equal(t, "http://127.0.0.1:9001", got["base_url"])
	b.refused(http.StatusNotFound, b.ask("PATCH", "/api/v1/upstreams/none", `{}`))
	require.Equal(t, []string{"body.colour: unknown field"},
		b.refused(http.StatusUnprocessableEntity, b.ask("PATCH", "/api/v1/upstreams/a", `{"colour":"red"}`)))
	require.Equal(t, []string{"body.breaker.failure: unknown field", "body.slot: unknown field"},
		b.refused(http.StatusUnprocessableEntity, b.ask("PATCH", "/api/v1/upstreams/a", `{"slot":null,"breaker":{"failure":null}}`)), "a limit that is not there is not taken away")
	b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/upstreams/a", `{"headers":{"x-a":"1","x-b":"2"}}`))
	require.Equal(t, map[string]any{"x-b": "2"}, b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/upstreams/a", `{"headers":{"x-a":null}}`))["headers"])
}

// C28, C31, C32: a credential goes in and never comes out.
func TestCredentialIsShownMasked(t *testing.T) {
	b := newBench(t)
	const credential = "sk-proj-abcdefghijklmnop1234"
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc))
	w := b.ask("PUT", "/api/v1/accounts/a-1", `{"upstream":"a","api_key":"`+credential+`"}`)
	require.Equal(t, "sk-***1234", b.ok(http.StatusCreated, w)["api_key"])
	require.Equal(t, credential, b.shelf.secrets["a-1"])

	for _, body := range []string{`{"slots":5}`, `{"api_key":"sk-***1234"}`} {
		b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/accounts/a-1", body))
		require.Equal(t, credential, b.shelf.secrets["a-1"], "the masked form keeps the credential")
	}
	for _, path := range []string{"/api/v1/accounts", "/api/v1/accounts/a-1"} {
		shown := b.ask("GET", path, "").Body.String()
		require.NotContains(t, shown, "abcdefgh")
		require.NotContains(t, shown, "secret_version")
	}
	refused := b.ask("PUT", "/api/v1/accounts/a-2", `{"upstream":"gone","api_key":"`+credential+`","slots":"`+credential+`"}`)
	b.refused(http.StatusUnprocessableEntity, refused)
	require.NotContains(t, refused.Body.String(), "abcdefgh")
}

func TestWhatIsWrongIsNamedByField(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       []string
	}{
		"an unknown field": {"upstreams/a", `{"base_url":"http://h","colour":1}`, 422, []string{"body.colour: unknown field"}},
		"an unknown subfield": {"upstreams/a", `{"base_url":"http://h","breaker":{"fails":1}}`, 422,
			[]string{"body.breaker.fails: unknown field"}},
		"a field of a limit": {"keys/k", `{"limits":{"rps":10}}`, 422, []string{"body.limits.rps: unknown field"}},
		"another id":         {"upstreams/a", `{"id":"b","base_url":"http://h"}`, 422, []string{`body.id: is "b", the path says "a"`}},
		"another kind":       {"upstreams/a", `{"kind":"key"}`, 422, []string{`body.kind: is "key", the path is for upstream`}},
		"a wrong type":       {"users/u", `{"slots":"5"}`, 422, []string{"body.slots: must be a whole number"}},
		"no such upstream":   {"accounts/x", `{"upstream":"gone","api_key":"sk-0123456789"}`, 422, []string{"body.upstream: upstream gone does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{t, b.shelf, b.books, b.live, b.srv, b.till}
			require.Equal(t, c.want, b.refused(c.status, b.ask("PUT", "/api/v1/"+c.path, c.body)))
		})
	}
	for name, body := range map[string]string{"no JSON": `{"a"`, "a list": `[]`, "null": `null`, "a field twice": `{"name":"a","name":"b"}`} {
		places := b.refused(http.StatusUnprocessableEntity, b.ask("PUT", "/api/v1/users/u", body))
		require.True(t, strings.HasPrefix(places[0], "body: "), "%s: %s", name, places)
		require.NotContains(t, places[0], "Go ", "%s: types of ours are nobody's business", name)
	}
}

func TestWhatIsInUseIsNotRemoved(t *testing.T) {
	b := newBench(t)
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc))
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/accounts/a-1", `{"upstream":"a","api_key":"sk-0123456789"}`))
	require.Equal(t, []string{"path.id: upstream a: is used by account a-1"},
		b.refused(http.StatusConflict, b.ask("DELETE", "/api/v1/upstreams/a", "")))
}

func TestListsComeInPages(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"c", "a", "e", "b", "d"} {
		b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/users/"+id, `{}`))
	}
	var ids []string
	next, pages := "", 0
	for {
		page := b.ok(http.StatusOK, b.ask("GET", "/api/v1/users?limit=2&after="+next, ""))
		for _, item := range page["items"].([]any) {
			ids = append(ids, item.(map[string]any)["id"].(string))
		}
		pages++
		if next = page["next"].(string); next == "" {
			break
		}
	}
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, ids)
	require.Equal(t, 3, pages)
	require.Equal(t, `{"items":[],"next":""}`, strings.TrimSpace(b.ask("GET", "/api/v1/rules", "").Body.String()))
	b.refused(http.StatusUnprocessableEntity, b.ask("GET", "/api/v1/users?limit=0", ""))
	require.Equal(t, []string{"query.limi: unknown query parameter"},
		b.refused(http.StatusUnprocessableEntity, b.ask("GET", "/api/v1/users?limi=5", "")))
}

func TestIdsWithASlashAreOneSegment(t *testing.T) {
	b := newBench(t)
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/upstreams/a", upstreamDoc))
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/prices/a%2Fgpt-*", `{"model":"gpt-*","upstream":"a","input":"1","output":"2"}`))
	require.Equal(t, "a/gpt-*", b.ok(http.StatusOK, b.ask("GET", "/api/v1/prices/a%2Fgpt-*", ""))["id"])
	b.ok(http.StatusNoContent, b.ask("DELETE", "/api/v1/prices/a%2Fgpt-%2A", ""))
}

func TestMadeKeyShowsItsSecretOnce(t *testing.T) {
	b := newBench(t)
	made := b.ok(http.StatusCreated, b.ask("POST", "/api/v1/keys", `{"id":"team-a","access":"unrestricted"}`))
	secret := made["secret"].(string)
	require.Regexp(t, `^sk-pen-[A-Za-z0-9_-]{43}$`, secret)
	key, _, ok := b.shelf.state.Get(catalog.KindKey, "team-a")
	require.True(t, ok)
	sum, ok := key.(*catalog.Key).SHA256()
	require.True(t, ok)
	require.Equal(t, sha256Of(secret), sum)
	require.True(t, strings.HasPrefix(secret, key.(*catalog.Key).Prefix) && len(key.(*catalog.Key).Prefix) < 16)
	for _, path := range []string{"/api/v1/keys", "/api/v1/keys/team-a"} {
		require.NotContains(t, b.ask("GET", path, "").Body.String(), secret)
	}
	require.Equal(t, []string{"body.id: there is a key team-a already"},
		b.refused(http.StatusConflict, b.ask("POST", "/api/v1/keys", `{"id":"team-a"}`)))
	require.Len(t, b.refused(http.StatusUnprocessableEntity, b.ask("POST", "/api/v1/keys", `{"id":"x","hash":"sha256:00"}`)), 1)
	require.Len(t, b.refused(http.StatusUnprocessableEntity, b.ask("POST", "/api/v1/keys", `{"id":"x","limits":{"rpm":-1}}`)), 1)
}

func TestRevocationSurvivesAnOlderFileAndARace(t *testing.T) {
	b := newBench(t)
	b.ok(http.StatusCreated, b.ask("POST", "/api/v1/keys", `{"id":"k","access":"unrestricted"}`))
	shown := b.ok(http.StatusOK, b.ask("GET", "/api/v1/keys/k", ""))
	delete(shown, "revoked") // a file that was written by hand says nothing about it
	file, err := json.Marshal(shown)
	require.NoError(t, err)

	b.shelf.before = func() { b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/keys/k", `{"models":["gpt-*"]}`)) }
	got := b.ok(http.StatusOK, b.ask("POST", "/api/v1/keys/k/revoke", ""))
	require.Equal(t, true, got["revoked"])
	require.Equal(t, []any{"gpt-*"}, got["models"], "the change that came between is kept")
	b.ok(http.StatusOK, b.ask("POST", "/api/v1/keys/k/revoke", ""))

	require.Equal(t, true, b.ok(http.StatusOK, b.ask("PUT", "/api/v1/keys/k", string(file)))["revoked"])
	b.ok(http.StatusOK, b.ask("POST", "/api/v1/apply", `{"resources":[`+string(file)+`]}`))
	require.Equal(t, true, b.ok(http.StatusOK, b.ask("GET", "/api/v1/keys/k", ""))["revoked"])
	require.Equal(t, true, b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/keys/k", `{"revoked":null}`))["revoked"], "null says nothing")
	require.Equal(t, false, b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/keys/k", `{"revoked":false}`))["revoked"])

	for _, write := range []func() *httptest.ResponseRecorder{
		func() *httptest.ResponseRecorder { return b.ask("PUT", "/api/v1/keys/k", string(file)) },
		func() *httptest.ResponseRecorder {
			return b.ask("POST", "/api/v1/apply", `{"resources":[`+string(file)+`]}`)
		},
	} {
		b.ok(http.StatusOK, b.ask("PATCH", "/api/v1/keys/k", `{"revoked":false}`))
		b.shelf.before = func() { b.ok(http.StatusOK, b.ask("POST", "/api/v1/keys/k/revoke", "")) }
		b.ok(http.StatusOK, write())
		require.Equal(t, true, b.ok(http.StatusOK, b.ask("GET", "/api/v1/keys/k", ""))["revoked"],
			"a revocation while the file is on its way is not undone")
	}
	b.refused(http.StatusNotFound, b.ask("POST", "/api/v1/keys/none/revoke", ""))
}

// A field that stands twice in a body is an error, not the last one of it: what was a dry run to its writer must not be none.
func TestAFieldThatStandsTwiceInABodyIsRefused(t *testing.T) {
	b := newBench(t)
	for _, body := range []string{
		`{"resources":[{"kind":"user","id":"u"}],"dry_run":true,"dry_run":false}`,
		`{"resources":[{"kind":"user","id":"u"}],"dry_run":true,"Dry_Run":false}`,
		`{"resources":[{"kind":"user","id":"u"}],"resources":[{"kind":"user","id":"v"}]}`,
	} {
		w := b.ask("POST", "/api/v1/apply", body)
		require.Contains(t, []int{400, 422}, w.Code, body)
		require.Contains(t, w.Body.String(), "given twice")
	}
	b.refused(http.StatusNotFound, b.ask("GET", "/api/v1/users/u", ""))
	b.ok(http.StatusOK, b.ask("POST", "/api/v1/apply", `{"resources":[{"kind":"user","id":"u"}],"dry_run":false}`))
}

// A list that names nothing is a list that was not there: pruning by it would remove the whole catalogue.
func TestNothingIsPrunedByAListThatNamesNothing(t *testing.T) {
	b := newBench(t)
	b.ok(http.StatusCreated, b.ask("PUT", "/api/v1/users/u", `{}`))
	for _, list := range []string{"null", "[]"} {
		for _, dry := range []string{"false", "true"} {
			require.Equal(t, []string{"body.resources: names nothing, and prune would remove everything"},
				b.refused(http.StatusUnprocessableEntity, b.ask("POST", "/api/v1/apply", `{"prune":true,"resources":`+list+`,"dry_run":`+dry+`}`)))
		}
	}
	b.ok(http.StatusOK, b.ask("GET", "/api/v1/users/u", ""))
	b.ok(http.StatusOK, b.ask("POST", "/api/v1/apply", `{"resources":[]}`))
}
