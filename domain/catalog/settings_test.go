package catalog

import "testing"

func TestRetentionIsInWholeDaysAndKeepsAllUnlessItIsSet(t *testing.T) {
	if s := DefaultSettings(); s.RetentionEvents != 0 || s.RetentionLog != 0 || s.BooksArchive != "" {
		t.Errorf("by default: %+v", s)
	}
	for _, c := range []struct {
		name, value, canonical string
		ok                     bool
	}{
		{"retention.events", "90", "90", true}, {"retention.events", "007", "7", true}, {"retention.log", "0", "0", true},
		{"retention.events", "-1", "", false}, {"retention.events", "90d", "", false}, {"retention.log", "36501", "", false},
		{"retention.log", "", "", false}, {"retention.log", "1.5", "", false},
		{"books.archive", "archive/2026", "archive/2026", true}, {"books.archive", "", "", true}, {"books.archive", "a\nb", "", false},
	} {
		var s Settings
		canonical, field, err := s.put(c.name, c.value)
		if (err == nil) != c.ok || canonical != c.canonical || err != nil && field != "value" {
			t.Errorf("%s %q: %q, %s, %v", c.name, c.value, canonical, field, err)
		}
	}
	var s Settings
	for name, value := range map[string]string{"retention.events": "90", "retention.log": "30", "books.archive": "a"} {
		if _, _, err := s.put(name, value); err != nil {
			t.Error(err)
		}
	}
	if s.RetentionEvents != 90 || s.RetentionLog != 30 || s.BooksArchive != "a" {
		t.Errorf("%+v", s)
	}
}
