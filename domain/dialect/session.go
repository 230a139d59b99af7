package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	if s.d == OpenAIResponses {
		for _, raw := range [...][]byte{s.previous, s.conversation} {
			if id := plain(raw); s.r.Continuation == "" && sessionID(id) {
				s.r.Continuation = string(id)
			}
		}
	}
	for _, raw := range [...][]byte{s.cacheKey, s.metaSession, s.conversation} {
		if id := plain(raw); sessionID(id) {
			return string(id)
		}
	}
	if s.d == OpenAIResponses {
		return s.r.Continuation
	}
	if id := plain(s.previous); sessionID(id) {
		return string(id)
	}
	return ""
}

// idOf reads a string, or the string in the member "id" of an object.
func (s *requestScan) idOf() (id []byte) {
	if s.peek() != '{' {
		return s.raw()
	}
	s.object()
	for {
		key, ok := s.member()
		if !ok {
			return id
		}
		if raw := s.raw(); string(key) == "id" {
			id = raw
		}
	}
}

// leadMax is how many messages may come before the first one of the user.
const leadMax = 8

// history reads the messages: which ones lead, and whether an account's own ciphertext is among them.
func (s *requestScan) history() {
	if s.peek() != '[' {
		s.r.Lead = s.skip()
		return
	}
	s.array()
	open := true
	for n := 0; s.element(); n++ {
		if !open && s.d != OpenAIResponses {
			s.skip()
			continue
		}
		s.peek()
		from := s.i
		user := s.message()
		if open {
			if n == 0 {
				s.r.Lead.Start = from
			}
			s.r.Lead.End = s.i
			open = !user && n+1 < leadMax
		}
	}
}

// message reads one message or item and says whether it is the user's.
func (s *requestScan) message() (user bool) {
	if !s.object() {
		return false
	}
	user = s.d == Gemini // who names no role is the user
	reasoning, secret := false, false
	for {
		key, ok := s.member()
		if !ok {
			break
		}
		switch string(key) {
		case "role":
			user = string(s.raw()) == "user"
		case "type":
			reasoning = string(s.raw()) == "reasoning"
		case "encrypted_content":
			secret = len(s.raw()) > 0
		default:
			s.skip()
		}
	}
	s.r.EncryptedReasoning = s.r.EncryptedReasoning || secret && reasoning && s.d == OpenAIResponses
	s.r.EncryptedOther = s.r.EncryptedOther || secret && !reasoning && s.d == OpenAIResponses
	return user
}

// leadBytes is how much of either end of a text goes into a session that is made from it.
const leadBytes = 4096

// ContentSession makes a session from the system prompt and the first messages of a scanned body, which stay the same
// while a conversation grows (B12); "" when there are none, since a session that everybody shares would put all of
// them on one account. The value says nothing of the content.
func (r *Request) ContentSession(body []byte) string {
	if r.Lead.Empty() {
		return ""
	}
	sum := sha256.New()
	for _, part := range [...][]byte{r.Instructions.Of(body), r.Lead.Of(body)} {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		sum.Write(size[:])
		if len(part) > 2*leadBytes {
			sum.Write(part[len(part)-leadBytes:])
			part = part[:leadBytes]
		}
		sum.Write(part)
	}
	return "content:" + hex.EncodeToString(sum.Sum(nil)[:16])
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
		for key := range c.members() {
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
