package catalog

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/gate"
)

// What a file says about waiting reaches the machine of the slots (pains 43, 44, 45).
func TestWhatAFileSaysAboutAQueueIsWhatItsGateDoes(t *testing.T) {
	for _, c := range []struct {
		says string
		file string // the value of queue
		want *gate.Queue
	}{
		{"no queue", `null`, nil},
		{"a queue that is switched off", `{"enabled":false}`, nil},
		{"the defaults: in the order of arrival for 30 s", `{}`, &gate.Queue{Timeout: 30 * time.Second}},
		{"everything", `{"timeout":"20s","max_length":7,"discipline":"fair","age_every":"5s","fail_fast":true}`,
			&gate.Queue{Timeout: 20 * time.Second, MaxLength: ptr(7), Discipline: gate.Fair, AgeEvery: 5 * time.Second, FailFast: true}},
	} {
		s := NewState()
		r, _, err := DecodeResource(KindUpstream, []byte(`{"id":"a","base_url":"http://h","capabilities":["openai_responses"],"queue":`+c.file+`}`))
		if err != nil {
			t.Fatalf("%s: %v", c.says, err)
		}
		apply(t, s, r)
		got, _, _ := s.Get(KindUpstream, "a")
		if g := got.(*Upstream).Queue.Gate(); !reflect.DeepEqual(g, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.says, g, c.want)
		}
	}
}

func TestAKeySaysHowItsRequestsWait(t *testing.T) {
	hash := `"hash":"sha256:` + strings.Repeat("ab", 32) + `"`
	for _, c := range []struct {
		file   string
		class  gate.Class
		weight int
		stored Key // of the two fields
		fault  string
	}{
		{``, gate.Normal, 1, Key{}, ""},
		{`,"priority":"normal","weight":1`, gate.Normal, 1, Key{}, ""}, // the same as absent: nothing is appended for it
		{`,"priority":"high","weight":1000`, gate.High, 1000, Key{Priority: "high", Weight: ptr(1000)}, ""},
		{`,"priority":"low","weight":3`, gate.Low, 3, Key{Priority: "low", Weight: ptr(3)}, ""},
		{`,"priority":"urgent"`, 0, 0, Key{}, "key k: priority: must be high, normal or low"},
		{`,"priority":1`, 0, 0, Key{}, "key k: priority: must be a string"},
		{`,"weight":0`, 0, 0, Key{}, "key k: weight: must be 1..1,000"},
		{`,"weight":1001`, 0, 0, Key{}, "key k: weight: must be 1..1,000"},
	} {
		s := NewState()
		r, _, err := DecodeResource(KindKey, []byte(`{"id":"k",`+hash+c.file+`}`))
		if err == nil {
			r, err = normalize(s, r)
		}
		if err != nil || c.fault != "" {
			if err == nil || err.Error() != c.fault {
				t.Errorf("%s: got %v, want %s", c.file, err, c.fault)
			}
			continue
		}
		k := r.(*Key)
		if k.Class() != c.class || k.FairWeight() != c.weight || k.Priority != c.stored.Priority || !reflect.DeepEqual(k.Weight, c.stored.Weight) {
			t.Errorf("%s: got %v, %d, %+v", c.file, k.Class(), k.FairWeight(), k)
		}
	}
}

func TestSignsOfLifeBeginAfter45sAndComeEvery10s(t *testing.T) {
	if got, want := DefaultSettings().KeepAlive, (dialect.KeepAlive{After: 45 * time.Second, Every: 10 * time.Second}); got != want {
		t.Fatalf("got %+v", got)
	}
	for _, c := range []struct{ name, value, canonical, fault string }{
		{"keepalive.after", "0", "0s", ""},
		{"keepalive.after", "90s", "1m30s", ""},
		{"keepalive.after", "999ms", "", "must be 0s (never) or a duration of 1s..10m"},
		{"keepalive.after", "11m", "", "must be 0s (never) or a duration of 1s..10m"},
		{"keepalive.after", "never", "", "must be 0s (never) or a duration of 1s..10m"},
		{"keepalive.every", "15s", "15s", ""},
		{"keepalive.every", "0s", "", "must be a duration of 1s..10m"},
	} {
		var s Settings
		got, _, err := s.put(c.name, c.value)
		if got != c.canonical || (err == nil) != (c.fault == "") || err != nil && err.Error() != c.fault {
			t.Errorf("%s %s: got %q, %v", c.name, c.value, got, err)
		}
	}
}
