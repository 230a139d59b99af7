package simulator

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
)

// Call is the record of one request: what it was answered with and which usage it was told. Whoever adds up bills on
// their own reads it at /requests.
type Call struct {
	Seq     uint64 `json:"seq"`               // number among all arrivals since the last reset, from 1
	Request string `json:"request,omitempty"` // ID of "[rid:ID]" in the body
	Path    string `json:"path"`              // without query
	Model   string `json:"model"`
	Key     string `json:"key"`
	Stream  bool   `json:"stream"`
	Body    int    `json:"body_bytes"`

	Fault   string `json:"fault,omitempty"` // name of the rate of the fault that was played
	Status  int    `json:"status"`          // sent; 0 = none
	Outcome string `json:"outcome"`         // completed, client_aborted or faulted; "" while it is answered
	Content int    `json:"content_bytes"`   // of the text that was sent
	Told    string `json:"usage_told"`      // how much of the usage was sent: none, start (input and one token), running or whole
	Usage   Usage  `json:"usage"`           // chosen, whether told or not
}

// Usage is a chosen usage: prompt and output are totals, the others parts of them or counts of acts.
type Usage struct {
	Prompt       int    `json:"prompt_tokens"`
	Cached       int    `json:"cached_tokens,omitempty"`
	CacheWrite   int    `json:"cache_write_tokens,omitempty"`
	CacheWrite1h int    `json:"cache_write_1h_tokens,omitempty"` // part of CacheWrite (Anthropic)
	Output       int    `json:"out_tokens"`
	Reasoning    int    `json:"reasoning_tokens,omitempty"`
	AudioInput   int    `json:"audio_input_tokens,omitempty"`
	AudioOutput  int    `json:"audio_output_tokens,omitempty"`
	ImageInput   int    `json:"image_input_tokens,omitempty"`
	ImageOutput  int    `json:"image_output_tokens,omitempty"`
	Images       int    `json:"images,omitempty"`
	WebSearches  int    `json:"web_searches,omitempty"`
	FileSearches int    `json:"file_searches,omitempty"`
	ServiceTier  string `json:"service_tier,omitempty"`
}

// callsMax is how many calls are kept; the oldest go first.
const callsMax = 50_000

// The values of Call.Told.
const (
	toldNone    = "none"
	toldStart   = "start"
	toldRunning = "running"
	toldWhole   = "whole"
)

var outcomeNames = [outcomes]string{completed: "completed", aborted: "client_aborted", faulted: "faulted"}

// begin notes a call that is about to be answered.
func (d *diary) begin(c *conn, t *turn) *Call {
	path, _, _ := strings.Cut(c.path, "?")
	k := &Call{
		Seq: t.a.n, Request: string(requestID(c.body)), Path: path, Model: t.a.model, Key: c.key, Stream: t.stream, Body: len(c.body),
		Told: toldNone, Usage: t.a.usage,
	}
	for _, f := range faults {
		if f.kind == t.fault {
			k.Fault = f.field
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) >= 2*callsMax {
		d.calls = slices.Delete(d.calls, 0, callsMax)
	}
	d.calls = append(d.calls, k)
	return k
}

// close notes how a call ended.
func (d *diary) close(k *Call, t *turn, o outcome, content int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.Outcome, k.Status, k.Content = outcomeNames[o], t.status, content
	if t.told != "" {
		k.Told = t.told
	}
}

// copies are the last calls, in the order of their arrival.
func (d *diary) copies() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Call, 0, min(len(d.calls), callsMax))
	for _, k := range d.calls[max(0, len(d.calls)-callsMax):] {
		out = append(out, *k)
	}
	return out
}

// tells says how much of its usage an answer has told by now.
func (t *turn) tells(stage string) {
	told := stage == toldWhole
	switch d := t.d.(type) {
	case messages:
		told = stage != toldRunning
	case gemini: // its start is a comment
		told = stage != toldStart
	case chat:
		told = told && (!t.stream || t.a.askedUsage)
	case plain:
		told = told && d.usage
	case counting:
		told = false
	}
	if told {
		t.told = stage
	}
}

// keep leaves in a usage what a dialect can tell.
func (u *Usage) keep(d dialect) {
	switch d := d.(type) {
	case chat:
		u.CacheWrite1h, u.Images, u.FileSearches = 0, 0, 0
	case responses:
		u.CacheWrite1h = 0
	case messages:
		u.AudioInput, u.AudioOutput, u.ImageInput, u.ImageOutput, u.Images, u.FileSearches = 0, 0, 0, 0, 0, 0
	case gemini:
		u.CacheWrite, u.CacheWrite1h, u.Images, u.FileSearches = 0, 0, 0, 0
	case plain:
		pictures := 0
		if d.pictures {
			pictures = max(1, u.Images)
		}
		*u = Usage{Prompt: u.Prompt, Output: u.Output, Images: pictures}
	}
}

// choice is a count of a usage.
type choice struct {
	name string
	of   func(*Usage) *int
}

// choices are the members of "[usage:NAME=N,…]" in a body: the names of a Behavior.
var choices = []choice{
	{"prompt_tokens", func(u *Usage) *int { return &u.Prompt }},
	{"out_tokens", func(u *Usage) *int { return &u.Output }},
	{"cached_tokens", func(u *Usage) *int { return &u.Cached }},
	{"cache_write_tokens", func(u *Usage) *int { return &u.CacheWrite }},
	{"cache_write_1h_tokens", func(u *Usage) *int { return &u.CacheWrite1h }},
	{"reasoning_tokens", func(u *Usage) *int { return &u.Reasoning }},
	{"audio_input_tokens", func(u *Usage) *int { return &u.AudioInput }},
	{"audio_output_tokens", func(u *Usage) *int { return &u.AudioOutput }},
	{"image_input_tokens", func(u *Usage) *int { return &u.ImageInput }},
	{"image_output_tokens", func(u *Usage) *int { return &u.ImageOutput }},
	{"images", func(u *Usage) *int { return &u.Images }},
	{"web_searches", func(u *Usage) *int { return &u.WebSearches }},
	{"file_searches", func(u *Usage) *int { return &u.FileSearches }},
}

const choiceMax = 400 // bytes

// choose changes a usage as the body says in "[usage:NAME=N,…]". Parts may exceed their whole: so an upstream that reports
// nonsense is played.
func (u *Usage) choose(body []byte) error {
	i := bytes.Index(body, []byte("[usage:"))
	if i < 0 {
		return nil
	}
	text, _, ok := bytes.Cut(body[i+7:min(len(body), i+choiceMax)], []byte("]"))
	if !ok {
		return errors.New("[usage: has no ] within bounds")
	}
	for part := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(part, "=")
		if name == "service_tier" && !strings.ContainsAny(value, `"\`) {
			u.ServiceTier = value
			continue
		}
		at := slices.IndexFunc(choices, func(c choice) bool { return c.name == name })
		n, err := strconv.Atoi(value)
		if at < 0 || err != nil || n < 0 || n > tokensMax {
			return errors.Newf("[usage: %q is no NAME=N of a usage", part)
		}
		*choices[at].of(u) = n
	}
	return nil
}
