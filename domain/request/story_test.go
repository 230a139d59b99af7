package request

import (
	"testing"
	"time"
)

func TestAStoryIsTheFoldOfItsFacts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s Story
	if s.Ended() || s.Final() != nil || s.Ask() != (Ask{}) {
		t.Errorf("an empty story tells something: %+v", s)
	}
	for i, f := range []any{
		&Admitted{Ask: Ask{Key: "k", Model: "m"}}, &Queued{Ticket: 7}, &Resumed{Upstream: "a"}, &Dispatched{N: 1, Upstream: "a"},
		&Failed{N: 1, Class: "http_5xx"}, &Dispatched{N: 2, Upstream: "b"}, &Progressed{N: 2}, &Settled{Outcome: Completed},
	} {
		s.Evolve(f, at.Add(time.Duration(i)*time.Second))
	}
	if !s.Ended() || s.Facts != 8 || s.Queued.Ticket != 7 || s.Resumed.Upstream != "a" || !s.AdmittedAt.Equal(at) {
		t.Errorf("%+v", s)
	}
	if len(s.Attempts) != 2 || s.Attempts[0].Failed == nil || s.Final().Failed != nil || s.Final().Dispatched.Upstream != "b" {
		t.Errorf("attempts %+v", s.Attempts)
	}
	if s.Ask().Key != "k" || s.EndedAt.Sub(s.AdmittedAt) != 7*time.Second {
		t.Errorf("%+v", s)
	}
}

func TestAFactThatFitsNowhereOnlyCounts(t *testing.T) {
	var s Story
	s.Evolve(&Failed{N: 5}, time.Time{})
	s.Evolve(struct{}{}, time.Time{})
	if s.Facts != 2 || s.Ended() || len(s.Attempts) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestARejectedRequestEndsByWhoseDoingItWas(t *testing.T) {
	for code, want := range map[string]Outcome{"CLIENT_DISCONNECTED": Cancelled, "INVALID_API_KEY": RejectedOut, "": RejectedOut} {
		r := &Rejected{Code: code, Ask: Ask{Key: "k"}}
		var s Story
		s.Evolve(r, time.Time{})
		if r.Outcome() != want || !s.Ended() || s.Ask().Key != "k" {
			t.Errorf("%s: %s, %+v", code, r.Outcome(), s)
		}
	}
}
