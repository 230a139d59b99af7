package dialect

import "testing"

func TestDialectNamesAreThoseOfFactsAndLogs(t *testing.T) {
	for d, name := range map[Dialect]string{
		None: "", OpenAIChat: "openai-chat", OpenAIResponses: "openai-responses",
		AnthropicMessages: "anthropic-messages", Gemini: "gemini", Dialect(99): "",
	} {
		if d.String() != name {
			t.Errorf("dialect %d is %q, want %q", d, d.String(), name)
		}
		if d != 99 && Parse(name) != d {
			t.Errorf("Parse(%q) is %v", name, Parse(name))
		}
	}
	if Parse("grpc") != None {
		t.Error("an unknown name is None")
	}
}

func TestThereAreEightCapabilitiesInThreeProviderGroups_C3_C4(t *testing.T) {
	want := []struct{ capability, provider, fallback string }{
		{"anthropic_messages", "anthropic", ""},                     // C3a
		{"claude_code_messages", "anthropic", "anthropic_messages"}, // C3b, C8
		{"openai_responses", "openai", ""},                          // C3c
		{"codex_cli_responses", "openai", "openai_responses"},       // C3d, C8
		{"openai_chat_compatible", "openai", ""},                    // C3e
		{"openai_extended", "openai", ""},                           // C3f
		{"gemini_native_generate", "google", ""},                    // C3g
		{"gemini_code_assist_internal", "google", ""},               // C3h
	}
	got := Capabilities()
	if len(got) != len(want) {
		t.Fatalf("%d capabilities, want %d", len(got), len(want))
	}
	for i, w := range want {
		fallback, has := got[i].Fallback()
		if string(got[i]) != w.capability || got[i].Provider() != w.provider || string(fallback) != w.fallback || has != (w.fallback != "") || !got[i].Valid() {
			t.Errorf("capability %d is %q of %q with fallback %q", i, got[i], got[i].Provider(), fallback)
		}
	}
	if c := Capability("openai_realtime"); c.Valid() || c.Provider() != "" {
		t.Error("an unknown capability is not valid")
	}
}

func TestLegacyCapabilityIsRemapped_C5(t *testing.T) {
	for name, want := range map[string]Capability{
		"codex_responses": CapResponses, "openai_responses": CapResponses, "gemini_native_generate": CapGemini, "odd": "odd",
	} {
		if got := NormalizeCapability(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if Capability("codex_responses").Valid() {
		t.Error("the legacy name is valid only once it is normalised")
	}
}
