package actors_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock/penstock/actors"
)

// The next requests write into the memory of those that are over: not into their answers, which are still on their way to the
// client, and not into their facts.
func TestAnAnswerStaysWhatItIsWhileOthersAreServed(t *testing.T) {
	r := newRig(t, upstream("a"), account("a1", "a"), key("k"))
	named := func(n int) map[string]string {
		return map[string]string{"Content-Type": "application/json", "X-Of": fmt.Sprint("request ", n), "X-Also": fmt.Sprint(n)}
	}
	type served struct {
		is, was actors.Answer
	}
	var all []served
	for n := range 20 {
		if n%4 == 3 { // an error's answer has headers, too
			r.reply("a", reply{status: 400, header: named(n), body: []chunk{{data: `{"error":{"message":"no"}}`}}})
		} else {
			r.reply("a", reply{header: named(n), body: []chunk{{data: okBody}}})
		}
		a := r.Begin(r.chat())
		all = append(all, served{a, actors.Answer{Status: a.Status, Headers: slices.Clone(a.Headers), Body: bytes.Clone(a.Body)}})
	}
	for n, s := range all {
		if s.is.Status != s.was.Status || !slices.Equal(s.is.Headers, s.was.Headers) || !bytes.Equal(s.is.Body, s.was.Body) {
			t.Errorf("answer %d was %+v and is %+v", n, s.was, s.is)
		}
		if !slices.Contains(s.is.Headers, actors.Header{Name: "X-Of", Value: fmt.Sprint("request ", n)}) {
			t.Errorf("answer %d has the headers %v", n, s.is.Headers)
		}
	}
}
