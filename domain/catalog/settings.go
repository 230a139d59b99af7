package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/money"
)

// Settings are the named values in force. Defaults come from the table below.
type Settings struct {
	MaxAttempts        int            // calls to upstreams per request; 0: until all candidates are exhausted
	FailoverOn400      bool           // an upstream's 400 whose message matches the filter goes to the next upstream
	FailoverOn400Match *regexp.Regexp // the filter
	FailoverOnAuth     bool           // 401 and 403 go to the next account; false ends the request (D16)
	OnExhausted        string         // OnExhaustedUnified, OnExhaustedLastAnswer, OnExhaustedBadGateway
	BlockDefault       time.Duration  // how long a refusal that names no time blocks an account
	BlockMax           time.Duration  // nobody's hint blocks an account longer; then it is tried again
	SameAccountRetries int            // per request, where nobody else is left and the upstream named a short wait
	SameAccountWait    time.Duration  // the longest such wait
	AbandonedBilling   string         // AbandonedNone, AbandonedInput, AbandonedLastProgress
	ChatUsage          string         // ChatUsageInject, ChatUsageEstimate
	BooksArchive       string         // folder for the events of closed days, from the data folder on; "": none is written
	RetentionEvents    int            // days for which events of requests are kept once their day is closed; 0: for ever
	RetentionLog       int            // days for which lines of the request log are kept, at most as long as events; 0: as long
	BalanceLow         money.Amount   // USD; operators are told of users whose balance falls below it; 0: of nobody
	KeepAlive          dialect.KeepAlive
	Scheduling         Scheduling
	Guards             Guards
}

// What happens when no attempt succeeded.
const (
	OnExhaustedUnified    = "unified"     // our own error, 503
	OnExhaustedLastAnswer = "last_answer" // the last upstream's answer unchanged
	OnExhaustedBadGateway = "bad_gateway" // our own error, 502
)

// What a request costs whose node died.
const (
	AbandonedNone         = "none"
	AbandonedInput        = "input"
	AbandonedLastProgress = "last_progress"
)

// How the usage of a chat stream is got.
const (
	ChatUsageInject   = "inject"   // ask the upstream for it and withhold the extra chunk
	ChatUsageEstimate = "estimate" // leave the request alone and count
)

// setting is one row of the table. set also makes the value canonical.
type setting struct {
	name     string
	fallback string
	set      func(into *Settings, value string) (canonical string, err error)
}

var settings = [...]setting{
	{"failover.max_attempts", "6", whole(0, 1000, " (0 is until exhausted)", func(s *Settings) *int { return &s.MaxAttempts })},
	{"failover_on_400", "false", boolean(func(s *Settings) *bool { return &s.FailoverOn400 })},
	{"failover_on_400_match", "(?i)anthropic-beta|beta feature|thinking|signature|tool_use|tool_result|tools",
		func(s *Settings, v string) (string, error) {
			re, err := regexp.Compile(v)
			if err != nil || v == "" {
				return "", errors.New("must be a regular expression")
			}
			s.FailoverOn400Match = re
			return v, nil
		}},
	{"failover_on_auth", "true", boolean(func(s *Settings) *bool { return &s.FailoverOnAuth })},
	{"on_exhausted", OnExhaustedUnified, choice(func(s *Settings) *string { return &s.OnExhausted },
		OnExhaustedUnified, OnExhaustedLastAnswer, OnExhaustedBadGateway)},
	{"block.default", "30s", within(time.Second, 24*time.Hour, func(s *Settings) *time.Duration { return &s.BlockDefault })},
	{"block.max", "5m", within(time.Second, 24*time.Hour, func(s *Settings) *time.Duration { return &s.BlockMax })},
	{"retry.same_account", "1", whole(0, 5, "", func(s *Settings) *int { return &s.SameAccountRetries })},
	{"retry.same_account_wait", "2s", within(time.Millisecond, time.Minute, func(s *Settings) *time.Duration { return &s.SameAccountWait })},
	{"abandoned_billing", AbandonedLastProgress, choice(func(s *Settings) *string { return &s.AbandonedBilling },
		AbandonedNone, AbandonedInput, AbandonedLastProgress)},
	{"chat_usage", ChatUsageInject, choice(func(s *Settings) *string { return &s.ChatUsage },
		ChatUsageInject, ChatUsageEstimate)},
	{"keepalive.after", "45s", keepAliveAfter},
	{"keepalive.every", "10s", within(time.Second, 10*time.Minute, func(s *Settings) *time.Duration { return &s.KeepAlive.Every })},
	{"books.archive", "", func(s *Settings, v string) (string, error) {
		if strings.ContainsAny(v, "\x00\n") {
			return "", errors.New("must be the path of a folder")
		}
		s.BooksArchive = v
		return v, nil
	}},
	{"retention.events", "0", days(func(s *Settings) *int { return &s.RetentionEvents })},
	{"retention.log", "0", days(func(s *Settings) *int { return &s.RetentionLog })},
	{"alerts.balance_low", "0", usdSetting("of nobody", func(s *Settings) *money.Amount { return &s.BalanceLow })},
}

// table is every row.
var table = slices.Concat(settings[:], schedulingSettings[:], limitSettings[:])

// daysMax is a hundred years.
const daysMax = 36500

func days(field func(*Settings) *int) func(*Settings, string) (string, error) {
	return whole(0, daysMax, " days (0 is for ever)", field)
}

// whole takes the numbers of a range; note follows it where it must be said.
func whole(low, high int, note string, field func(*Settings) *int) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return "", fmt.Errorf("must be %s..%s%s", grouped(low), grouped(high), note)
		}
		*field(s) = n
		return strconv.Itoa(n), nil
	}
}

func within(low, high time.Duration, field func(*Settings) *time.Duration) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		d, err := time.ParseDuration(v)
		if err != nil || d < low || d > high {
			return "", fmt.Errorf("must be a duration of %s..%s", Duration(low), Duration(high))
		}
		*field(s) = d
		return Duration(d).String(), nil
	}
}

func boolean(field func(*Settings) *bool) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		if v != "true" && v != "false" {
			return "", errors.New("must be true or false")
		}
		*field(s) = v == "true"
		return v, nil
	}
}

// either is a choice of two words for a boolean.
func either(yes, no string, field func(*Settings) *bool) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		if v != yes && v != no {
			return "", fmt.Errorf("must be %s or %s", yes, no)
		}
		*field(s) = v == yes
		return v, nil
	}
}

func choice(field func(*Settings) *string, of ...string) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		if !slices.Contains(of, v) {
			return "", fmt.Errorf("must be one of %s", strings.Join(of, ", "))
		}
		*field(s) = v
		return v, nil
	}
}

// keepAliveAfter takes 0 for never.
func keepAliveAfter(s *Settings, v string) (string, error) {
	d, err := time.ParseDuration(v)
	if err != nil || d != 0 && (d < time.Second || d > 10*time.Minute) {
		return "", errors.New("must be 0s (never) or a duration of 1s..10m")
	}
	s.KeepAlive.After = d
	return Duration(d).String(), nil
}

// DefaultSettings are in force in an empty catalogue.
func DefaultSettings() Settings {
	var s Settings
	for _, row := range table {
		if _, err := row.set(&s, row.fallback); err != nil {
			panic("catalog: the default of " + row.name + " is not valid: " + err.Error())
		}
	}
	return s
}

// put sets one value. The error is about the name or the value, as field says.
func (s *Settings) put(name, value string) (canonical, field string, err error) {
	for _, row := range table {
		if row.name == name {
			canonical, err = row.set(s, value)
			return canonical, "value", err
		}
	}
	known := make([]string, len(table))
	for i, row := range table {
		known[i] = row.name
	}
	return "", "name", fmt.Errorf("unknown setting; known are %s", strings.Join(known, ", "))
}

func (c *checker) setting(r Setting) Resource {
	var scratch Settings
	if canonical, field, err := scratch.put(r.Name, r.Value); err != nil {
		c.fail(field, "%v", err)
	} else {
		r.Value = canonical
	}
	return &r
}
