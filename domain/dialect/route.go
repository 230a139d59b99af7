package dialect

import "strings"

// Kind is what an endpoint does. The zero value is Other.
type Kind uint8

// The kinds of endpoints.
const (
	Other       Kind = iota // passed through as it is
	Generate                // a model answers
	CountTokens             // only counts; never billed, never counted by a breaker
	Models                  // the list of models
	Model                   // one model of the list
)

// Endpoint is what a path means.
type Endpoint struct {
	Dialect    Dialect // None for /v1/models without a provider prefix: three dialects share it, the headers decide
	Kind       Kind
	Capability Capability
	Path       string // upstream path without /api/proxy and provider prefix, otherwise as it came
	Model      string // decoded model of the path; "" where the body names it
	Stream     bool   // the path's verb streams
}

// fixed are the endpoints whose whole path is known, by method and path.
var fixed = map[string]map[string]Endpoint{
	"POST": {
		"/v1/chat/completions":       {Dialect: OpenAIChat, Kind: Generate, Capability: CapChat},
		"/v1/responses":              {Dialect: OpenAIResponses, Kind: Generate, Capability: CapResponses},
		"/v1/responses/input_tokens": {Dialect: OpenAIResponses, Kind: CountTokens, Capability: CapResponses},
		"/v1/messages":               {Dialect: AnthropicMessages, Kind: Generate, Capability: CapMessages},
		"/v1/messages/count_tokens":  {Dialect: AnthropicMessages, Kind: CountTokens, Capability: CapMessages},
		"/v1/completions":            {Dialect: OpenAIChat, Kind: Other, Capability: CapExtended},
		"/v1/embeddings":             {Dialect: OpenAIChat, Kind: Other, Capability: CapExtended},
		"/v1/moderations":            {Dialect: OpenAIChat, Kind: Other, Capability: CapExtended},
	},
	"GET": {
		"/v1/models":     {Dialect: None, Kind: Models, Capability: CapChat},
		"/v1beta/models": {Dialect: Gemini, Kind: Models, Capability: CapGemini},
	},
}

// prefixes are the base URLs that SDKs are pointed at, with the dialect that owns the shared model list below them.
var prefixes = [...]struct {
	text   string
	models Dialect
}{{"/openai", OpenAIChat}, {"/anthropic", AnthropicMessages}, {"/gemini", Gemini}}

// Route finds the endpoint of a method and a path without query (A2, A3, A4, A27, A29). It is false for a path that
// is not part of the data plane and for a method that the path does not have. It does not allocate unless the model
// in the path is percent-encoded.
func Route(method, path string) (Endpoint, bool) {
	path = cutPrefix(path, "/api/proxy")
	shared := None
	for _, p := range prefixes {
		if rest := cutPrefix(path, p.text); len(rest) != len(path) {
			path, shared = rest, p.models
			break
		}
	}
	e, ok := fixed[method][path]
	if !ok {
		e, ok = routeOpen(method, path)
	}
	if !ok {
		return Endpoint{}, false
	}
	if e.Dialect == None {
		e.Dialect = shared
	}
	e.Path = path
	return e, true
}

// cutPrefix takes the prefix off when a path follows it.
func cutPrefix(path, prefix string) string {
	if len(path) > len(prefix) && path[len(prefix)] == '/' && path[:len(prefix)] == prefix {
		return path[len(prefix):]
	}
	return path
}

// routeOpen routes the paths that end in something the client chose.
func routeOpen(method, path string) (Endpoint, bool) {
	if rest, ok := strings.CutPrefix(path, "/v1beta/models/"); ok {
		return routeModel(method, rest, Gemini)
	}
	if rest, ok := strings.CutPrefix(path, "/v1/models/"); ok {
		return routeModel(method, rest, None)
	}
	for _, folder := range [...]string{"/v1/images/", "/v1/audio/"} {
		if len(path) > len(folder) && strings.HasPrefix(path, folder) && method == "POST" {
			return Endpoint{Dialect: OpenAIChat, Kind: Other, Capability: CapExtended}, true
		}
	}
	return Endpoint{}, false
}

// routeModel routes what follows /models/: one model to look at, or a Gemini call with its verb. The model is what
// precedes the last colon, so that tuned models and names with colons work.
func routeModel(method, rest string, lookup Dialect) (Endpoint, bool) {
	if rest == "" {
		return Endpoint{}, false
	}
	if method == "GET" {
		e := Endpoint{Dialect: lookup, Kind: Model, Capability: CapChat, Model: decode(rest)}
		if lookup == Gemini {
			e.Capability = CapGemini
		}
		return e, true
	}
	colon := strings.LastIndexByte(rest, ':')
	if method != "POST" || colon <= 0 || colon == len(rest)-1 {
		return Endpoint{}, false
	}
	e := Endpoint{Dialect: Gemini, Kind: Other, Capability: CapGemini, Model: decode(rest[:colon])}
	switch rest[colon+1:] {
	case "generateContent":
		e.Kind = Generate
	case "streamGenerateContent":
		e.Kind, e.Stream = Generate, true
	case "countTokens":
		e.Kind = CountTokens
	}
	return e, true
}

// decode undoes percent-encoding; a text that is not validly encoded stays as it is.
func decode(model string) string {
	if strings.IndexByte(model, '%') < 0 {
		return model
	}
	plain := make([]byte, 0, len(model))
	for i := 0; i < len(model); i++ {
		c := model[i]
		if c == '%' {
			if i+2 >= len(model) {
				return model
			}
			r, ok := hex4([]byte{'0', '0', model[i+1], model[i+2]})
			if !ok {
				return model
			}
			c = byte(r)
			i += 2
		}
		plain = append(plain, c)
	}
	return string(plain)
}
