package penstock_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock"
	"github.com/penstock/penstock/adapters/admin"
	"github.com/penstock/penstock/adapters/postgres"
	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/request"
	"github.com/penstock/penstock/events"
)

// load is clients that call one after the other without a pause.
type load struct {
	r      *rig
	stop   chan struct{}
	done   sync.WaitGroup
	ok     atomic.Int64
	mu     sync.Mutex
	failed []string
	took   []time.Duration
}

func newLoad(r *rig, key string, clients int) *load {
	l := &load{r: r, stop: make(chan struct{})}
	address := "http://" + r.gw.Addr() + "/v1/chat/completions"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: time.Minute}
	r.t.Cleanup(client.CloseIdleConnections)
	for c := range clients {
		l.done.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				l.call(client, address, key, fmt.Sprintf("c%d-%d", c, n), n%4 == 0)
			}
		})
	}
	return l
}

func (l *load) call(client *http.Client, address, key, rid string, stream bool) {
	body := fmt.Sprintf(`{"model":"m-1","stream":%v,"messages":[{"role":"user","content":"[rid:%s]"}]}`, stream, rid)
	req, err := http.NewRequest("POST", address, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Client-Request-Id", rid)
	begun := time.Now()
	resp, err := client.Do(req)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, time.Since(begun))
	switch {
	case err != nil:
		l.failed = append(l.failed, err.Error())
	case resp.StatusCode != 200:
		l.failed = append(l.failed, fmt.Sprintf("%d %s", resp.StatusCode, answer))
	default:
		l.ok.Add(1)
	}
}

// end stops the clients; none of their requests may have failed.
func (l *load) end() (requests int64) {
	close(l.stop)
	l.done.Wait()
	require.Empty(l.r.t, l.failed, "no request fails because of the store")
	slices.Sort(l.took)
	l.r.t.Logf("%d requests, p50 %s, p99 %s, longest %s", l.ok.Load(), l.took[len(l.took)/2], l.took[len(l.took)*99/100], l.took[len(l.took)-1])
	return l.ok.Load()
}

// passes waits until so many more requests have been answered.
func (l *load) passes(n int64) {
	l.r.t.Helper()
	n += l.ok.Load()
	require.Eventually(l.r.t, func() bool { return l.ok.Load() >= n }, time.Minute, time.Millisecond, "requests are answered")
}

// becomes waits for a state of the gateway.
func becomes(r *rig, what string, ok func(admin.HealthReport) bool) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return ok(r.health()) }, 2*time.Minute, 2*time.Millisecond, what)
}

func isSpooling(h admin.HealthReport) bool {
	return h.Status == "degraded" && h.Store.Spooling && h.Store.Spooled > 0
}
func isWell(h admin.HealthReport) bool {
	return h.Status == "ok" && !h.Store.Spooling && h.Store.Spooled == 0
}

// onOwnServer is a gateway on a PostgreSQL server that a test may disturb.
func onOwnServer(t *testing.T, change func(*penstock.Config)) (*rig, *pgtest.Server, string) {
	t.Helper()
	server := pgtest.Start(t)
	r := newRig(t, func(c *penstock.Config) {
		c.Store = server.NewDatabase(t)
		if change != nil {
			change(c)
		}
	})
	b := simulator.Healthy()
	b.PromptTokens, b.OutTokens, b.Chunks, b.RespBytes, b.TTFBMs, b.TTFBJitterMs = 100, 10, 3, 300, 20, 20
	r.upstream("a", b, nil)
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "2", "output": "8"})
	return r, server, r.key("team-a", nil)
}

// accountedFor wants every request that reached the upstream once in the log and once on the bill, and a replay that
// gives the same.
func accountedFor(r *rig, requests int64) {
	r.t.Helper()
	sent := r.up["a"].Requests()
	require.Len(r.t, sent, int(requests), "each request was sent once")
	logged := map[string]int{}
	path := "/api/v1/requests?limit=1000"
	for next := ""; ; {
		page := ask[struct {
			Items []struct {
				ClientID string `json:"client_request_id"`
				State    string
				Outcome  string
				Cost     string
			}
			Next string `json:"next"`
		}](r, "GET", path+next, nil)
		for _, e := range page.Items {
			logged[e.ClientID]++
			require.Equal(r.t, "completed done", e.Outcome+" "+e.State, e.ClientID)
		}
		if page.Next == "" {
			break
		}
		next = "&before=" + url.QueryEscape(page.Next)
	}
	require.Len(r.t, logged, len(sent))
	for rid, record := range sent {
		require.Equal(r.t, 1, record.Attempts, rid)
		require.Equal(r.t, 1, logged[rid], rid)
	}
	lines := ask[items[struct {
		Requests, Attempts int64
		Cost               string
	}]](r, "GET", "/api/v1/billing", nil).Items
	require.Len(r.t, lines, 1)
	require.Equal(r.t, requests, lines[0].Requests)
	require.Equal(r.t, requests, lines[0].Attempts)
	micro := requests * (100*2 + 10*8) // millionths of a dollar
	require.Equal(r.t, strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%06d", micro/1e6, micro%1e6), "0"), "."), lines[0].Cost)
	equal(r.t, r)
}

// outages are as long as a person may wait for; -args -outages=full makes them those of a real one.
var outages = flag.String("outages", "short", "how long PostgreSQL is away under load: short, full")

type outageTimes struct {
	stopped, hung  time.Duration
	ended, crashed int // how often all sessions are ended, and one of the server's processes killed
}

var outageLengths = map[string]outageTimes{
	"short": {3 * time.Second, 3 * time.Second, 10, 1},
	"full":  {20 * time.Second, 5 * time.Second, 30, 5},
}

// What a server does when it is stopped, hangs, or loses its sessions is nothing that a client notices (pains 7, 15, 20).
func TestNoRequestFailsWhilePostgreSQLIsAway(t *testing.T) {
	long, ok := outageLengths[*outages]
	require.True(t, ok, "-outages: want short or full, have %q", *outages)
	r, server, key := onOwnServer(t, nil)
	l := newLoad(r, key, 32)
	l.passes(200)
	away := func(what string, end, back func(), lasts time.Duration) {
		end()
		begun, before := time.Now(), l.ok.Load()
		becomes(r, what+": /health says that the spool is in use", isSpooling)
		spooling := time.Since(begun)
		l.passes(100)
		time.Sleep(lasts - time.Since(begun)) // the outage is the point
		l.passes(100)
		require.Equal(t, http.StatusOK, status(t, r.gw.Addr()), "a load balancer keeps the gateway")
		served, spooled, gone := l.ok.Load()-before, r.health().Store.Spooled, time.Since(begun)
		back()
		begun = time.Now()
		becomes(r, what+": the spool is stored", isWell)
		t.Logf("%s for %s: in the spool after %s, %d requests answered, %d appends in the spool, stored %s after the server came back",
			what, gone.Round(10*time.Millisecond), spooling.Round(time.Millisecond), served, spooled, time.Since(begun).Round(time.Millisecond))
		l.passes(100)
	}
	away("a crash", func() { server.Stop(t, pgtest.Immediate) }, func() { server.Restart(t) }, long.stopped)
	away("a hung server", func() { server.Pause(t) }, func() { server.Continue(t) }, long.hung)
	for range long.ended {
		server.KillBackends(t, r.config.Store)
		l.passes(20)
	}
	for range long.crashed {
		becomes(r, "all is stored", isWell)
		server.CrashBackend(t, r.config.Store)
		l.passes(100)
	}
	requests := l.end()
	becomes(r, "all is stored", isWell)
	accountedFor(r, requests)
	storedOnce(r)
	left, err := filepath.Glob(filepath.Join(r.config.DataDir, "spool", "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// storedOnce wants the three facts of a request that went well, once each, of every request that reached the upstream.
func storedOnce(r *rig) {
	r.t.Helper()
	s, err := postgres.OpenStore(context.Background(), r.config.Store, postgres.StoreOptions{Shared: true})
	require.NoError(r.t, err)
	defer s.Close()
	types, clients, n := map[string]string{}, map[string]int{}, 0
	require.NoError(r.t, s.Find(context.Background(), events.Query{StreamPrefix: events.RequestStreams}, func(c *events.Committed) bool {
		types[c.Request] += c.Types + " "
		if f, ok := c.Facts[0].(*request.Admitted); ok {
			clients[f.Ask.ClientID]++
		}
		n += len(c.Facts)
		return true
	}))
	for id, story := range types {
		require.Regexp(r.t, `^request\.admitted attempt\.dispatched request\.settled(@\d+)? $`, story, id)
	}
	sent := r.up["a"].Requests()
	for rid := range sent {
		require.Equal(r.t, 1, clients[rid], rid)
	}
	require.Len(r.t, types, len(sent))
	r.t.Logf("%d requests at the upstream, %d events of %d requests in the store: none lost, none twice", len(sent), n, len(types))
}

func status(t *testing.T, address string) int {
	t.Helper()
	resp, err := http.Get("http://" + address + "/health")
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// soon wants an answer in time, for which a machine may stand still once or twice.
func (r *rig) soon(most time.Duration, method, path string, body any) (status int, text []byte) {
	r.t.Helper()
	for range 3 {
		begun := time.Now()
		if status, text = r.admin(method, path, body); time.Since(begun) < most {
			return status, text
		}
	}
	r.t.Errorf("%s %s takes longer than %s each time", method, path, most)
	return status, text
}

func TestDuringAnOutageTheAdminAPIAnswersQuickly(t *testing.T) {
	r, server, key := onOwnServer(t, nil)
	r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	for what, disturb := range map[string][2]func(testing.TB){
		"a hung server":    {server.Pause, server.Continue},
		"a stopped server": {func(t testing.TB) { server.Stop(t, pgtest.Fast) }, server.Restart},
	} {
		t.Run(what, func(t *testing.T) {
			disturb[0](t)
			resp, body := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
			require.Equal(t, 200, resp.StatusCode, body)
			becomes(r, "the spool is in use", isSpooling)
			for _, c := range []struct {
				method, path string
				body         any
			}{
				{"GET", "/api/v1/requests", nil}, {"GET", "/api/v1/billing", nil}, {"GET", "/api/v1/stats/overview", nil},
				{"POST", "/api/v1/keys", map[string]any{"id": "other"}},
				{"POST", "/api/v1/apply", map[string]any{"resources": []any{map[string]any{"kind": "group", "id": "g"}}}},
				{"POST", "/api/v1/reprice", map[string]any{"apply": true}}, {"POST", "/api/v1/replay", map[string]any{"verify": true}},
				{"POST", "/api/v1/books/close", map[string]any{"until": "2026-01-01"}},
			} {
				status, body := r.soon(5*time.Second, c.method, c.path, c.body)
				require.Equal(t, 503, status, "%s %s: %s", c.method, c.path, body)
				require.Contains(t, string(body), "127.0.0.1:", "%s: the reason is told", c.path)
				require.NotContains(t, string(body), `"location"`, "%s: nothing is wrong with what was sent", c.path)
			}
			disturb[1](t)
			becomes(r, "the spool is stored", isWell)
			r.key("after-"+strings.ReplaceAll(what, " ", "-"), nil)
		})
	}
	require.Equal(t, int64(3), ask[items[struct{ Requests int64 }]](r, "GET", "/api/v1/billing", nil).Items[0].Requests)
}

// A gateway that is stopped in an outage leaves the rest to the next start, and to operators' commands.
func TestWhatIsInTheSpoolAtTheEndIsStoredByTheNextStart(t *testing.T) {
	for _, next := range []string{"a gateway", "an operator"} {
		t.Run(next, func(t *testing.T) {
			r, server, key := onOwnServer(t, nil)
			server.Stop(t, pgtest.Immediate)
			for i := range 20 {
				resp, body := r.post("/v1/chat/completions", fmt.Sprintf(`{"model":"m-1","messages":[{"role":"user","content":"[rid:r%d]"}]}`, i),
					"Authorization", "Bearer "+key, "X-Client-Request-Id", fmt.Sprintf("r%d", i))
				require.Equal(t, 200, resp.StatusCode, body)
			}
			r.close()
			_, err := penstock.Open(r.config)
			require.ErrorContains(t, err, "appends of the last outage wait in")
			server.Restart(t)
			if next == "an operator" {
				o, err := penstock.OpenOffline(context.Background(), r.config.DataDir, r.config.Store, "")
				require.NoError(t, err)
				require.NoError(t, o.Close())
				left, err := os.ReadDir(filepath.Join(r.config.DataDir, "spool"))
				require.NoError(t, err)
				require.Empty(t, left)
			}
			r.open()
			accountedFor(r, 20)
		})
	}
}

func TestASpoolIsNotStoredInAnotherStore(t *testing.T) {
	r, server, key := onOwnServer(t, nil)
	server.Stop(t, pgtest.Immediate)
	resp, body := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
	require.Equal(t, 200, resp.StatusCode, body)
	r.close()
	other := r.config
	other.Store = "sqlite"
	_, err := penstock.Open(other)
	require.ErrorContains(t, err, "the spool belongs to another event store")
	require.Contains(t, errors.FlattenHints(err), filepath.Join(other.DataDir, "spool"))
	server.Restart(t)
	r.open()
}

func TestADamagedSpoolIsKeptAndTheOperatorToldWhatToDo(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "spool", "00000001.spool")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("not what it was"), 0o600))
	_, err := penstock.Open(penstock.Config{DataDir: folder, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"})
	require.ErrorIs(t, err, events.ErrSpoolCorrupt)
	require.ErrorContains(t, err, "00000001")
	require.Contains(t, errors.FlattenHints(err), "nothing was thrown away; keep a copy of "+filepath.Dir(file))
	require.FileExists(t, file)
}

// An outage is served through until the spool is full. From then on clients are refused, which is another alert than the first.
func TestAFullSpoolIsToldToWebhooks(t *testing.T) {
	r, server, key := onOwnServer(t, func(c *penstock.Config) { c.SpoolMax = 64 << 10 })
	box := newMailbox(t)
	r.apply(hookOf("ops", box.URL, "alert.store_*"))
	server.Stop(t, pgtest.Immediate)
	ask := func() int {
		resp, _ := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
		return resp.StatusCode
	}
	require.Equal(t, 200, ask())
	box.has(t, "alert.store_unavailable")
	require.Equal(t, "served", box.facts[0].Data["requests"])
	require.Eventually(t, func() bool { return ask() == 503 }, 30*time.Second, time.Millisecond)
	box.has(t, "alert.store_unavailable", "alert.store_unavailable")
	require.Equal(t, "refused", box.facts[1].Data["requests"])
	require.Contains(t, box.facts[1].Data["error"], "spool is full")
	server.Restart(t)
	box.has(t, "alert.store_unavailable", "alert.store_unavailable", "alert.store_available")
}

func TestAnOutageRefusesRequestsWhereTheOperatorWantsIt(t *testing.T) {
	r, server, key := onOwnServer(t, func(c *penstock.Config) { c.OnStoreDown = "reject" })
	server.Stop(t, pgtest.Immediate)
	require.Eventually(t, func() bool {
		resp, body := r.post("/v1/chat/completions", askBody, "Authorization", "Bearer "+key)
		return resp.StatusCode == 503 && strings.Contains(body, "STORE_UNAVAILABLE")
	}, time.Minute, time.Millisecond)
	require.Equal(t, "unavailable", r.health().Status)
	server.Restart(t)
	becomes(r, "the gateway is well", isWell)
}

func TestAWrongSettingForOutagesIsNamed(t *testing.T) {
	_, err := penstock.Open(penstock.Config{DataDir: t.TempDir(), OnStoreDown: "wait"})
	require.ErrorContains(t, err, "on_store_down")
	_, err = penstock.Open(penstock.Config{DataDir: t.TempDir(), SpoolMax: -1})
	require.ErrorContains(t, err, "spool_max")
}
