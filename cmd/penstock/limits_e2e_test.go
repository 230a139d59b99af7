package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/adapters/postgres/pgtest"
	"github.com/penstock/penstock/cmd/mockllm/simulator"
	"github.com/penstock/penstock/domain/money"
)

// kill -9 with fifty clients on each of a strict budget, a strict balance and a window of a subscription of one dollar, and on sixty
// requests per minute: before and after it together they never get more (B25, B29, B48, A33; pains 1, 9, 23, 64).
func TestKillLoosensNoLimit(t *testing.T) { killedAtTheLimit(t, newInstance(t)) }

func TestKillLoosensNoLimitOnPostgreSQL(t *testing.T) {
	server := pgtest.Shared(t)
	killedAtTheLimit(t, newInstance(t, "PENSTOCK_STORE="+server.NewDatabase(t)))
}

func killedAtTheLimit(t *testing.T, i *instance) {
	b := simulator.Healthy()
	b.PromptTokens, b.OutTokens, b.TTFBMs = 20, 10, 20
	up := simulated(t, b)
	i.start()
	i.configure(up)
	i.run(0, "kind: price\nmodel: dear\ninput: \"100\"\noutput: \"500\"\n", "apply", "-f", "-") // 0.007 each
	i.run(0, "kind: user\nid: owner\nbudget: strict\n---\nkind: user\nid: member\nbudget: strict\n", "apply", "-f", "-")
	i.run(0, "", "credit", "owner", "1", "--id", "first")
	i.run(0, "", "subscription", "grant", "member", "--id", "s", "--daily", "1")
	keys := map[string]string{
		"poor":   strings.TrimSpace(i.run(0, "", "key", "create", "--id", "poor", "--budget", "1", "--budget-mode", "strict")),
		"slow":   strings.TrimSpace(i.run(0, "", "key", "create", "--id", "slow", "--rpm", "60")),
		"owner":  strings.TrimSpace(i.run(0, "", "key", "create", "--id", "owner", "--user", "owner")),
		"member": strings.TrimSpace(i.run(0, "", "key", "create", "--id", "member", "--user", "member")),
	}
	moneyed := []string{"poor", "owner", "member"}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: 30 * time.Second}
	began := time.Now()
	ask := func(of, rid string) int {
		body := fmt.Sprintf(`{"model":"dear","max_tokens":10,"messages":[{"role":"user","content":"[rid:%s]"}]}`, rid)
		req, _ := http.NewRequest("POST", "http://"+i.listen+"/v1/chat/completions", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+keys[of])
		resp, err := client.Do(req)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	crowd := func(round int) *sync.WaitGroup {
		var wg sync.WaitGroup
		for of := range keys {
			for c := range 50 {
				wg.Go(func() {
					for n := range 20 {
						if ask(of, fmt.Sprintf("%s-%d-%d-%d", of, round, c, n)) != 200 {
							return
						}
					}
				})
			}
		}
		return &wg
	}
	reached := func(of string) (n int) {
		for rid := range up.Requests() {
			if strings.HasPrefix(rid, of+"-") {
				n++
			}
		}
		return n
	}
	wg := crowd(0)
	for end := time.Now().Add(time.Minute); reached("poor") < 20 || reached("slow") < 20 || reached("owner") < 20 || reached("member") < 20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("only %d, %d, %d and %d", reached("poor"), reached("slow"), reached("owner"), reached("member"))
		}
	}
	i.signal(syscall.SIGKILL)
	wg.Wait()
	client.CloseIdleConnections()
	i.start()
	crowd(1).Wait()
	for _, of := range moneyed {
		for range 200 { // alone: nothing is set aside for others
			if ask(of, of+"-last") != 200 {
				break
			}
		}
	}
	i.run(0, "", "credit", "owner", "1", "--id", "first") // whoever repeats it books nothing
	if out := i.run(0, "", "key", "status", "poor"); !strings.Contains(out, "strict: ") || !strings.Contains(out, " of 1 USD spent, 0 set aside") {
		t.Errorf("key status: %s", out)
	}
	if out := i.run(0, "", "key", "status", "slow"); !strings.Contains(out, "key rpm: 60 of 60, opens at ") && time.Since(began) < time.Minute {
		t.Errorf("key status: %s", out)
	}
	for of, want := range map[string]string{"owner": "user balance: 0.", "member": "subscription s: in force"} {
		if out := i.run(0, "", "key", "status", of); !strings.Contains(out, want) {
			t.Errorf("key status: %s", out)
		}
	}
	if n := reached("slow"); n > 60 && time.Since(began) < time.Minute {
		t.Errorf("%d requests of rpm 60 reached the upstream", n)
	}
	sums := map[string]money.Amount{}
	sent := 0
	for _, e := range i.logs() {
		if a, err := money.Parse(e.Cost); err == nil {
			sums[e.Key] += a
		}
		if e.Key == "slow" && e.Sent {
			sent++
		}
	}
	for _, of := range moneyed {
		if sum := sums[of]; sum > money.USD || sum < 95*money.USD/100 {
			t.Errorf("%s was spent by %s", sum, of)
		}
	}
	for _, user := range []string{"owner", "member"} {
		var a struct {
			Left, Reserved money.Amount
			Subscriptions  []struct {
				Windows []struct{ Spent, Reserved money.Amount }
			}
		}
		if err := json.Unmarshal([]byte(i.run(0, "", "balance", user, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		spent := money.USD - a.Left
		if user == "member" {
			spent = a.Subscriptions[0].Windows[0].Spent
		}
		if spent != sums[user] || a.Reserved != 0 {
			t.Errorf("%s has spent %s by its account, %s by the log", user, spent, sums[user])
		}
	}
	if sent != 60 && time.Since(began) < time.Minute {
		t.Errorf("%d were sent of rpm 60", sent)
	}
	if code := i.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: exit %d\n%s", code, i.log)
	}
}
