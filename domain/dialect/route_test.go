package dialect

import "testing"

// D43.
func TestRouteFindsTheEndpointOfAPath_A3_A4_A27_A29(t *testing.T) {
	const generate = "/v1beta/models/gemini-2.5-pro:generateContent"
	for _, c := range []struct {
		method, path string
		want         Endpoint
	}{
		{"POST", "/v1/chat/completions", Endpoint{OpenAIChat, Generate, CapChat, "/v1/chat/completions", "", false}},
		{"POST", "/api/proxy/v1/chat/completions", Endpoint{OpenAIChat, Generate, CapChat, "/v1/chat/completions", "", false}},
		{"POST", "/openai/v1/chat/completions", Endpoint{OpenAIChat, Generate, CapChat, "/v1/chat/completions", "", false}},
		{"POST", "/api/proxy/openai/v1/responses", Endpoint{OpenAIResponses, Generate, CapResponses, "/v1/responses", "", false}},
		{"POST", "/v1/responses/input_tokens", Endpoint{OpenAIResponses, CountTokens, CapResponses, "/v1/responses/input_tokens", "", false}},
		{"POST", "/v1/messages", Endpoint{AnthropicMessages, Generate, CapMessages, "/v1/messages", "", false}},
		{"POST", "/anthropic/v1/messages", Endpoint{AnthropicMessages, Generate, CapMessages, "/v1/messages", "", false}},
		{"POST", "/v1/messages/count_tokens", Endpoint{AnthropicMessages, CountTokens, CapMessages, "/v1/messages/count_tokens", "", false}},
		{"POST", generate, Endpoint{Gemini, Generate, CapGemini, generate, "gemini-2.5-pro", false}},
		{"POST", "/gemini" + generate, Endpoint{Gemini, Generate, CapGemini, generate, "gemini-2.5-pro", false}},
		{"POST", "/v1beta/models/m:streamGenerateContent", Endpoint{Gemini, Generate, CapGemini, "/v1beta/models/m:streamGenerateContent", "m", true}},
		{"POST", "/v1beta/models/m:countTokens", Endpoint{Gemini, CountTokens, CapGemini, "/v1beta/models/m:countTokens", "m", false}},
		{"POST", "/v1beta/models/m:embedContent", Endpoint{Gemini, Other, CapGemini, "/v1beta/models/m:embedContent", "m", false}},
		{"POST", "/v1/models/m:generateContent", Endpoint{Gemini, Generate, CapGemini, "/v1/models/m:generateContent", "m", false}},
		{"POST", "/v1/models/a%2Fb%3Ac:generateContent", Endpoint{Gemini, Generate, CapGemini, "/v1/models/a%2Fb%3Ac:generateContent", "a/b:c", false}},
		{"POST", "/v1/models/a/b:generateContent", Endpoint{Gemini, Generate, CapGemini, "/v1/models/a/b:generateContent", "a/b", false}},
		{"POST", "/v1/models/50%:generateContent", Endpoint{Gemini, Generate, CapGemini, "/v1/models/50%:generateContent", "50%", false}},
		{"GET", "/v1/models", Endpoint{None, Models, CapChat, "/v1/models", "", false}},
		{"GET", "/openai/v1/models", Endpoint{OpenAIChat, Models, CapChat, "/v1/models", "", false}},
		{"GET", "/anthropic/v1/models", Endpoint{AnthropicMessages, Models, CapChat, "/v1/models", "", false}},
		{"GET", "/gemini/v1/models", Endpoint{Gemini, Models, CapChat, "/v1/models", "", false}},
		{"GET", "/v1beta/models", Endpoint{Gemini, Models, CapGemini, "/v1beta/models", "", false}},
		{"GET", "/v1beta/models/m", Endpoint{Gemini, Model, CapGemini, "/v1beta/models/m", "m", false}},
		{"GET", "/v1/models/ft:gpt-4o:org::id", Endpoint{None, Model, CapChat, "/v1/models/ft:gpt-4o:org::id", "ft:gpt-4o:org::id", false}},
		{"POST", "/v1/completions", Endpoint{OpenAIChat, Other, CapExtended, "/v1/completions", "", false}},
		{"POST", "/v1/embeddings", Endpoint{OpenAIChat, Other, CapExtended, "/v1/embeddings", "", false}},
		{"POST", "/v1/images/generations", Endpoint{OpenAIChat, Other, CapExtended, "/v1/images/generations", "", false}},
		{"POST", "/openai/v1/audio/speech", Endpoint{OpenAIChat, Other, CapExtended, "/v1/audio/speech", "", false}},
		{"POST", "/v1/moderations", Endpoint{OpenAIChat, Other, CapExtended, "/v1/moderations", "", false}},
	} {
		if got, ok := Route(c.method, c.path); !ok || got != c.want {
			t.Errorf("%s %s\n got %+v %v\nwant %+v", c.method, c.path, got, ok, c.want)
		}
	}
}

func TestRouteRefusesWhatIsNotTheDataPlane(t *testing.T) {
	for _, c := range [][2]string{
		{"GET", "/v1/chat/completions"}, {"POST", "/v1/models"}, {"POST", "/v1/chat"}, {"POST", "/v1/messages/"},
		{"POST", "/api/proxy"}, {"POST", "/api/proxyv1/messages"}, {"POST", "/openai"}, {"GET", "/v1/models/"},
		{"POST", "/v1beta/models/:generateContent"}, {"POST", "/v1beta/models/m:"}, {"POST", "/v1beta/models/m"},
		{"POST", "/v1/images/"}, {"GET", "/health"}, {"", ""}, {"DELETE", "/v1/models/m"},
		{"POST", "/openai/openai/v1/messages"},
	} {
		if got, ok := Route(c[0], c[1]); ok {
			t.Errorf("%s %s is %+v", c[0], c[1], got)
		}
	}
}

func TestRouteDoesNotAllocate(t *testing.T) {
	for _, path := range []string{"/v1/messages", "/api/proxy/openai/v1/chat/completions", "/v1beta/models/gemini-2.5-pro:generateContent"} {
		if n := testing.AllocsPerRun(100, func() { Route("POST", path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}
