package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values of the setting scheduling.strategy and of Group.Strategy: who comes first within a tier.
const (
	StrategyWeighted    = "weighted"     // chance by weight × health (C23, C54)
	StrategyRoundRobin  = "round_robin"  // in turn (E21, E22)
	StrategyLeastLoaded = "least_loaded" // the smallest share of its slots in use or waited for
	StrategyLRU         = "lru"          // the longest unused
	StrategyScore       = "score"        // the best by ScoreWeights (B19, B50)
)

var strategies = [...]string{StrategyWeighted, StrategyRoundRobin, StrategyLeastLoaded, StrategyLRU, StrategyScore}

// Values of the setting affinity.mode and of Group.Affinity.
const (
	AffinityBoundWins  = "bound_wins"  // the bound account wins over tiers; migration moves sessions up
	AffinityLeadingRun = "leading_run" // tier and health win: the bound account only goes first among its equals
	AffinityOff        = "off"         // only what pins is kept together
)

var affinities = [...]string{AffinityBoundWins, AffinityLeadingRun, AffinityOff}

// Values of the setting affinity.reasoning: what becomes of a request with encrypted reasoning when the account that
// wrote it cannot serve.
const (
	ReasoningPin  = "pin"  // it is refused: no other account can read it
	ReasoningDrop = "drop" // another account gets the request without the reasoning
)

// Values of Migration.Metric and Migration.Direction.
const (
	MetricTokens       = "tokens"
	MetricLength       = "length"
	DirectionBelow     = "below"
	DirectionAtOrAbove = "at_or_above"
)

const thresholdMax = 10_000_000

// Score is how much each factor of the strategy score counts. A factor is 1 for the best of the tier and 0 for the
// worst; a weight of 0 leaves it out.
type Score struct {
	Priority  float64 // an account's priority; an upstream's weight
	Load      float64 // slots that are free
	Queue     float64 // a short queue
	ErrorRate float64 // few recent failures
	TTFT      float64 // a short time to the first content
	Reset     float64 // quota that is renewed soon, so that what would lapse is used first
	Quota     float64 // quota that is left
	Cost      float64 // a low multiplier of the upstream
	Idle      float64 // the longest unused
}

// Scheduling is how plans are made. Defaults come from the table of settings.
type Scheduling struct {
	Strategy       string
	Score          Score
	ScoreTop       int    // among how many of the best the strategy score draws; 1: the best is first
	LastResort     bool   // an upstream whose accounts are all blocked comes last in the plan instead of being left out (E19)
	PublicOnly     bool   // a model must be one of the list of models, or upstream/model (E13-E17)
	PerUpstream    int    // calls to one upstream per request, 0: as many as the request has
	PerAccount     int    // calls with one account per request, the repeated ones with it; 0: as many as the request has
	Affinity       string // AffinityBoundWins, AffinityLeadingRun, AffinityOff
	Sliding        time.Duration
	Absolute       time.Duration
	Bindings       int           // kept at most
	DeriveSession  bool          // from the leading content, when the client names no session
	EscapeTTFT     time.Duration // a bound upstream that is slower is left; 0: never
	EscapeFailures float64       // share of failures from which on a bound upstream is left; 0: never
	DropReasoning  bool
}

// StrategyOf is the strategy for a key: its group's, else the setting.
func (s *Snapshot) StrategyOf(k *Key) string {
	if g := s.groups[k.Group]; g != nil && g.Strategy != "" {
		return g.Strategy
	}
	return s.Settings.Scheduling.Strategy
}

// AffinityOf is the affinity for a key: its group's, else the setting.
func (s *Snapshot) AffinityOf(k *Key) string {
	if g := s.groups[k.Group]; g != nil && g.Affinity != "" {
		return g.Affinity
	}
	return s.Settings.Scheduling.Affinity
}

// schedulingSettings are rows of the table of settings.
var schedulingSettings = [...]setting{
	{"failover.per_upstream", "0", whole(0, 1000, "", func(s *Settings) *int { return &s.Scheduling.PerUpstream })},
	{"failover.per_account", "3", whole(0, 1000, "", func(s *Settings) *int { return &s.Scheduling.PerAccount })},
	{"scheduling.strategy", StrategyWeighted, choice(func(s *Settings) *string { return &s.Scheduling.Strategy }, strategies[:]...)},
	{"scheduling.score", "priority=1,load=1,queue=0.7,error_rate=0.8,ttft=0.5,reset=0,quota=0,cost=0,idle=0", setScore},
	{"scheduling.score_top", "7", whole(1, 1000, "", func(s *Settings) *int { return &s.Scheduling.ScoreTop })},
	{"scheduling.all_blocked", "last_resort", either("last_resort", "reject", func(s *Settings) *bool { return &s.Scheduling.LastResort })},
	{"scheduling.public_names_only", "false", boolean(func(s *Settings) *bool { return &s.Scheduling.PublicOnly })},
	{"affinity.mode", AffinityBoundWins, choice(func(s *Settings) *string { return &s.Scheduling.Affinity }, affinities[:]...)},
	{"affinity.sliding", "5m", span(24*time.Hour, false, func(s *Settings) *time.Duration { return &s.Scheduling.Sliding })},
	{"affinity.absolute", "30m", span(week, false, func(s *Settings) *time.Duration { return &s.Scheduling.Absolute })},
	{"affinity.bindings", "10000", whole(1, 1_000_000, "", func(s *Settings) *int { return &s.Scheduling.Bindings })},
	{"affinity.session", "client", either("content", "client", func(s *Settings) *bool { return &s.Scheduling.DeriveSession })},
	{"affinity.escape_ttft", "15s", span(time.Hour, true, func(s *Settings) *time.Duration { return &s.Scheduling.EscapeTTFT })},
	{"affinity.escape_failures", "0.5", func(s *Settings, v string) (string, error) {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= 0 && f <= 1) {
			return "", errors.New("must be 0..1 (0 is never)")
		}
		s.Scheduling.EscapeFailures = f
		return strconv.FormatFloat(f, 'f', -1, 64), nil
	}},
	{"affinity.reasoning", ReasoningPin, either(ReasoningDrop, ReasoningPin, func(s *Settings) *bool { return &s.Scheduling.DropReasoning })},
}

func span(high time.Duration, zero bool, field func(*Settings) *time.Duration) func(*Settings, string) (string, error) {
	return func(s *Settings, v string) (string, error) {
		d, err := time.ParseDuration(v)
		if v == "0" && zero {
			d, err = 0, nil
		}
		if err != nil || d > high || d < time.Millisecond && (d != 0 || !zero) {
			or := ""
			if zero {
				or = " (0 is never)"
			}
			return "", fmt.Errorf("must be 1ms..%s%s", Duration(high), or)
		}
		*field(s) = d
		if d == 0 {
			return "0", nil
		}
		return Duration(d).String(), nil
	}
}

// factors are the weights by name, in the order of their canonical text.
var factors = [...]struct {
	name string
	of   func(*Score) *float64
}{
	{"priority", func(s *Score) *float64 { return &s.Priority }}, {"load", func(s *Score) *float64 { return &s.Load }},
	{"queue", func(s *Score) *float64 { return &s.Queue }}, {"error_rate", func(s *Score) *float64 { return &s.ErrorRate }},
	{"ttft", func(s *Score) *float64 { return &s.TTFT }}, {"reset", func(s *Score) *float64 { return &s.Reset }},
	{"quota", func(s *Score) *float64 { return &s.Quota }}, {"cost", func(s *Score) *float64 { return &s.Cost }},
	{"idle", func(s *Score) *float64 { return &s.Idle }},
}

// setScore reads "load=2,ttft=1": what is not named counts nothing.
func setScore(s *Settings, v string) (string, error) {
	var score Score
	var seen [len(factors)]bool
	for part := range strings.SplitSeq(v, ",") {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		f, err := strconv.ParseFloat(text, 64)
		at := slices.IndexFunc(factors[:], func(row struct {
			name string
			of   func(*Score) *float64
		}) bool {
			return row.name == name
		})
		switch {
		case !ok || at < 0:
			names := make([]string, len(factors))
			for i, row := range factors {
				names[i] = row.name
			}
			return "", fmt.Errorf("must be weights such as load=1,ttft=0.5 of %s", strings.Join(names, ", "))
		case seen[at]:
			return "", fmt.Errorf("names %s twice", name)
		case err != nil || !(f >= 0 && f <= 1000):
			return "", fmt.Errorf("the weight of %s must be 0..1,000", name)
		}
		seen[at] = true
		*factors[at].of(&score) = f
	}
	var out []string
	for _, row := range factors {
		if f := *row.of(&score); f > 0 {
			out = append(out, row.name+"="+strconv.FormatFloat(f, 'f', -1, 64))
		}
	}
	if len(out) == 0 {
		return "", errors.New("must have a weight above 0")
	}
	s.Scheduling.Score = score
	return strings.Join(out, ","), nil
}

func (c *checker) oneOf(field, value string, of []string) {
	if value != "" && !slices.Contains(of, value) {
		c.fail(field, "must be one of %s", strings.Join(of, ", "))
	}
}

func (m *Migration) clone() *Migration {
	if m == nil {
		return nil
	}
	v := *m
	return &v
}

func (c *checker) migration(given *Migration) *Migration {
	m := given.clone()
	if m == nil {
		return nil
	}
	if m.Metric == "" {
		m.Metric = MetricTokens
	}
	if m.Direction == "" {
		m.Direction = DirectionBelow
	}
	c.oneOf("affinity_migration.metric", m.Metric, []string{MetricTokens, MetricLength})
	c.oneOf("affinity_migration.direction", m.Direction, []string{DirectionBelow, DirectionAtOrAbove})
	c.between("affinity_migration.threshold", int(m.Threshold), 1, thresholdMax, "")
	return m
}

// Moves says whether a session of that many input tokens, and a request of that many bytes, may move up to the
// upstream. What is not known (0) never moves.
func (m *Migration) Moves(tokens, length int64) bool {
	if m == nil || !m.Enabled {
		return false
	}
	size := tokens
	if m.Metric == MetricLength {
		size = length
	}
	if size <= 0 {
		return false
	}
	return size < m.Threshold == (m.Direction != DirectionAtOrAbove)
}
