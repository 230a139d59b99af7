package penstock_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock"
)

var belongFor = flag.Duration("belong", time.Second, "how long clients and upstreams that are told apart load a gateway")

// belonging is what became of a request as its client saw it.
type belonging struct {
	of, session, key string
	gone             bool
	status           int
	whole            bool // the answer came to its end
	last             bool // it was the last one of its connection
}

// belongRig is a gateway under clients that do all that clients may do.
type belongRig struct {
	*rig
	echo *echo
	url  atomic.Value // of the gateway
	keys []string

	mu   sync.Mutex
	told []belonging
}

// client sends one request after the other over connections of its own, until stop is closed.
func (b *belongRig) client(n int, stop chan struct{}) {
	transport := &http.Transport{MaxIdleConnsPerHost: 2}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	moods := []string{"", "", "", "length", "length", "slow", "slow", "late", "refused", "broken", "dead", "cut", "mute"}
	for i := 1; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		is := belonging{of: fmt.Sprintf("tok-%d-%d-z", n, i), key: b.keys[rand.IntN(len(b.keys))]}
		is.session = "s-" + is.of
		mood := moods[rand.IntN(len(moods))]
		if i%200 == 100 {
			mood = "limited"
		}
		ctx, cancel := context.WithCancel(context.Background())
		if rand.IntN(4) == 0 {
			is.gone = true
			time.AfterFunc(time.Duration(rand.IntN(12_000))*time.Microsecond, cancel)
		}
		fill := strings.Repeat("x", rand.IntN(rand.IntN(20_000)+1))
		body := fmt.Sprintf(`{"model":"m-%s","stream":%v,"prompt_cache_key":"%s","messages":[{"role":"user","content":"%s %s"}]}`,
			is.of, rand.IntN(2) == 0, is.session, is.of, fill)
		req, err := http.NewRequestWithContext(ctx, "POST", b.url.Load().(string)+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			b.t.Error(err)
			cancel()
			return
		}
		for name, v := range map[string]string{
			"Authorization": "Bearer " + b.secret[is.key], "X-Token": is.of, "X-Mood": mood, "Session-Id": is.session,
			"X-Client-Request-Id": is.of, "User-Agent": "codex_cli_rs/" + is.of, "Content-Type": "application/json",
		} {
			req.Header.Set(name, v)
		}
		b.hear(c, req, &is)
		if cancel(); is.status == 0 && !is.gone { // the gateway has stopped
			time.Sleep(time.Millisecond)
		}
		b.mu.Lock()
		b.told = append(b.told, is)
		b.mu.Unlock()
	}
}

// hear reads an answer and looks whose it is.
func (b *belongRig) hear(c *http.Client, req *http.Request, is *belonging) {
	resp, err := c.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	is.status, is.whole, is.last = resp.StatusCode, err == nil, resp.Close
	var head strings.Builder
	_ = resp.Header.Write(&head)
	if !only(head.String()+string(text), is.of) {
		b.t.Errorf("%s got the answer of another one: %s%.2000s", is.of, head.String(), text)
	}
	if to := resp.Header.Get("X-Answer-To"); is.status == 200 && to != is.of && to != "" {
		b.t.Errorf("%s got the head of the answer to %s", is.of, to)
	}
	if is.whole && is.status == 200 && !strings.Contains(string(text), is.of) && !strings.Contains(string(text), "error") {
		b.t.Errorf("%s got a whole answer without its own text: %.2000s", is.of, text)
	}
}

// operate changes all that can be changed, and takes slots back, until stop is closed. scarce: there is one slot, and so many wait
// for it that those who stream are kept alive.
func (b *belongRig) operate(url string, scarce bool, stop chan struct{}) {
	slots, patience := func() int { return 4 + rand.IntN(8) }, "60ms"
	if scarce {
		slots, patience = func() int { return 1 }, "5s"
	}
	b.apply(b.door("a", url, slots(), patience), b.door("b", url, slots(), patience))
	hash := b.hash(b.keys[0])
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		switch i % 6 {
		case 0:
			held := b.board("a").Held
			for k := range min(len(held), 3) {
				b.admin("DELETE", "/api/v1/upstreams/a/leases/"+held[k].RequestID, nil)
			}
		case 1:
			b.apply(b.door("a", url, slots(), patience), map[string]any{"kind": "key", "id": b.keys[0], "hash": hash, "access": "unrestricted", "slots": 2 + rand.IntN(9)})
		case 2:
			b.apply(b.door("c", url, 1, patience), map[string]any{"kind": "account", "id": "c-1", "upstream": "c", "api_key": "sk-c"})
		case 3:
			b.admin("POST", "/api/v1/upstreams/b/breaker", map[string]any{"action": "open"})
		case 4:
			b.admin("POST", "/api/v1/upstreams/b/breaker", map[string]any{"action": "close"})
		case 5:
			b.admin("DELETE", "/api/v1/upstreams/c?cascade=true", nil)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *belongRig) door(id, url string, slots int, patience string) map[string]any {
	return map[string]any{
		"kind": "upstream", "id": id, "base_url": url, "capabilities": []string{"openai_chat_compatible", "openai_responses"}, "slots": slots,
		"queue":   map[string]any{"enabled": true, "timeout": patience},
		"breaker": map[string]any{"failures": 20, "open_for": "20ms", "probe_every": "10ms", "open_growth": "1"},
	}
}

// Whatever clients, upstreams and operators do to one another at once, and while the gateway stops and starts again: nobody ever gets
// a byte of another one's answer, no upstream is sent a mixture of two requests, and the log has of each request its own session,
// program, usage and end.
func TestWhatBelongsToARequestStaysWithIt(t *testing.T) {
	b := &belongRig{echo: &echo{t: t}, keys: []string{"one", "two", "three"}}
	up := httptest.NewUnstartedServer(b.echo)
	up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	up.Start()
	defer up.Close()
	b.rig = newRig(t, func(c *penstock.Config) {
		c.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	b.apply(b.door("a", up.URL, 8, "60ms"), b.door("b", up.URL, 8, "60ms"),
		map[string]any{"kind": "account", "id": "a-1", "upstream": "a", "api_key": "sk-a-1"}, map[string]any{"kind": "account", "id": "a-2", "upstream": "a", "api_key": "sk-a-2", "slots": 3},
		map[string]any{"kind": "account", "id": "b-1", "upstream": "b", "api_key": "sk-b-1"},
		map[string]any{"kind": "price", "model": "*", "input": "1", "output": "1"}, map[string]any{"kind": "setting", "name": "block.max", "value": "1s"},
		map[string]any{"kind": "setting", "name": "keepalive.after", "value": "1s"}, map[string]any{"kind": "setting", "name": "keepalive.every", "value": "1s"})
	for _, k := range b.keys {
		b.key(k, nil)
	}
	for round := range 2 {
		b.url.Store("http://" + b.gw.Addr())
		stop, halt := make(chan struct{}), make(chan struct{})
		var clients, operator sync.WaitGroup
		for n := range []int{24, 96}[round] {
			clients.Go(func() { b.client(100*round+n+1, stop) })
		}
		operator.Go(func() { b.operate(up.URL, round == 1, halt) })
		time.Sleep(*belongFor / 2)
		close(halt)
		operator.Wait()
		b.close() // in the middle of it all
		close(stop)
		clients.Wait()
		b.open()
	}
	b.everyLineIsOf()
	b.verify()
}

// everyLineIsOf looks at the log.
func (b *belongRig) everyLineIsOf() {
	for _, id := range []string{"a", "b"} {
		b.await(id+" to be free", func() bool { return len(b.board(id).Held)+len(b.board(id).Waiting) == 0 })
		b.nothingHeld(id)
	}
	told := map[string]belonging{}
	for _, is := range b.told {
		told[is.of] = is
	}
	outcomes := map[string]int{}
	lines := map[string]bool{}
	type line struct {
		logged
		ClientID  string `json:"client_request_id"`
		UpRequest string `json:"upstream_request_id"`
		Session   string `json:"session"`
		Client    string `json:"client"`
	}
	for l := range everyLine[line](b.rig) {
		is, known := told[l.ClientID]
		if !known || lines[l.ClientID] {
			b.t.Errorf("a line of nobody, or a second one: %+v", l)
			continue
		}
		lines[l.ClientID] = true
		outcomes[l.Outcome]++
		refused := l.Outcome == "rejected" && l.Model == "" // before its body was read
		if !refused && (l.Session != is.session || l.Model != "m-"+is.of) || l.Client != "codex_cli_rs/"+is.of || l.Key != is.key || l.State != "done" {
			b.t.Errorf("%+v is logged as %+v", is, l)
		}
		if l.UpRequest != "" && l.UpRequest != "up-"+is.of {
			b.t.Errorf("%s is logged with the upstream's %s", is.of, l.UpRequest)
		}
		var client, n int64
		_, _ = fmt.Sscanf(is.of, "tok-%d-%d-z", &client, &n)
		if l.UsageSource == "reported" && (l.Usage.Input+l.Usage.CachedInput != 1000*client+n || l.Usage.Output != n) && len(l.Attempts) == 1 {
			b.t.Errorf("%s is logged with the usage %+v", is.of, l.Usage)
		}
		early := is.status == 200 && is.last && l.Stream // its head was sent while it waited
		if !is.gone && is.whole && is.status != 0 && l.Status != is.status && !early {
			b.t.Errorf("%s got %d and is logged with %+v", is.of, is.status, l)
		}
	}
	for of, is := range told {
		if is.status != 0 && !lines[of] {
			b.t.Errorf("%+v is not in the log", is)
		}
	}
	b.t.Logf("%d requests, %d calls, outcomes %v", len(told), b.echo.calls.Load(), outcomes)
}
