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
	u := t.a.usage
	k := &Call{
		Seq: t.a.n, Request: string(requestID(c.body)), Path: path, Model: t.a.model, Key: c.key, Stream: t.stream, Body: len(c.body),
		Told: toldNone, Usage: Usage{
			u.in, u.cached, u.write, u.write1h, u.out, u.reasoning, u.audioIn, u.audioOut, u.imageIn, u.imageOut, u.images, u.searches,
			u.files, u.tier,
		},
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
	switch d := t.d.(type) {
	case messages:
	case gemini:
		if stage == toldStart { // a comment
			return
		}
	case chat:
		if stage != toldWhole || t.stream && !t.a.askedUsage {
			return
		}
	case plain:
		if !d.usage {
			return
		}
	case counting:
		return
	default:
		if stage != toldWhole {
			return
		}
	}
	if stage == toldRunning {
		if _, is := t.d.(gemini); !is {
			return
		}
	}
	t.told = stage
}

// keep leaves in a usage what a dialect can tell.
func (u *usage) keep(d dialect) {
	all := *u
	switch d := d.(type) {
	case chat:
		u.write1h, u.images, u.files = 0, 0, 0
	case responses:
		u.write1h = 0
	case messages:
		*u = usage{in: all.in, cached: all.cached, write: all.write, write1h: all.write1h, out: all.out, reasoning: all.reasoning, searches: all.searches, tier: all.tier}
	case gemini:
		u.write, u.write1h, u.images, u.files = 0, 0, 0, 0
	case plain:
		*u = usage{in: all.in, out: all.out}
		if d.pictures {
			u.images = max(1, all.images)
		}
	}
}

// choice is a count of a usage.
type choice struct {
	name string
	of   func(*usage) *int
}

// choices are the members of "[usage:NAME=N,…]" in a body: the names of a Behavior.
var choices = []choice{
	{"prompt_tokens", func(u *usage) *int { return &u.in }},
	{"out_tokens", func(u *usage) *int { return &u.out }},
	{"cached_tokens", func(u *usage) *int { return &u.cached }},
	{"cache_write_tokens", func(u *usage) *int { return &u.write }},
	{"cache_write_1h_tokens", func(u *usage) *int { return &u.write1h }},
	{"reasoning_tokens", func(u *usage) *int { return &u.reasoning }},
	{"audio_input_tokens", func(u *usage) *int { return &u.audioIn }},
	{"audio_output_tokens", func(u *usage) *int { return &u.audioOut }},
	{"image_input_tokens", func(u *usage) *int { return &u.imageIn }},
	{"image_output_tokens", func(u *usage) *int { return &u.imageOut }},
	{"images", func(u *usage) *int { return &u.images }},
	{"web_searches", func(u *usage) *int { return &u.searches }},
	{"file_searches", func(u *usage) *int { return &u.files }},
}

const choiceMax = 400 // bytes

// choose changes a usage as the body says in "[usage:NAME=N,…]". Parts may exceed their whole: so an upstream that reports
// nonsense is played.
func (u *usage) choose(body []byte) error {
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
			u.tier = value
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
