package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Differ names the top-level fields in which two values of one resource differ, sorted.
func Differ(before, after Resource) []string {
	a, b := members(before), members(after)
	differs := map[string]bool{}
	for name, v := range a {
		if !bytes.Equal(v, b[name]) {
			differs[name] = true
		}
	}
	for name := range b {
		if _, known := a[name]; !known {
			differs[name] = true
		}
	}
	return slices.Sorted(maps.Keys(differs))
}

func members(r Resource) map[string]json.RawMessage {
	text, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}
