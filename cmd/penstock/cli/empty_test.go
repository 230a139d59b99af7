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
