package actors

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/domain/dialect"
	"github.com/penstock/penstock/domain/pricing"
)

// beyond are parts of a request whose tokens its own bytes do not bound: pictures, files, sounds, what is only referred to, and
// tools that the provider runs.
var beyond = quoted("image", "image_url", "input_image", "document", "file", "file_id", "file_data", "fileData", "file_url", "input_file",
	"inlineData", "inline_data", "input_audio", "previous_response_id", "conversation", "cachedContent", "cached_content", "item_reference",
	"mcp", "mcp_servers", "container", "code_interpreter", "code_execution", "codeExecution")

// stored may be a prompt that the provider keeps; that of a completion stands in the body.
var stored = quoted("prompt")

// searching are tools that may search, and drawing those that may draw, as often as the model likes.
var (
	searching = begun("web_search", "file_search", "googleSearch", "google_search", "url_context", "urlContext", "web_fetch")
	drawing   = begun("image_generation", "IMAGE")
)

func quoted(names ...string) [][]byte {
	list := begun(names...)
	for i := range list {
		list[i] = append(list[i], '"')
	}
	return list
}

func begun(names ...string) [][]byte {
	list := make([][]byte, len(names))
	for i, n := range names {
		list[i] = []byte(`"` + n)
	}
	return list
}

func hasAny(body []byte, words [][]byte) bool {
	return slices.ContainsFunc(words, func(w []byte) bool { return bytes.Contains(body, w) })
}

// spelled are the letters of the words above as escapes, which no writer makes of them, but a client may to hide a word.
var spelled = regexp.MustCompile(`(?i)\\u00(?:4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])`)

// plainly is a body whose letters stand for themselves, to look for words in.
func plainly(body []byte) []byte {
	if !bytes.Contains(body, []byte(`\u00`)) {
		return body
	}
	return spelled.ReplaceAllFunc(body, func(escape []byte) []byte {
		c, _ := strconv.ParseUint(string(escape[4:]), 16, 8)
		return []byte{byte(c)}
	})
}

// ofChat is the bound of a chat, which completions pass over.
var ofChat = quoted("max_completion_tokens")

// equipped are requests with tools, before which some providers put a prompt of their own: hundreds of tokens, and as many
// again for each of the tools that they bring themselves. toolsMax is more than any of them is known to.
var equipped = quoted("tools", "functions")

const toolsMax = 3000

const (
	imagesPath      = "/v1/images/"
	completionsPath = "/v1/completions"
)

// bounds is the most that a request can consume. A token has at least one byte.
func bounds(c *Call) pricing.Ask {
	body := plainly(c.Body)
	a := pricing.Ask{Input: int64(len(c.Body)), MaxOutput: c.Scan.MaxOutput, Choices: c.Scan.Choices}
	if completion := c.Endpoint.Path == completionsPath; c.Endpoint.Kind == dialect.Other && (!completion || hasAny(body, ofChat)) {
		a.MaxOutput = 0 // no bound there
	}
	if hasAny(body, equipped) {
		a.Input += toolsMax
	}
	if hasAny(body, beyond) || c.Endpoint.Path != completionsPath && hasAny(body, stored) {
		a.Input = pricing.Unknown
	}
	if hasAny(body, searching) {
		a.Input, a.WebSearches, a.FileSearches = pricing.Unknown, pricing.Unknown, pricing.Unknown
	}
	switch {
	case strings.HasPrefix(c.Endpoint.Path, imagesPath):
		if c.Scan.ObjectEnd == 0 { // a form
			a.Choices = pricing.Unknown
		}
		a.Images = a.Choices
		if a.Images == 0 {
			a.Images = 1
		}
	case hasAny(body, drawing):
		a.Images = pricing.Unknown
	}
	return a
}
