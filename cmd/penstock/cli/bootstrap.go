package cli

import (
	"encoding/json"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/dialect"
)

// Provider is an upstream that serve registers by itself.
type Provider struct {
	Env       string            // variable that held the credential
	Upstream  string            // id; its account has the same and "-1"
	Documents []json.RawMessage // upstream and account, as apply takes them
}

// providers can be had with nothing but a credential in the environment.
var providers = []struct {
	env, id, url string
	capabilities []dialect.Capability
}{
	{"OPENAI_API_KEY", "openai", "https://api.openai.com",
		[]dialect.Capability{dialect.CapChat, dialect.CapResponses, dialect.CapCodexCLI, dialect.CapExtended}},
	{"ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com",
		[]dialect.Capability{dialect.CapMessages, dialect.CapClaudeCode}},
	{"GEMINI_API_KEY", "gemini", "https://generativelanguage.googleapis.com",
		[]dialect.Capability{dialect.CapGemini}},
}

// ProvidersFrom are the providers whose credential is in the environment, for a gateway with an empty catalogue.
func ProvidersFrom(getenv func(string) string) ([]Provider, error) {
	var all []Provider
	for _, p := range providers {
		credential := strings.TrimSpace(getenv(p.env)) // what mounts a secret may leave its line break on it
		if credential == "" {
			continue
		}
		provider := Provider{Env: p.env, Upstream: p.id}
		for _, fields := range []map[string]any{
			{"kind": "upstream", "id": p.id, "base_url": p.url, "capabilities": p.capabilities},
			{"kind": "account", "id": p.id + "-1", "upstream": p.id, "api_key": credential},
		} {
			document, err := json.Marshal(fields)
			if err != nil {
				return nil, errors.Wrapf(err, "write %s", p.id)
			}
			provider.Documents = append(provider.Documents, document)
		}
		all = append(all, provider)
	}
	return all, nil
}
