package catalog

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/domain/access"
	"github.com/penstock/penstock/domain/limit"
	"github.com/penstock/penstock/domain/money"
)

// Guards are the limits of the gateway as a whole. Defaults come from the table of settings.
type Guards struct {
	PlatformDaily   money.Amount // USD that all callers together may spend per day (UTC); 0: unlimited
	PlatformMonthly money.Amount // per month (UTC); 0: unlimited
	PlatformStrict  bool         // kept as strict; else postpaid
	AuthFailures    int          // failed authentications of one address within AuthWindow, then it is blocked; 0: never
	AuthWindow      time.Duration
	AuthBlock       time.Duration // for how long it is blocked
	Proxies         *access.IPs   // whose X-Forwarded-For is believed; nil: nobody's
	Origins         []string      // of web pages that may call from a browser, as browsers write them
}

// Platform is the budget of the platform for the machine; without rules there is none.
func (g *Guards) Platform() limit.Money {
	var m limit.Money
	if g.PlatformStrict {
		m.Mode = limit.Strict
	}
	if g.PlatformDaily > 0 {
		m.Rules = append(m.Rules, limit.Rule{Period: limit.Period{Kind: limit.Daily}, Limit: g.PlatformDaily})
	}
	if g.PlatformMonthly > 0 {
		m.Rules = append(m.Rules, limit.Rule{Period: limit.Period{Kind: limit.Monthly}, Limit: g.PlatformMonthly})
	}
	return m
}

// Throttle is the protection of authentication for the machine.
func (g *Guards) Throttle() access.ThrottlePolicy {
	return access.ThrottlePolicy{Failures: g.AuthFailures, Window: g.AuthWindow, Block: g.AuthBlock}
}

const (
	authFailuresMax = 1000
	originsMax      = 100
)

var limitSettings = [...]setting{
	{"platform.daily", "0", usdSetting("unlimited", func(s *Settings) *money.Amount { return &s.Guards.PlatformDaily })},
	{"platform.monthly", "0", usdSetting("unlimited", func(s *Settings) *money.Amount { return &s.Guards.PlatformMonthly })},
	{"platform.budget", limit.Postpaid.String(), either(limit.Strict.String(), limit.Postpaid.String(),
		func(s *Settings) *bool { return &s.Guards.PlatformStrict })},
	{"auth.failures", "20", whole(0, authFailuresMax, " (0 blocks nobody)", func(s *Settings) *int { return &s.Guards.AuthFailures })},
	{"trusted_proxies", "", func(s *Settings, v string) (string, error) {
		var list []string
		for _, one := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }) {
			p, err := access.ParsePrefix(one)
			if err != nil {
				return "", fmt.Errorf("must be addresses and ranges such as 10.0.0.0/8, with commas between: %s %w", one, err)
			}
			list = append(list, p.String())
		}
		s.Guards.Proxies = nil
		if len(list) > 0 {
			s.Guards.Proxies, _ = access.ParseIPs(list, nil)
		}
		return strings.Join(list, ","), nil
	}},
	{"cors.origins", "", func(s *Settings, v string) (string, error) {
		list := strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
		if len(list) > originsMax {
			return "", fmt.Errorf("must be at most %d origins", originsMax)
		}
		for i, one := range list {
			u, err := url.Parse(strings.ToLower(one))
			if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path+u.RawQuery+u.Fragment != "" {
				return "", fmt.Errorf("must be origins of web pages such as https://app.example.com, with commas between: %q is none", one)
			}
			list[i] = u.Scheme + "://" + u.Host
		}
		s.Guards.Origins = list
		return strings.Join(list, ","), nil
	}},
	{"auth.window", "1m", within(time.Second, time.Hour, func(s *Settings) *time.Duration { return &s.Guards.AuthWindow })},
	{"auth.block", "1m", within(time.Second, 24*time.Hour, func(s *Settings) *time.Duration { return &s.Guards.AuthBlock })},
}

// usdSetting takes an amount; zero is what 0 means, for the error.
func usdSetting(zero string, field func(*Settings) *money.Amount) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		a, err := money.Parse(v)
		if err != nil || a < 0 || a > usdMax*money.USD {
			return "", errors.New("must be an amount of USD, at most " + grouped(usdMax) + " (0 is " + zero + ")")
		}
		*field(s) = a
		return a.String(), nil
	}
}
