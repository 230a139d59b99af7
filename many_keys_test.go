package penstock_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Show: 10,000 keys with every limit in a running gateway: what each takes, and that a change of one of them is soon in force and
// holds up nobody (E11).
func TestTenThousandKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const keys = 10_000
	r := newRig(t, nil)
	b := fixed()
	b.PromptTokens, b.CachedTokens, b.OutTokens = 20, 0, 10
	r.upstream("a", b, nil)
	r.apply(map[string]any{"kind": "price", "id": "p", "model": "m-*", "input": "1", "output": "2"})
	secret := func(i int) string { return fmt.Sprintf("sk-pen-of-many-%d", i) }
	doc := func(i, rpm int) map[string]any {
		sum := sha256.Sum256([]byte(secret(i)))
		return map[string]any{"kind": "key", "id": fmt.Sprintf("many-%d", i), "access": "unrestricted", "hash": "sha256:" + hex.EncodeToString(sum[:]),
			"budget": "strict", "limits": map[string]any{"rpm": rpm, "tpm": 1_000_000, "budget": "100", "spending": []any{map[string]any{"period": "daily", "limit": "10"}}}}
	}
	ask := func(client *http.Client, i int) (int, time.Duration) {
		req, _ := http.NewRequest("POST", "http://"+r.gw.Addr()+"/v1/chat/completions", strings.NewReader(limitedChat))
		req.Header.Set("Authorization", secret(i))
		began := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, 0
		}
		resp.Body.Close()
		return resp.StatusCode, time.Since(began)
	}
	heap := func() int64 { // once it falls no more
		var m runtime.MemStats
		for last := int64(math.MaxInt64); ; {
			runtime.GC()
			runtime.ReadMemStats(&m)
			if now := int64(m.HeapAlloc + m.StackInuse); now < last-last/100 {
				last = now
			} else {
				return now
			}
		}
	}
	before := heap()
	began := time.Now()
	for from := 0; from < keys; from += 2500 {
		var docs []map[string]any
		for i := from; i < from+2500; i++ {
			docs = append(docs, doc(i, 1000))
		}
		r.apply(docs...)
	}
	loaded := time.Since(began)
	each := (heap() - before) / keys
	for i := 0; i < keys; i += 97 {
		if status, _ := ask(http.DefaultClient, i); status != 200 {
			t.Fatalf("key %d: %d", i, status)
		}
	}

	// One key of them is changed while others are used.
	stop, longest := make(chan struct{}), time.Duration(0)
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			status, took := ask(http.DefaultClient, 8000+i%1000)
			if status != 200 {
				t.Errorf("key %d: %d", 8000+i%1000, status)
				return
			}
			longest = max(longest, took)
		}
	})
	var took []time.Duration
	for range 9 {
		began := time.Now()
		r.apply(doc(77, 1001+len(took)))
		took = append(took, time.Since(began))
	}
	close(stop)
	all.Wait()
	r.apply(doc(77, 1))
	if a, b := first(ask(http.DefaultClient, 77)), first(ask(http.DefaultClient, 77)); a != 200 || b != 429 {
		t.Errorf("the change is not in force: %d %d", a, b)
	}
	slices.Sort(took)
	t.Logf("%d keys: %d bytes each, loaded in %s; a change of one of them takes %s (the longest of %d %s); the longest request meanwhile took %s",
		keys, each, loaded.Round(time.Millisecond), took[len(took)/2].Round(time.Millisecond), len(took), took[len(took)-1].Round(time.Millisecond), longest.Round(time.Millisecond))
	if each > 40<<10 {
		t.Errorf("a key takes %d bytes", each)
	}
}

func first[A, B any](a A, _ B) A { return a }
