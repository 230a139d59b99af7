package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/domain/pricelist"
)

const litellm = `{
  "gpt-9": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "output_cost_per_video_per_second": 0.1},
  "gpt-9-mini": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-07, "output_cost_per_token": 1e-06},
  "groq/llama": {"litellm_provider": "groq", "mode": "chat", "input_cost_per_token": 1e-07, "output_cost_per_token": 1e-07}
}`

func TestAPriceListShowsItsDifferenceFirst(t *testing.T) {
	d := newDesk(t)
	d.ok("apply", "-f", d.file("r.yaml", resourcesYAML))
	file := d.file("prices.json", litellm)
	const added = "+ gpt-9: input 2.5, output 10\n+ gpt-9-mini: input 0.25, output 1\n"
	const report = "! 1 of providers that are read only with --upstream PROVIDER=ID:\n    groq (1)\n! 1 costs that are not metered, by field:\n    output_cost_per_video_per_second (1)\n"
	require.Equal(t, added+report+"2 added, 0 changed, 0 unchanged, 0 missing (dry run: nothing was stored)\n", d.ok("prices", "import", file, "--dry-run"))
	require.Equal(t, added+report+"2 added, 0 changed, 0 unchanged, 0 missing\n", d.ok("prices", "import", file), "nothing was stored by a dry run, and off a terminal nobody is asked")
	require.Equal(t, report+"0 added, 0 changed, 2 unchanged, 0 missing\n", d.ok("prices", "import", file), "a second time nothing changes")

	newer := d.file("newer.json", strings.Replace(litellm, "2.5e-06", "2e-06", 1))
	require.Contains(t, d.ok("prices", "import", newer, "--from", "2026-07-01T00:00:00Z"), "~ gpt-9: input 2.5 -> 2 (from 2026-07-01T00:00:00Z)\n")
	prices := d.ok("get", "prices", "--json")
	require.Contains(t, prices, `"id":"synced/gpt-9"`, "what was used before keeps its price")
	require.Contains(t, prices, `"id":"synced/gpt-9@20260701T000000Z"`)
	require.Contains(t, prices, `"model":"gpt-*"`, "prices that were set by hand stay")

	shorter := d.file("shorter.json", `{"gpt-9-mini": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-07, "output_cost_per_token": 1e-06}}`)
	require.Equal(t, "? gpt-9: not in the list, stays (--prune removes it)\n0 added, 0 changed, 1 unchanged, 1 missing\n", d.ok("prices", "import", shorter))
	require.Equal(t, "- gpt-9\n0 added, 0 changed, 1 unchanged, 1 removed\n", d.ok("prices", "import", shorter, "--prune"))
	require.NotContains(t, d.ok("get", "prices"), "synced/gpt-9\n")
}

func TestPricesOfAResellerAreBoundToItsUpstream(t *testing.T) {
	d := newDesk(t)
	d.ok("apply", "-f", d.file("r.yaml", resourcesYAML))
	file := d.file("prices.json", litellm)
	require.Contains(t, d.ok("prices", "import", file, "--upstream", "groq=a"), "+ llama at a: input 0.1, output 0.1\n")
	require.Contains(t, d.ok("get", "prices", "synced/a/llama"), "upstream: a\n")
	require.Contains(t, d.fails(1, "prices", "import", file, "--upstream", "groq=nowhere"), "upstream nowhere does not exist")
}

func TestAPersonIsAskedBeforePricesAreStored(t *testing.T) {
	d := newDesk(t)
	file := d.file("prices.json", litellm)
	d.tty, d.stdin = true, "n\n"
	require.Contains(t, d.fails(1, "prices", "import", file), "nothing was changed")
	require.NotContains(t, d.ok("get", "prices"), "gpt-9")
	d.stdin = "y\n"
	require.Contains(t, d.ok("prices", "import", file), "2 added")
	d.stdin = ""
	require.Contains(t, d.ok("prices", "import", file), "2 unchanged", "nothing to store is nothing to ask")
}

func TestTheStarterBookIsLoadedOnlyWhenAskedFor(t *testing.T) {
	d := newDesk(t)
	require.NotContains(t, d.ok("get", "prices"), "synced/")
	var first priceChange
	lines := strings.Split(strings.TrimSpace(d.ok("prices", "import", "--starter", "--json")), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, "added", first.Change)
	require.Greater(t, len(lines), 20)
	require.Contains(t, d.ok("get", "prices", "synced/claude-sonnet-4-5"), "above_input_tokens: 200000")
	exported := d.ok("export")
	require.Contains(t, d.ok("apply", "-f", d.file("e.yaml", exported)), "0 created, 0 changed", "what was imported can be applied again")
}

// Facts of published price lists; every entry names its source and date, and the catalogue takes each as it stands.
func TestTheStarterBookIsWholeAndSaysWhereItIsFrom(t *testing.T) {
	l, err := pricelist.ReadBook(starterBook)
	require.NoError(t, err)
	lines := map[string]string{}
	seen := map[string]bool{}
	for _, p := range l.Prices {
		if !strings.Contains(p.Origin, "2026-11-29") || p.Source != "synced" || seen[p.ID] || p.Input == "0" || p.Output == "0" {
			t.Errorf("got %+v", p)
		}
		seen[p.ID] = true
		lines[p.Model] = pricelist.Line(p)
	}
	for model, want := range map[string]string{
		"claude-sonnet-5": "cache_write_1h 4, cache_write_5m 2.5, cached_input 0.2, input 2, output 10, per_web_search 0.01",
		"gpt-5.5":         "cached_input 0.5, input 5, output 30, service_tiers.flex.cached_input 0.25, service_tiers.flex.input 2.5, service_tiers.flex.output 15, service_tiers.priority.cached_input 1, service_tiers.priority.input 10, service_tiers.priority.output 60, tiers[272000].cached_input 1, tiers[272000].input 10, tiers[272000].output 45",
		"gpt-6-sol":       "cache_write_5m 2.5, cached_input 0.2, input 2, output 10, tiers[272000].cache_write_5m 5, tiers[272000].cached_input 0.4, tiers[272000].input 4, tiers[272000].output 15",
		"gemini-2.5-pro":  "cached_input 0.125, input 1.25, output 10, per_web_search 0.035, tiers[200000].cached_input 0.25, tiers[200000].input 2.5, tiers[200000].output 15",
	} {
		if lines[model] != want {
			t.Errorf("%s\n got %s\nwant %s", model, lines[model], want)
		}
	}
	require.Greater(t, len(l.Prices), 30)
}

func TestWrongUsageOfPriceImportsIsNamed(t *testing.T) {
	d := newDesk(t)
	file := d.file("prices.json", litellm)
	for want, args := range map[string][]string{
		"takes FILE or --starter":   {"prices", "import"},
		"FILE or --starter":         {"prices", "import", file, "--starter"},
		`"groq" is not PROVIDER=ID`: {"prices", "import", file, "--upstream", "groq"},
		`"soon" is no time`:         {"prices", "import", file, "--from", "soon"},
		"which one?":                {"prices"},
	} {
		require.Contains(t, d.fails(2, args...), want)
	}
	require.Contains(t, d.fails(1, "prices", "import", d.file("x.json", "{}")), "is not LiteLLM's price list")
	require.Contains(t, d.fails(1, "prices", "import", d.file("y.json", `[{"model":"m","inptu":1}]`)), "entry 1: price: inptu: unknown field")
}
