package failure

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/dialect"
)

// Limit is what a refusal says of the limit that was met. The zero value says nothing.
type Limit struct {
	After  time.Duration // until the last of the resets that count; 0: not said
	Source string        // which one that is: "retry-after", a header's name, "body", "message"
	Spent  bool          // the end of a quota (of a day, a week, money), not a burst within one
	Burst  bool          // said to be a limit of seconds or minutes
	Model  bool          // the limit is one of the model that was asked for, not of the whole account
}

// later keeps the later reset: a block ends when everything that is known is over.
func (l *Limit) later(source string, d time.Duration) {
	if d > l.After {
		l.After, l.Source = d, source
	}
}

// window is a limit of which an upstream reports how much it is, what is left and when that comes back.
type window struct {
	most, left, reset string // headers
	name              string // how OpenAI's error.type names it
}

// windows are those of OpenAI (also Azure, Groq and many more) and Anthropic. Of several, those count of which nothing is
// left, or which the error names: the others are reported with every answer.
var windows = []window{
	{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", "requests"},
	{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", "tokens"},
	{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", ""},
	anthropicWindow("Requests"), anthropicWindow("Tokens"), anthropicWindow("Input-Tokens"), anthropicWindow("Output-Tokens"),
}

func anthropicWindow(of string) window {
	const all = "Anthropic-Ratelimit-"
	return window{all + of + "-Limit", all + of + "-Remaining", all + of + "-Reset", ""}
}

// quotas are windows of hours and days, with a word or a share of use instead of a remainder.
var quotas = []struct {
	state, full, reset string
	used               string  // how much of it is used, in parts of whole; "": not said
	whole              float64 //
}{
	{"Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Reset", "", 0},
	{"Anthropic-Ratelimit-Unified-5h-Status", "rejected", "Anthropic-Ratelimit-Unified-5h-Reset", "Anthropic-Ratelimit-Unified-5h-Utilization", 1},
	{"Anthropic-Ratelimit-Unified-7d-Status", "rejected", "Anthropic-Ratelimit-Unified-7d-Reset", "Anthropic-Ratelimit-Unified-7d-Utilization", 1},
	{"X-Codex-Primary-Used-Percent", "100", "X-Codex-Primary-Reset-After-Seconds", "X-Codex-Primary-Used-Percent", 100},
	{"X-Codex-Secondary-Used-Percent", "100", "X-Codex-Secondary-Reset-After-Seconds", "X-Codex-Secondary-Used-Percent", 100},
}

// ReadLimit collects what a refusal says of its limit: headers, body and message. Nothing in it is believed beyond its
// bounds, see ParseWait.
func ReadLimit(o Observation) Limit {
	var l Limit
	l.later("retry-after", bounded(float64(o.RetryAfter)))
	if o.Header != nil {
		l.headers(o)
	}
	e := dialect.ReadErrorLimit(o.Body)
	l.Burst, l.Model = e.PerMinute, l.Model || e.Model != "" || ofModel.MatchString(o.ErrorMessage)
	if e.PerDay || noQuota.MatchString(o.ErrorMessage) { // Google names a delay of seconds with the end of a day's quota, too
		l.Spent = true
		return l
	}
	l.later("body", ParseWait(e.RetryDelay, o.Now))
	l.later("body", ParseWait(e.ResetsAt, o.Now))
	l.message(o)
	return l
}

func (l *Limit) headers(o Observation) {
	read := func(name string) {
		l.later(strings.ToLower(name), ParseWait(o.Header(name), o.Now))
	}
	if ms, ok := number(o.Header("Retry-After-Ms")); ok {
		l.later("retry-after-ms", bounded(ms*float64(time.Millisecond)))
	}
	read("Retry-After")
	for _, w := range windows {
		left, known := number(o.Header(w.left))
		if known && left <= 0 || w.name != "" && strings.EqualFold(o.ErrorType, w.name) {
			read(w.reset)
		}
	}
	for _, q := range quotas {
		if state := o.Header(q.state); state != q.full {
			if used, err := strconv.ParseFloat(state, 64); err != nil || q.full != "100" || used < 100 {
				continue
			}
		}
		l.Spent = true
		read(q.reset)
	}
	if l.Spent { // seven_day_opus: the others of the account's models go on
		l.Model = strings.HasPrefix(o.Header("Anthropic-Ratelimit-Unified-Representative-Claim"), "seven_day_")
	}
}

var (
	waitWords = regexp.MustCompile(`(?i)(?:try again|try your request again|retry|available again|resets?) (?:in|after) (?:about )?((?:[0-9.]+ ?[a-z]+[ ,]*)+)`)
	dateWords = regexp.MustCompile(`(?i)(?:regain access|try again|available again) (?:on|at) ([0-9]{4}-[0-9]{2}-[0-9]{2}) at ([0-9]{2}:[0-9]{2}) UTC`)
	noQuota   = regexp.MustCompile(`(?i)\blimit: 0\b`)
	ofModel   = regexp.MustCompile(`(?i)^rate limit reached for [^ ]+ `)
)

// message reads the words of an error. The last time that is named counts; what precedes it may be a name of anybody's.
func (l *Limit) message(o Observation) {
	if found := waitWords.FindAllStringSubmatch(o.ErrorMessage, -1); len(found) > 0 {
		l.later("message", leadingDuration(found[len(found)-1][1]))
	}
	if found := dateWords.FindAllStringSubmatch(o.ErrorMessage, -1); len(found) > 0 {
		last := found[len(found)-1]
		l.later("message", ParseWait(last[1]+"T"+last[2]+":00Z", o.Now))
	}
}

// leadingDuration reads as much of a text as is a duration: "7m12s. Visit", "10 seconds or".
func leadingDuration(text string) time.Duration {
	words := strings.Fields(strings.TrimRight(text, ". ,"))
	for n := len(words); n > 0; n-- {
		if d, ok := duration(strings.TrimRight(strings.Join(words[:n], " "), ".,;")); ok {
			return d
		}
	}
	return 0
}

// spent says whether a refusal is the end of a quota. Google begins all of them with the words of the end, so that its
// details count before them.
func (l *Limit) spent(o Observation, v Verdict) bool {
	switch {
	case l.Spent || v.Class == Quota || named(o, quotaTypes):
		return true
	case l.Burst:
		return false
	case named(o, googleTypes):
		return begins(o, quotaPhrases) && (l.After == 0 || l.After > 2*time.Minute)
	}
	return begins(o, quotaPhrases) || has(o, billingWords)
}

// has is says, for words that no caller can have put there: the error is about money or a rate.
func has(o Observation, words []string) bool {
	return (o.Status == 429 || o.Status == 402) && says(o, words)
}

// block is the account's block of a refusal: until everything that is known is over, never beyond the cap; then it is
// tried again (pains 46, 50).
func (l *Limit) block(p Policy, fallback time.Duration, reason string) Block {
	most := p.blockMax()
	b := Block{For: l.After, Reason: reason, Source: l.Source, Model: l.Model}
	if b.For == 0 {
		b.For, b.Source = fallback, "default"
	}
	if reason == reasonQuota { // nobody knows whether somebody pays the bill sooner, or at all; surely not within seconds
		if b.Probe = true; b.For < p.blockDefault() {
			b.For, b.Source = p.blockDefault(), "default"
		}
	}
	if b.For = max(b.For, time.Second); b.For > most {
		b.For, b.Resets, b.Probe = most, b.For, true
	}
	return b
}

// Soonest is the wait until the first of the candidates' deadlines, for Retry-After when all are out of service. Zero
// deadlines are not known and do not count; one that is over is a second. 0: none is known.
func Soonest(now time.Time, deadlines ...time.Time) time.Duration {
	var soonest time.Duration
	for _, at := range deadlines {
		if at.IsZero() {
			continue
		}
		if d := max(at.Sub(now), time.Second); soonest == 0 || d < soonest {
			soonest = d
		}
	}
	return soonest
}
