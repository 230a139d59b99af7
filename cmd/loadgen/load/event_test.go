package load

import "testing"

func TestEventsAndTerminalAreSeenHoweverTheBytesAreCut(t *testing.T) {
	const body = ": comment\n\nevent: a\ndata: {\"data: \":1}\n\nid: data:\ndata:2\r\n\r\ndata\ndata: [DONE]\n\n"
	for i := range len(body) {
		for j := i; j < len(body); j++ {
			f := newFinder([][]byte{[]byte("data: [DONE]"), []byte("other")})
			var l lineScanner
			events := 0
			for _, p := range []string{body[:i], body[i:j], body[j:]} {
				f.write([]byte(p))
				events += l.write([]byte(p))
			}
			if events != 3 || !f.found {
				t.Fatalf("cut at %d and %d: %d events, terminal %v", i, j, events, f.found)
			}
		}
	}
}

func TestAFinderDoesNotFindWhatIsNotThere(t *testing.T) {
	f := newFinder([][]byte{[]byte("abcd")})
	for _, p := range []string{"ab", "xcd", "a", "bc", "", "abc", "xd", "bcd"} {
		f.write([]byte(p))
	}
	if f.found {
		t.Error("found")
	}
	f.write([]byte("abc"))
	f.reset()
	if f.write([]byte("d")); f.found {
		t.Error("found over a reset")
	}
	for _, p := range []string{"a", "b", "c", "d"} {
		f.write([]byte(p))
	}
	if !f.found {
		t.Error("not found byte by byte")
	}
}
