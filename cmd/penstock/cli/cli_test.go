package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/domain/breaker"
	"github.com/penstock/penstock/domain/catalog"
)

const resourcesYAML = `kind: upstream
id: a
base_url: http://127.0.0.1:9001
capabilities: [openai_chat_compatible]
slots: 10
breaker: {failures: 3}
---
kind: account
id: a-1
upstream: a
api_key: sk-live-0123456789
---
kind: price
model: gpt-*
upstream: a
input: "1.25"
output: "10.00"
`

func TestExitCodesTellWrongUsageFromFailure(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct {
		code int
		args []string
		want string
	}{
		"an unknown command":      {2, []string{"frobnicate"}, `unknown command "frobnicate"`},
		"an unknown flag":         {2, []string{"logs", "--colour"}, "unknown flag: --colour"},
		"a missing argument":      {2, []string{"explain"}, "explain takes REQUEST_ID"},
		"too many arguments":      {2, []string{"logs", "x"}, "unknown command"},
		"help with no command":    {2, []string{"help", "frobnicate"}, "there is no command frobnicate"},
		"help with half of one":   {2, []string{"help", "key", "made"}, "there is no command key made"},
		"half a command":          {2, []string{"key"}, "which one?"},
		"a half command's typo":   {2, []string{"key", "made"}, `unknown command "made"`},
		"an unknown kind":         {2, []string{"get", "box"}, `there is no kind "box"`},
		"a time that is none":     {2, []string{"logs", "--since", "soon"}, `--since: "soon" is not a time`},
		"a limit of nothing":      {2, []string{"logs", "--limit", "0"}, "--limit: must be at least 1"},
		"an unknown outcome":      {2, []string{"logs", "--outcome", "fine"}, "outcome"},
		"an unknown fact":         {2, []string{"events", "--type", "nope"}, `there is no event "nope"`},
		"follow until":            {2, []string{"events", "--follow", "--until", "1h"}, "--until: can not be combined with --follow"},
		"follow nothing":          {2, []string{"events", "--follow", "--type", "request.setled"}, "--type: "},
		"a text of control bytes": {2, []string{"events", "--text", "a\x01"}, "--text: must be UTF-8 without control characters"},
		"follow a text":           {2, []string{"events", "--follow", "--text", "a"}, "--text: can not be combined with --follow"},
		"as of nothing":           {2, []string{"bill", "--as-of", "soon"}, `--as-of: "soon" is neither a position nor a time`},
		"an unknown grouping":     {2, []string{"bill", "--by", "colour"}, `"colour" is not one of`},
		"an unknown request":      {1, []string{"explain", "none"}, "there is no request none"},
		"an unknown upstream":     {1, []string{"upstream", "status", "z"}, "there is no upstream z"},
		"an unknown key":          {1, []string{"key", "revoke", "z"}, "there is no key z"},
		"an unknown resource":     {1, []string{"get", "users", "z"}, "there is no user z"},
		"an unknown projection":   {1, []string{"replay", "--projection", "z"}, "projection z"},
		"a file that is missing":  {1, []string{"apply", "-f", "/none/such.yaml"}, "/none/such.yaml"},
		"apply of nothing":        {2, []string{"apply"}, "apply takes -f FILE"},
		"flags that exclude":      {2, []string{"account", "block", "a-1", "--for", "5m", "--until", "2026-06-02T00:00:00Z"}, "[for until]"},
		"a time before all times": {2, []string{"logs", "--since", "9999999d"}, `--since: "9999999d" is not a time`},
		"a day before all days":   {2, []string{"statement", "ann", "--since", "9999999d"}, `--since: "9999999d" is not a day`},
		"as of no position":       {2, []string{"bill", "--as-of", "0"}, `--as-of: "0" is neither a position nor a time`},
	} {
		require.Contains(t, d.fails(c.code, c.args...), c.want, name)
	}
	require.Contains(t, d.ok("version"), "penstock 1.2.3 (go")
	require.Contains(t, d.ok(), "Available Commands")
	require.Contains(t, d.ok("logs", "--help"), "--upstream")
}

func TestApplyShowsWhatChanges(t *testing.T) {
	d := newDesk(t)
	file := d.file("r.yaml", resourcesYAML)
	require.Equal(t, "+ upstream a\n+ account a-1\n+ price a/gpt-*\n3 created, 0 changed, 0 unchanged, 0 removed (dry run: nothing was stored)\n",
		d.ok("apply", "-f", file, "--dry-run"))
	require.Zero(t, d.place.Revision())
	require.Contains(t, d.ok("apply", "-f", file), "3 created")
	d.stdin = strings.Replace(resourcesYAML, "slots: 10", "slots: 20\npriority: 1", 1)
	require.Equal(t, "~ upstream a: priority, slots\n~ account a-1: api_key\n= price a/gpt-*\n0 created, 2 changed, 1 unchanged, 0 removed\n",
		d.ok("apply", "-f", "-"))
	var lines []map[string]any
	for line := range strings.Lines(d.ok("apply", "-f", "-", "--json", "--dry-run")) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		lines = append(lines, v)
	}
	require.Len(t, lines, 3)
	require.Equal(t, "unchanged", lines[0]["result"])
}

func TestApplyNamesFileLineAndField(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct{ from, to, want string }{
		"an unknown field":    {"slots: 10", "slotz: 10", "FILE:5: upstream a: slotz: unknown field"},
		"deep inside":         {"failures: 3", "failures: 3, fuse: 1", "FILE:6: upstream a: breaker.fuse: unknown field"},
		"a wrong type":        {"slots: 10", "slots: ten", "FILE:5: upstream a: slots: must be a whole number"},
		"out of range":        {"failures: 3", "failures: 0", "FILE:6: upstream a: breaker.failures: must be 1..1,000,000"},
		"second document":     {"upstream: a\napi_key", "upstream: z\napi_key", "FILE:10: account a-1: upstream: upstream z does not exist"},
		"what is missing":     {"base_url: http://127.0.0.1:9001\n", "", "FILE:1: upstream a: base_url: "},
		"no kind":             {"kind: account\n", "", "FILE:8: kind: is missing"},
		"an unknown kind":     {"kind: account", "kind: acount", "FILE:8: acount a-1: kind: must be one of"},
		"a limit":             {"kind: price", "kind: key\nid: k\nlimits: {rps: 5}\n---\nkind: price", "FILE:15: key k: limits.rps: unknown field"},
		"a price with letter": {`"1.25"`, `"1,25"`, "FILE:16: price a/gpt-*: input: must be a decimal"},
	} {
		require.Contains(t, resourcesYAML, c.from, name)
		file := d.file("r.yaml", strings.Replace(resourcesYAML, c.from, c.to, 1))
		got := strings.ReplaceAll(d.fails(1, "apply", "-f", file), file, "FILE")
		if name == "a price with letter" { // its id follows from fields that are judged later
			got = strings.Replace(got, "price: input", "price a/gpt-*: input", 1)
		}
		require.True(t, strings.HasPrefix(got, c.want), "%s: %s", name, got)
		require.NotContains(t, got, "sk-live")
		require.Zero(t, d.place.Revision(), name)
	}
	both := d.file("r.yaml", strings.NewReplacer("slots: 10", "slotz: 10", "api_key:", "apikey:").Replace(resourcesYAML))
	require.Len(t, strings.Split(d.fails(1, "apply", "-f", both), "\n"), 2, "everything that is wrong is said at once")
}

func TestPruneAsksOnATerminalOnly(t *testing.T) {
	d := newDesk(t)
	all, less := d.file("all.yaml", resourcesYAML+"---\nkind: user\nid: old\n"), d.file("less.yaml", resourcesYAML)
	d.ok("apply", "-f", all)
	require.Contains(t, d.ok("apply", "-f", less), "0 removed", "nothing goes without --prune")

	d.tty, d.stdin = true, "no\n"
	stderr := d.fails(1, "apply", "-f", less, "--prune")
	require.Contains(t, stderr, "- user old")
	require.Contains(t, stderr, "nothing was changed")
	_, _, still := d.place.state.Get(catalog.KindUser, "old")
	require.True(t, still)

	d.stdin = "y\n"
	require.Contains(t, d.ok("apply", "-f", less, "--prune"), "- user old\n")
	d.ok("apply", "-f", all)
	d.stdin = ""
	require.Contains(t, d.ok("apply", "-f", less, "--prune", "--yes"), "- user old\n")
	d.ok("apply", "-f", all)
	d.tty = false
	require.Contains(t, d.ok("apply", "-f", less, "--prune"), "- user old\n")
}

func TestExportIsTakenBackUnchanged(t *testing.T) {
	d := newDesk(t)
	d.ok("apply", "-f", d.file("r.yaml", resourcesYAML+"---\nkind: setting\nname: failover.max_attempts\nvalue: 3\n"))
	d.ok("key", "create", "--id", "k", "--models", "gpt-*,claude-*", "--expires", "720h")
	exported := d.ok("export")
	require.NotContains(t, exported, "sk-live-0123")
	require.Equal(t, 5, strings.Count(exported, "kind: "))
	answer := d.ok("apply", "-f", d.file("e.yaml", exported), "--prune")
	require.Contains(t, answer, "0 created, 0 changed, 5 unchanged, 0 removed", answer)

	require.Contains(t, d.ok("get", "price", "a/gpt-*"), "input: \"1.25\"\n")
	require.True(t, strings.HasPrefix(d.ok("get", "upstreams"), "kind: upstream\nid: a\n"))
	require.Empty(t, d.ok("get", "rules"))
	var account map[string]any
	require.NoError(t, json.Unmarshal([]byte(d.ok("get", "accounts", "a-1", "--json")), &account))
	require.Equal(t, "sk-***6789", account["api_key"])
}

func TestKeyIsMadeWithItsSecretAloneOnStandardOutput(t *testing.T) {
	d := newDesk(t)
	d.ok("apply", "-f", d.file("r.yaml", resourcesYAML+"---\nkind: user\nid: u\n"))
	require.Regexp(t, `^sk-pen-[A-Za-z0-9_-]{43}\n$`, d.ok("key", "create", "--id", "k", "--user", "u", "--upstreams", "a", "--slots", "2"))
	got, _, ok := d.place.state.Get(catalog.KindKey, "k")
	require.True(t, ok)
	key := got.(*catalog.Key)
	require.Equal(t, "restricted", key.Access)
	require.Equal(t, []string{"a"}, key.Upstreams)
	require.Equal(t, 2, *key.Slots)

	d.ok("key", "create", "--id", "open", "--expires", "24h")
	got, _, _ = d.place.state.Get(catalog.KindKey, "open")
	require.Equal(t, "unrestricted", got.(*catalog.Key).Access)
	require.Equal(t, noon.AddDate(0, 0, 1), *got.(*catalog.Key).ExpiresAt)

	d.ok("key", "create", "--id", "limited", "--rpm", "5", "--tpm", "900", "--spending", "daily=2.50,24h=1", "--budget", "10", "--budget-mode", "strict",
		"--ips", "10.0.0.0/8,192.0.2.1", "--max-ips", "3", "--multiplier", "1.20")
	got, _, _ = d.place.state.Get(catalog.KindKey, "limited")
	limited := got.(*catalog.Key)
	require.Equal(t, []int64{5, 900}, []int64{*limited.Limits.RPM, *limited.Limits.TPM})
	require.Equal(t, []catalog.Spending{{Period: "daily", Limit: "2.5"}, {Period: "rolling", Hours: 24, Limit: "1"}}, limited.Limits.Spending)
	require.Equal(t, []string{"10", "strict"}, []string{limited.Limits.Budget, limited.Budget})
	require.Equal(t, []string{"10.0.0.0/8", "192.0.2.1"}, limited.IPs.Allow)
	require.Equal(t, 3, *limited.MaxIPs)
	require.Equal(t, "1.2", limited.Multiplier)
	require.Contains(t, d.fails(1, "key", "create", "--id", "x", "--multiplier", "101"), "multiplier: must be 0..100")
	require.Contains(t, d.fails(1, "key", "create", "--id", "x", "--rpm", "0"), "limits.rpm: must be 1..1,000,000")
	require.Contains(t, d.fails(2, "key", "create", "--id", "x", "--spending", "weekly=5"), "--spending")
	require.Contains(t, d.fails(2, "key", "create"), "--id")
	require.Contains(t, d.fails(1, "key", "create", "--id", "k"), "there is a key k already")
	require.Contains(t, d.fails(1, "key", "create", "--id", "y", "--user", "none"), "user: user none does not exist")

	require.Equal(t, "key k is revoked\n", d.ok("key", "revoke", "k"))
	got, _, _ = d.place.state.Get(catalog.KindKey, "k")
	require.True(t, got.(*catalog.Key).Revoked)
}

func TestLogsEventsAndBill(t *testing.T) {
	d := newDesk(t)
	for _, running := range []bool{true, false} {
		if !running { // the same from the data of a stopped gateway
			delete(d.env, "PENSTOCK_ADMIN_URL")
		}
		args := func(a ...string) []string {
			if !running {
				return append(a, "--data", d.folder)
			}
			return a
		}
		require.Equal(t, []string{"r3", "r2"}, column(t, d.ok(args("logs", "--json", "--limit", "2")...), "request_id"))
		require.Equal(t, []string{"r3", "r2"}, column(t, d.ok(args("logs", "--json", "--since", "90m")...), "request_id"))
		require.Contains(t, d.ok(args("logs")...), "gpt-5")
		require.Empty(t, column(t, d.ok(args("logs", "--json", "--key", "other")...), "request_id"))

		require.Equal(t, []string{"request.admitted", "request.queued"}, column(t, d.ok(args("events", "--json", "--limit", "1")...), "type"))
		require.Equal(t, []string{"attempt.dispatched", "attempt.dispatched"}, column(t, d.ok(args("events", "--json", "--type", "attempt.dispatched")...), "type"))
		require.Contains(t, d.ok(args("events")...), "request/r1")

		require.Equal(t, []string{"team-a"}, column(t, d.ok(args("bill", "--by", "key,day", "--json")...), "key"))
		table := strings.Fields(d.ok(args("bill", "--by", "day,key")...))
		require.Equal(t, []string{"DAY", "KEY", "REQUESTS"}, table[:3])
		require.Contains(t, table, "0.25")
	}
	require.True(t, d.place.closed)
}

func TestMigrateNamesWhatItAppliedOrWouldApply(t *testing.T) {
	d := newDesk(t)
	require.Equal(t, "applied: 0001_events\napplied: 0002_feed\n", d.ok("migrate"))
	require.Equal(t, "pending: 0001_events\npending: 0002_feed\n", d.ok("migrate", "--dry-run"))
	require.Equal(t, []string{"0001_events", "0002_feed"}, column(t, d.ok("migrate", "--json"), "migration"))
}

func TestMigrateSaysHowFarItIs(t *testing.T) {
	d := newDesk(t)
	_, _, said := d.run("migrate")
	require.Equal(t, `events to pages: 900
events to pages: 400 of 1000 events, 25 events/s, 24s left
events to pages: 700 of 1000 events, 25 events/s, 12s left
events to pages: 1000 of 1000 events, 25 events/s, 0s left
`, said)
	d.tty = true
	_, _, said = d.run("migrate")
	require.Contains(t, said, "\r\x1b[K[===============               ]  50% events to pages: 500 of 1000 events, 25 events/s, 20s left")
	_, _, said = d.run("migrate", "--dry-run")
	require.Empty(t, said)
}

func column(t *testing.T, lines, name string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(lines) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		all = append(all, v[name].(string))
	}
	return all
}

func TestUpstreamStatusShowsHoldersAndWaiters(t *testing.T) {
	d := newDesk(t)
	got := d.ok("upstream", "status", "a")
	for _, want := range []string{"1 of 2 held, 1 waiting", "open until", "5 failures", "http_5xx 503", "r9", "streaming", "3s", "r10", "a-1", "blocked", "http_429",
		"fair, 1 waiting for up to 1s; a newcomer expects 3s", "a slot is held for 1.5s", "2 moved, 1 freed by hand", "low", "2s", "7 other keys", "to be freed: stuck", "38 % until", ", lapses ", "after 250ms, 25 % of late"} {
		require.Contains(t, got, want)
	}
	for _, head := range []string{"SHARE OF", "HELD BY", "PLACE"} {
		require.Regexp(t, `[^\n]\n\n`+head, got, "each table stands for itself")
	}
	require.Equal(t, []string{"a"}, column(t, d.ok("upstream", "status", "a", "--json"), "id"))
}

func TestBreakersAndBlocksAreForcedByHand(t *testing.T) {
	d := newDesk(t)
	require.Contains(t, d.ok("upstream", "open", "a", "--for", "876000h"), "breaker of a is open until")
	d.ok("upstream", "open", "a", "--until", "2999-01-01T00:00:00Z", "--account", "a-1", "--model", "m")
	d.ok("upstream", "close", "a")
	require.Len(t, d.place.switched, 3)
	require.True(t, d.place.switched[0].Open && d.place.switched[0].Until.Equal(noon.Add(876000*time.Hour)))
	require.Equal(t, breaker.Key{Account: "a-1", Model: "m"}, d.place.switched[1].Of)
	require.Equal(t, actors.Switch{}, d.place.switched[2])
	require.Contains(t, d.fails(1, "upstream", "open", "nobody"), "there is no upstream nobody")
	require.Contains(t, d.fails(2, "upstream", "open", "a", "--for", "-1s"), "--for: must be positive")
	require.Contains(t, d.fails(2, "upstream", "open", "a", "--until", "soon"), `--until: "soon" is not a time`)
	require.Contains(t, d.fails(2, "upstream", "close", "a", "--model", "m"), "--account and --model go together")
	require.Contains(t, d.fails(2, "account", "block", "a-1"), "--for 10m or --until TIME")
	require.Contains(t, d.fails(1, "account", "unblock", "nobody"), "there is no account nobody")
}

func TestReplayVerifyFailsOnADifference(t *testing.T) {
	d := newDesk(t)
	require.Contains(t, d.ok("replay", "--verify"), "billing: equal: 10 events, 3 rows")
	require.Contains(t, d.ok("replay", "--projection", "billing"), "billing: rebuilt")
	d.place.unequal = true
	code, stdout, stderr := d.run("replay", "--verify")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, "DIFFERENT in 1 rows")
	require.Contains(t, stdout, "cost 1 is 2")
	require.Empty(t, stderr)
	code, stdout, _ = d.run("replay", "--verify", "--json")
	require.Equal(t, 1, code)
	require.Contains(t, stdout, `"differing_rows":1`)
}

func TestAReplayOfARunningGatewayShowsHowFarItIsOnATerminal(t *testing.T) {
	d := newDesk(t)
	d.place.shown, d.tty = make(chan struct{}), true
	code, stdout, stderr := d.run("replay", "--json")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(stdout, `{"projection":"billing"`), stdout)
	require.Contains(t, stderr, "\r\x1b[K[===============               ]  50% billing: 500 of 1000 events")
	require.True(t, strings.HasSuffix(stderr, "\r\x1b[K"), "%q", stderr)
	d.tty = false
	_, _, stderr = d.run("replay")
	require.Empty(t, stderr, "a line comes every ten seconds, and not before")
}

func TestReplayUntilShowsTheBooksOfThatMoment(t *testing.T) {
	d := newDesk(t)
	got := d.ok("replay", "--until", "42")
	require.Contains(t, got, "billing at position 42: 5 events, 3 rows (bill_days 1, bill_entries 2)")
	require.Contains(t, got, "team-a")
	require.Contains(t, d.ok("replay", "--until", "24h"), "billing at position 7")
	require.Contains(t, d.ok("replay", "--until", "42", "--json"), `"until":42,"events":5,"rows":3,"tables":{"bill_days":1,"bill_entries":2}`)
	require.Contains(t, d.fails(2, "replay", "--until", "soon"), `--until: "soon" is neither a position nor a time`)
	require.Contains(t, d.fails(2, "replay", "--until", ""), "--until")
	require.Contains(t, d.fails(2, "replay", "--until", "42", "--verify"), "--until")
	status := d.fails(1, "replay", "--until", "42", "--server", "http://127.0.0.1:1")
	require.Contains(t, status, "no gateway answers")
}

func TestCommandsFindTheGateway(t *testing.T) {
	d := newDesk(t)
	delete(d.env, "PENSTOCK_ADMIN_URL")
	delete(d.env, "PENSTOCK_ADMIN_TOKEN")
	d.env["PENSTOCK_ADMIN_LISTEN"] = "127.0.0.1:1" // nobody listens there
	require.Contains(t, d.fails(1, "get", "users"), "no gateway answers at http://127.0.0.1:1")
	require.Contains(t, d.fails(1, "logs", "--data", filepath.Join(d.folder, "none")), "no data folder")

	// A gateway listens where serve would, but it is not known to be that of the folder that was named: nothing is written to it.
	d.env["PENSTOCK_ADMIN_LISTEN"], d.env["PENSTOCK_ADMIN_TOKEN"] = strings.TrimPrefix(d.url, "http://"), adminToken+"\n" // as mounted secrets are
	d.ok("get", "users")
	for _, args := range [][]string{{"key", "create", "--id", "k"}, {"get", "users"}, {"apply", "-f", d.file("u.yaml", "kind: user\nid: u\n")}, {"credit", "u", "5"}} {
		require.Contains(t, d.fails(1, append(args, "--data", d.folder)...), "no gateway of the data folder "+d.folder+" is running", args)
	}
	d.env["PENSTOCK_ADMIN_LISTEN"] = "127.0.0.1:1"
	delete(d.env, "PENSTOCK_ADMIN_TOKEN")

	address := strings.TrimPrefix(d.url, "http://")
	forget, err := Announce(d.folder, address, d.instance)
	require.NoError(t, err)
	require.Contains(t, d.fails(1, "get", "users"), "asks for the admin token, and there is none here")
	d.env["PENSTOCK_ADMIN_TOKEN"] = "another"
	require.Contains(t, d.fails(1, "get", "users"), "refuses the admin token")
	delete(d.env, "PENSTOCK_ADMIN_TOKEN")
	require.NoError(t, os.WriteFile(filepath.Join(d.folder, "admin.token"), []byte(adminToken+"\n"), 0o600))
	d.ok("get", "users")
	d.ok("logs")
	require.False(t, d.place.closed, "a gateway that runs is asked, its data is left alone")
	forget()
	require.NoFileExists(t, filepath.Join(d.folder, "admin.url"))

	// One that was killed has left its announcement, and the gateway of another folder has come to listen there, with the same token.
	forget, err = Announce(d.folder, address, "KILLED")
	require.NoError(t, err)
	require.Contains(t, d.fails(1, "key", "create", "--id", "k"), "no gateway of the data folder "+d.folder+" is running")
	d.ok("logs")
	require.True(t, d.place.closed, "the data of the folder is read")
	d.place.closed = false
	forget()
	d.ok("logs")
	require.True(t, d.place.closed, "without one the data is read")
	d.ok("get", "users", "--server", d.url)
	require.Contains(t, d.fails(1, "logs", "--server", "http://127.0.0.1:1"), "no gateway answers")
	for _, args := range [][]string{{"get", "user", "u"}, {"explain", "r1"}, {"key", "revoke", "k"}, {"upstream", "status", "a"}} {
		require.Contains(t, d.fails(1, append(args, "--server", d.url+"/api/v1")...), "no such path: /api/v1/api/v1/", args)
	}

	for listen, want := range map[string]string{":8081": "127.0.0.1:8081", "0.0.0.0:1": "127.0.0.1:1", "[::]:2": "127.0.0.1:2", "10.0.0.1:3": "10.0.0.1:3"} {
		require.Equal(t, want, dialable(listen))
	}
}

func TestDoctorSaysWhatToDo(t *testing.T) {
	d := newDesk(t)
	d.ok("apply", "-f", d.file("r.yaml", strings.Replace(resourcesYAML, "http://127.0.0.1:9001", d.url, 1)))
	got := d.ok("doctor")
	require.Contains(t, got, "ok      store: sqlite")
	require.Contains(t, got, "ok      ports: in use by the running gateway")
	require.Contains(t, got, "ok      upstream a: ")

	delete(d.env, "PENSTOCK_ADMIN_URL")
	d.env["PENSTOCK_LISTEN"], d.env["PENSTOCK_ADMIN_LISTEN"] = "127.0.0.1:0", "127.0.0.1:0"
	require.Contains(t, d.ok("doctor", "--data", d.folder), "opens all credentials")

	require.Contains(t, d.fails(1, "doctor", "--server", "http://127.0.0.1:1"), "no gateway answers")
	fresh := filepath.Join(d.folder, "not", "yet")
	require.Contains(t, d.ok("doctor", "--data", fresh), fresh+" holds no data yet; serve makes it")
	require.NoDirExists(t, filepath.Dir(fresh), "looking leaves nothing behind")
	code, got, _ := d.run("doctor", "--data", filepath.Join(d.env["PENSTOCK_CONFIG"], "below-a-file"))
	require.Equal(t, 1, code)
	require.Contains(t, got, "failed  store: ")

	d.env["PENSTOCK_LISTEN"] = strings.TrimPrefix(d.url, "http://") // taken by another program
	d.place.unopened = []string{"a-1", "b-1"}
	code, got, _ = d.run("doctor", "--data", d.folder)
	require.Equal(t, 1, code)
	require.Contains(t, got, "failed  keys: the secret key does not open the credentials of a-1, b-1\n        set PENSTOCK_SECRET_KEY")
	require.Contains(t, got, "is in use by another program\n        stop that program, or choose another address with PENSTOCK_LISTEN")
	code, got, _ = d.run("doctor", "--data", d.folder, "--json")
	require.Equal(t, 1, code)
	require.Contains(t, got, `"check":"keys","ok":false`)

	require.NoError(t, os.WriteFile(filepath.Join(d.folder, "admin.token"), nil, 0o600))
	delete(d.env, "PENSTOCK_ADMIN_TOKEN")
	code, got, _ = d.run("doctor", "--data", d.folder)
	require.Equal(t, 1, code)
	require.Contains(t, got, "failed  admin token: ")
}

func TestSettingsComeFromFlagsThenEnvironmentThenFile(t *testing.T) {
	d := newDesk(t)
	d.env = map[string]string{"PENSTOCK_CONFIG": d.file("p.yaml", "listen: :1\nadmin_listen: :2\ndata: /d\n"), "PENSTOCK_LISTEN": ":3", "PENSTOCK_ADMIN_LISTEN": ":4"}
	d.ok("serve", "--listen", ":5")
	require.Equal(t, Settings{Listen: ":5", AdminListen: ":4", Data: "/d", Store: "sqlite", Durability: "dispatched", Profile: "penstock",
		LogFormat: "text", LogLevel: "info"}, *d.served)

	d.env = map[string]string{"PENSTOCK_CONFIG": d.file("p.yaml", "# nothing\n")}
	d.ok("serve")
	require.Equal(t, ":8080", d.served.Listen)
	require.Equal(t, "127.0.0.1:8081", d.served.AdminListen)
	require.Equal(t, "./data", d.served.Data)

	for name, c := range map[string]struct{ env, value, want string }{
		"no profile":         {"PENSTOCK_PROFILE", "x", `profile: "x" is not one of penstock, autorouter, gproxy, orchestrator, sub2api`},
		"another store":      {"PENSTOCK_STORE", "mysql://u:secret@h/db", `store: "mysql" is not one of`},
		"no durability":      {"PENSTOCK_DURABILITY", "x", `durability: "x" is not one of settled, dispatched, overlapped, relaxed`},
		"no level":           {"PENSTOCK_LOG_LEVEL", "x", `log_level: "x"`},
		"a missing file":     {"PENSTOCK_CONFIG", "/none.yaml", "/none.yaml"},
		"an unknown setting": {"PENSTOCK_CONFIG", d.file("x.yaml", "listen: :1\nlistn: :2\n"), "x.yaml:2: listn: unknown setting"},
		"a wrong type":       {"PENSTOCK_CONFIG", d.file("y.yaml", "data: [a]\n"), "y.yaml:1: data: must be a string"},
	} {
		d.env = map[string]string{c.env: c.value}
		got := d.fails(2, "serve")
		require.Contains(t, got, c.want, name)
		require.NotContains(t, got, "secret@")
	}
}

func TestProvidersComeFromTheEnvironment(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "sk-openai-0123456789", "GEMINI_API_KEY": "AIza-0123456789"}
	found, err := ProvidersFrom(func(name string) string { return env[name] })
	require.NoError(t, err)
	require.Len(t, found, 2)
	state := catalog.NewState()
	var cmds []catalog.Command
	for _, p := range found {
		for _, doc := range p.Documents {
			r, extras, err := catalog.DecodeResource("", doc)
			require.NoError(t, err)
			if a, ok := r.(*catalog.Account); ok {
				require.Equal(t, env[p.Env], extras.Credential)
				a.SecretVersion = 1
			}
			cmds = append(cmds, catalog.Apply{Resource: r})
		}
	}
	changes, err := catalog.DecideAll(state, cmds)
	require.NoError(t, err)
	require.Len(t, changes, 4)
	mounted, err := ProvidersFrom(func(name string) string { return env[name] + "\n" })
	require.NoError(t, err)
	require.Equal(t, found, mounted, "a line break that is no part of it, and a variable that holds nothing else")
	none, err := ProvidersFrom(func(string) string { return "" })
	require.NoError(t, err)
	require.Empty(t, none)
}
