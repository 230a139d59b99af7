package dialect

import (
	"bytes"
	"unicode/utf8"
)

// sessionMax bounds a session id, in characters; a longer one is no session.
const sessionMax = 128

// session picks what the client groups its requests by.
func (s *requestScan) session() string {
	switch s.d {
	case AnthropicMessages:
		return anthropicSession(s.userID)
	case Gemini:
		return ""
	}
	for _, raw := range [...][]byte{s.cacheKey, s.metaSession, s.previous} {
		if id := plain(raw); sessionID(id) {
			return string(id)
		}
	}
	return ""
}

func sessionID(id []byte) bool {
	return len(id) > 0 && len(id) <= sessionMax*utf8.UTFMax && utf8.RuneCount(id) <= sessionMax
}

// anthropicSession finds the session in metadata.user_id: today's clients send a JSON object inside the string, older
// ones user_{hash}_account_{uuid}_session_{uuid}.
func anthropicSession(raw []byte) string {
	const mark = "session_"
	var room [512]byte
	if len(raw) > 4096 {
		return ""
	}
	id := unescape(room[:0], raw)
	found := []byte(nil)
	if c := (cursor{b: id}); c.peek() == '{' {
		c.object()
		for {
			key, ok := c.member()
			if !ok {
				break
			}
			if value := c.raw(); string(key) == "session_id" {
				found = plain(value)
			}
		}
		if !c.end() {
			return ""
		}
	} else if i := bytes.LastIndex(id, []byte(mark)); i >= 0 {
		found = id[i+len(mark):]
	}
	if !sessionID(found) {
		return ""
	}
	return string(found)
}
