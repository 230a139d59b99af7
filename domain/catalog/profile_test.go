package catalog

import (
	"reflect"
	"slices"
	"testing"
)

// §3 rows 1, 5, 8, 9, 12; B50, D16, D37, D48: a profile is a set of other defaults, and what is set counts more.
func TestAProfileOnlySetsDefaults(t *testing.T) {
	if want := []string{"penstock", "autorouter", "gproxy", "orchestrator", "sub2api"}; !slices.Equal(Profiles(), want) {
		t.Errorf("%v", Profiles())
	}
	for _, name := range Profiles() {
		s, ok := ProfileSettings(name)
		if !ok || (name == DefaultProfile) != reflect.DeepEqual(s, DefaultSettings()) {
			t.Errorf("%s: %v, %+v", name, ok, s)
		}
	}
	if _, ok := ProfileSettings("strict"); ok {
		t.Error("there is no such profile")
	}
	d, _ := ProfileSettings("orchestrator")
	state := NewState()
	state.Defaults = &d
	state.Evolve(&SettingRegistered{Setting{Name: "failover.max_attempts", Value: "7"}}, 1)
	for _, s := range []*State{state, state.Clone()} {
		got := Build(s, nil).Settings
		if got.FailoverOnAuth || got.OnExhausted != OnExhaustedBadGateway || got.Guards.AuthFailures != 5 || got.MaxAttempts != 7 {
			t.Errorf("%+v", got)
		}
	}
	state.Evolve(&SettingRemoved{Name: "failover.max_attempts"}, 2)
	if got := Build(state, nil).Settings.MaxAttempts; got != 3 {
		t.Errorf("without it: %d", got)
	}
}
