package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A variable that a script has not set must not take a limit, a filter or a guard away.
func TestAFlagThatIsGivenAndEmptyIsWrongUsage(t *testing.T) {
	d := newDesk(t)
	before := d.ok("export")
	for _, c := range [][]string{
		{"--upstreams", "key", "create", "--id", "k"}, {"--models", "key", "create", "--id", "k"}, {"--ips", "key", "create", "--id", "k"},
		{"--spending", "key", "create", "--id", "k"}, {"--budget", "key", "create", "--id", "k"}, {"--user", "key", "create", "--id", "k"},
		{"--group", "key", "create", "--id", "k"}, {"--id", "key", "create"},
		{"--id", "credit", "ann", "5"}, {"--difference", "reprice", "--apply"}, {"--key", "reprice", "--apply"}, {"--head", "audit", "verify"},
		{"--projection", "replay"}, {"--key", "logs"}, {"--since", "bill"}, {"--by", "bill"}, {"--type", "events"}, {"--stream", "events", "--follow"},
		{"--file", "apply"}, {"--server", "export"}, {"--data", "logs"}, {"--store", "serve"},
	} {
		require.Equal(t, c[0]+" is empty", d.fails(2, append(c[1:], c[0], "")...), c)
	}
	require.Equal(t, "--key is empty\n--model is empty", d.fails(2, "logs", "--model=", "--key="))
	require.Equal(t, before, d.ok("export"), "nothing was made")
	require.Nil(t, d.served)
	d.ok("key", "create", "--id", "k", "--models", "gpt-*")
}

// An invoice that is cut off by a full disk is no success, nor is anything else.
func TestNoCommandSucceedsWhoseOutputIsNotWritten(t *testing.T) {
	d := newDesk(t)
	d.ok("apply", "-f", d.file("r.yaml", resourcesYAML))
	d.full = true
	for _, args := range [][]string{
		{"version"}, {"explain", "r1"}, {"explain", "r1", "--json"}, {"logs"}, {"events"}, {"bill"}, {"export"}, {"get", "upstream"}, {"balance"},
		{"statement", "ann"}, {"statement", "ann", "--csv"}, {"upstream", "status", "a"}, {"replay"}, {"audit", "verify"}, {"help", "logs"}, {"migrate"},
		{"apply", "-f", d.file("r.yaml", resourcesYAML)}, {"key", "create", "--id", "k"},
	} {
		require.Contains(t, d.fails(1, args...), "no space left on device", args)
	}
}
