package simulator

import (
	"bytes"
	"strings"
)

// suffixes are the paths whose model is in the body. The first that fits counts.
var suffixes = [...]struct {
	path    string
	dialect dialect
}{
	{"/chat/completions", chat{}},
	{"/responses", responses{}},
	{"/messages", messages{}},
	{"/messages/count_tokens", counting{messages{}}},
	{"/embeddings", plain{json: embedding, usage: true}},
	{"/moderations", plain{json: moderation}},
	{"/images/generations", plain{json: image, usage: true, pictures: true}},
	{"/audio/transcriptions", plain{json: transcript, usage: true}},
}

// actions are the paths that end in MODEL:action.
var actions = [...]struct {
	name    string
	dialect dialect
}{
	{"generateContent", gemini{}},
	{"streamGenerateContent", gemini{}},
	{"countTokens", counting{gemini{}}},
}

// route finds the dialect of a path, and the model if that is in the path; nil if nobody answers there.
func route(path string) (d dialect, model string) {
	p, _, _ := strings.Cut(path, "?")
	for i := range suffixes {
		if strings.HasSuffix(p, suffixes[i].path) {
			return suffixes[i].dialect, ""
		}
	}
	rest, action, ok := cutLast(p, ':')
	if !ok {
		return nil, ""
	}
	_, model, _ = cutLast(rest, '/')
	if strings.ContainsAny(model, `"\`) { // it goes into JSON as it is
		return nil, ""
	}
	for i := range actions {
		if action == actions[i].name {
			return actions[i].dialect, model
		}
	}
	return nil, ""
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// value returns what follows "name": in JSON text (a scan, not a parser: fast, and good enough for bodies whose
// strings hold no unescaped quotes).
func value(b []byte, name string) []byte {
	for {
		i := bytes.Index(b, []byte(name))
		if i < 0 {
			return nil
		}
		b = b[i+len(name):]
		t := bytes.TrimLeft(b, " \t\r\n")
		if len(t) > 0 && t[0] == ':' {
			return bytes.TrimLeft(t[1:], " \t\r\n")
		}
	}
}

// word returns the string value that follows "name":, up to the first escape; nil if there is none.
func word(b []byte, name string) []byte {
	v := value(b, name)
	if len(v) == 0 || v[0] != '"' {
		return nil
	}
	end := bytes.IndexByte(v[1:], '"')
	if end < 0 {
		return nil
	}
	plain, _, _ := bytes.Cut(v[1:1+end], []byte{'\\'})
	return plain
}

func isTrue(b []byte, name string) bool { return bytes.HasPrefix(value(b, name), []byte("true")) }
