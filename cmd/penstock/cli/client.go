package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/secrets"
	"github.com/penstock/penstock/domain/catalog"
)

// client speaks with the admin API of a running gateway.
type client struct {
	base     string // without a slash at its end
	instance string // the gateway that is meant; "": the one that answers
	token    secrets.Secret
	http     *http.Client
}

// Bounds of a call. A replay of a large store takes long, so the whole has no bound; the context has.
const (
	dialTimeout   = 5 * time.Second
	healthTimeout = 3 * time.Second
	answerMax     = 256 << 20 // bytes of an answer
)

// detail is one thing that the API found wrong.
type detail struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// problem is an RFC 9457 document.
type problem struct {
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"`
	Details []detail `json:"errors"`
}

// Error has one line per thing that is wrong.
func (p *problem) Error() string {
	if len(p.Details) == 0 {
		return strings.TrimSuffix(p.Title+": "+p.Detail, ": ")
	}
	lines := make([]string, len(p.Details))
	for i, d := range p.Details {
		lines[i] = strings.TrimPrefix(field(d.Location)+": "+d.Message, ": ")
	}
	return strings.Join(lines, "\n")
}

// field is a location as an operator knows it: "body.limits.rpm" is limits.rpm, "path.id" needs no name, and the one below
// it is the id that --id or ID gave.
func field(location string) string {
	if location == "path.sid" {
		return "id"
	}
	for _, prefix := range []string{"body.", "query.", "header."} {
		if rest, ok := strings.CutPrefix(location, prefix); ok {
			return rest
		}
	}
	return ""
}

// do sends a request and reads the answer into out, unless out is nil. in is sent as JSON, unless it is nil.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return errors.Wrap(err, "write request")
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return usage(errors.Wrap(err, "server"))
	}
	r.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return &unreachableError{c.base, err}
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(answer.Body, answerMax))
	if err != nil {
		return errors.Wrapf(err, "read answer of %s", c.base)
	}
	if answer.StatusCode >= 400 {
		return c.refusal(answer, b)
	}
	if out == nil || len(b) == 0 {
		return nil
	}
	return errors.Wrapf(json.Unmarshal(b, out), "read answer of %s", c.base)
}

// doWith is do for one resource, at the path below its own. Its absence is said in an operator's words.
func (c *client) doWith(ctx context.Context, method string, kind catalog.Kind, id, path string, in, out any) error {
	err := c.do(ctx, method, resourcePath(kind, id)+path, in, out)
	var refused *problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return errors.Newf("there is no %s %s", kind, id)
	}
	return err
}

func (c *client) refusal(answer *http.Response, body []byte) error {
	p := &problem{Status: answer.StatusCode}
	if err := json.Unmarshal(body, p); err != nil || p.Title == "" {
		return errors.Newf("%s answered %s: is it the admin API of a penstock?", c.base, answer.Status)
	}
	if p.Status == http.StatusNotFound && strings.HasPrefix(p.Detail, admin.NoSuchPath) { // not that there is no such user, key or request
		return errors.WithHint(errors.Newf("%s answers: %s", c.base, p.Detail), "give the address of the admin API without a path; or that gateway is of another version")
	}
	if p.Status == http.StatusUnauthorized {
		what := "refuses the admin token"
		if c.token.Reveal() == "" {
			what = "asks for the admin token, and there is none here"
		}
		return errors.WithHint(errors.Newf("%s %s", c.base, what),
			"set PENSTOCK_ADMIN_TOKEN, or name the data folder of the gateway with --data")
	}
	return p
}

// unreachableError says that nobody answered.
type unreachableError struct {
	base string
	err  error
}

func (e *unreachableError) Error() string {
	cause := e.err
	var outer *url.Error // names method and address again
	if errors.As(cause, &outer) {
		cause = outer.Err
	}
	return fmt.Sprintf("no gateway answers at %s: %s", e.base, cause)
}

// startOne is what to do when no gateway is found.
const startOne = "start one with penstock serve, or say where it is with --server, PENSTOCK_ADMIN_URL or --data"

// ErrorHint says what to do.
func (*unreachableError) ErrorHint() string { return startOne }

// Unwrap is the cause.
func (e *unreachableError) Unwrap() error { return e.err }

// query makes a query string of names and values in turn, without empty ones.
func query(pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// stamp is a time in a query, "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
