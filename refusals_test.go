package penstock_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/penstock/penstock/domain/failure"
)

// refused is a row of the table of refusals: what a client and an operator see, and how it comes about.
type refused struct {
	code, reason string
	status       int
	types        [3]string // the type in OpenAI's dialects, in Anthropic's, and Google's status
	stage        string    // where the log says that the request ended
	retry        string    // of Retry-After: "" there is none; "exact": of the millisecond in the body, rounded up; else its seconds
	final        bool      // a client is told not to try again
	plain        string    // the bare text of early authentication
	says         string    // a part of the message
	shut         time.Time // when it opens again, where there is no Retry-After for it

	outcome  string // "" is rejected
	sent     bool   // something was sent to an upstream
	unlogged string // why there is no row in the log
	inside   bool   // it ends a stream that has begun

	ids []string // of the requests that had it
	// ask provokes it.
	ask func(d dialectCase) (*http.Response, string)
	// only is the dialects that have it; nil is all of them.
	only []string
}

// refusing are the ways to ask in which refusals are looked at: every dialect, as one answer and as a stream.
func refusing(inside bool) (list []dialectCase) {
	for _, d := range dialectCases {
		switch d.name {
		case "chat", "responses", "messages", "gemini":
			if !inside {
				list = append(list, d)
			}
		case "chat stream", "responses stream", "messages stream", "gemini stream", "gemini array":
			list = append(list, d)
		}
	}
	return list
}

// seen checks one refusal against its row, everywhere.
func (r *rig) seen(c *refused, d dialectCase, began time.Time, resp *http.Response, body string) {
	t := r.t
	t.Helper()
	id := resp.Header.Get("X-Request-Id")
	status := c.status
	if c.inside {
		status, body = 200, r.lastEvent(d, body)
	}
	if resp.StatusCode != status || id == "" {
		t.Errorf("status %d, want %d, request %q: %s", resp.StatusCode, status, id, body)
	}
	retry := resp.Header.Get("Retry-After")
	if got := resp.Header.Get("X-Should-Retry"); got != "" && got != "false" || (got == "false") != (c.final && !c.inside) {
		t.Errorf("X-Should-Retry %q, final is %v", got, c.final)
	}
	if got := resp.Header.Get("Content-Type"); !c.inside && got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if c.plain != "" {
		if want := fmt.Sprintf(`{"error":%q}`, c.plain); body != want || retry != "" {
			t.Errorf("%s with Retry-After %q, want %s", body, retry, want)
		}
	} else {
		opens := c.shape(t, d, id, retry, body)
		c.reopens(t, began, opens, retry)
	}
	c.ids = append(c.ids, id)
}

// shape checks the whole body by what its dialect's clients read (wire.md §3.7, A46, A83), and gives the time in it.
func (c *refused) shape(t *testing.T, d dialectCase, id, retry, body string) (opens string) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	inner, _ := got["error"].(map[string]any)
	shared := inner
	if d.dialect == "gemini" {
		details, _ := inner["details"].([]any)
		if len(details) == 0 {
			t.Fatalf("no details: %s", body)
		}
		shared, _ = details[0].(map[string]any)
	}
	said := func(name string) string { s, _ := shared[name].(string); return s }
	message, _ := inner["message"].(string)
	if opens = said("reopens_at"); message == "" || said("user_hint") == "" || !strings.Contains(message, c.says) {
		t.Errorf("message %q, hint %q, want a part of it to be %q", message, said("user_hint"), c.says)
	}
	want := map[string]any{"code": c.code, "did_send_upstream": c.sent, "request_id": id, "user_hint": said("user_hint")}
	for name, value := range map[string]string{"reason": c.reason, "reopens_at": opens} {
		if value != "" {
			want[name] = value
		}
	}
	switch d.dialect {
	case "gemini":
		want["@type"], want["domain"] = "type.googleapis.com/google.rpc.ErrorInfo", "penstock"
		details := []any{want}
		if retry != "" {
			details = append(details, map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": retry + "s"})
		}
		want = map[string]any{"error": map[string]any{"code": float64(c.status), "status": c.types[2], "message": message, "details": details}}
	case "anthropic-messages":
		want["type"], want["message"] = c.types[1], message
		want = map[string]any{"type": "error", "error": want, "request_id": id}
	default:
		want["type"], want["message"] = c.types[0], message
		want = map[string]any{"error": want}
	}
	if c.inside && d.dialect == "openai-responses" {
		want["type"], want["sequence_number"] = "error", got["sequence_number"]
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("the body is not as its dialect has it\n got %s\nwant %s", a, b)
	}
	return opens
}

// reopens checks what is said of the time: to the millisecond in the body, rounded up to seconds in Retry-After.
func (c *refused) reopens(t *testing.T, began time.Time, opens, retry string) {
	t.Helper()
	switch c.retry {
	case "":
		if at, _ := time.Parse(time.RFC3339, opens); retry != "" || !at.Equal(c.shut) {
			t.Errorf("Retry-After %q, opens at %q, want none and %s", retry, opens, c.shut)
		}
	case "exact":
		at, err := time.Parse("2006-01-02T15:04:05.000Z", opens)
		n, bad := strconv.Atoi(retry)
		early, late := time.Until(at.Add(-time.Millisecond)).Seconds(), at.Sub(began).Seconds() // it is rounded up too
		if err != nil || bad != nil || float64(n) < math.Ceil(early) || float64(n) > math.Ceil(late) || n < 1 {
			t.Errorf("opens at %q, in %.3f to %.3f s, Retry-After %q", opens, early, late, retry)
		}
	case "soon":
		if n, err := strconv.Atoi(retry); err != nil || n < 1 || opens != "" {
			t.Errorf("Retry-After %q, opens at %q", retry, opens)
		}
	default:
		if retry != c.retry || opens != "" {
			t.Errorf("Retry-After %q, want %q; opens at %q", retry, c.retry, opens)
		}
	}
}

// logged checks the rows of the log.
func (c *refused) logged(r *rig) {
	r.t.Helper()
	mine := func(e logged) bool { return slices.Contains(c.ids, e.RequestID) }
	if c.unlogged != "" {
		if slices.ContainsFunc(r.logs(""), mine) {
			r.t.Errorf("it is logged, though %s", c.unlogged)
		}
		return
	}
	status, outcome := c.status, c.outcome
	if outcome == "" {
		outcome = "rejected"
	}
	if c.inside {
		status = 200
	}
	var rows []logged
	r.await("all its rows", func() bool {
		rows = slices.DeleteFunc(r.logs(""), func(e logged) bool { return !mine(e) || e.State != "done" })
		return len(rows) == len(c.ids)
	})
	for _, e := range rows {
		c.row(r, e, status, outcome)
	}
}

func (c *refused) row(r *rig, e logged, status int, outcome string) {
	r.t.Helper()
	if e.Status != status || e.Code != c.code || e.Reason != c.reason || e.Stage != c.stage || e.Outcome != outcome || e.Sent != c.sent || e.Cost != "0" && !c.inside {
		r.t.Errorf("logged as %+v", e)
	}
}

// lastEvent is the data of the error that ends a stream, which then has no mark of a whole answer.
func (r *rig) lastEvent(d dialectCase, body string) string {
	r.t.Helper()
	if strings.Contains(body, d.terminal) {
		r.t.Errorf("the stream looks whole: %s", body)
	}
	from, end := "data: ", "\n\n"
	switch d.name {
	case "responses stream":
		from = "event: error\ndata: "
	case "gemini array":
		from, end = ",", "]"
		i := strings.LastIndex(body, `,{"error":`)
		return strings.TrimSuffix(body[max(i, 0)+len(from):], end)
	}
	i := strings.LastIndex(body, from)
	data, _, _ := strings.Cut(body[max(i, 0)+len(from):], end)
	return data
}

// notProvoked are codes that no case here provokes, and why.
var notProvoked = map[string]string{}

// covers checks that every code, and every reason of unavailability, has a case, and prints the table.
func covers(t *testing.T, rows []*refused) {
	t.Helper()
	codes, reasons := map[string]bool{}, map[string]bool{}
	for _, c := range rows {
		codes[c.code], reasons[c.reason] = true, true
	}
	for _, code := range failure.Codes() {
		if why, excused := notProvoked[code]; codes[code] == excused {
			t.Errorf("%s: provoked %v, excused %q", code, codes[code], why)
		}
	}
	for _, reason := range []string{
		failure.NoHealthyCandidates, failure.UpstreamCircuitOpen, failure.ModelNotAllowed, failure.CapabilityNotSupported,
		failure.ConcurrencyFull, failure.QueueFull, failure.ContinuationPinned, failure.ReservationExceeded,
	} {
		if !reasons[reason] {
			t.Errorf("the reason %s is not provoked", reason)
		}
	}
	sort.SliceStable(rows, func(i, k int) bool { return rows[i].status < rows[k].status })
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "code\treason\tstatus\topenai\tanthropic\tgemini\tstage\toutcome\tRetry-After\tretry\tlogged\tsent")
	for _, c := range rows {
		status, logged, again := strconv.Itoa(c.status), "yes", "as the status says"
		if c.inside {
			status += " (in a stream)"
		}
		if c.unlogged != "" {
			logged = "no: " + c.unlogged
		}
		if c.final {
			again = "never"
		}
		types := c.types
		if c.plain != "" {
			types = [3]string{c.plain, c.plain, c.plain}
		}
		outcome := c.outcome
		if outcome == "" {
			outcome = "rejected"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%v\n", c.code, c.reason, status, types[0], types[1], types[2], c.stage, outcome, c.retry, again, logged, c.sent)
	}
	w.Flush()
	t.Log("\n" + b.String())
}
