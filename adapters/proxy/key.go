package proxy

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/crypto/bcrypt"

	"github.com/penstock/penstock/domain/catalog"
)

const (
	cacheFor = 5 * time.Minute
	cacheMax = 2048
)

// presented finds the client's key: Authorization (with or without Bearer), then x-api-key, then x-goog-api-key, then
// the query's key. The first one that is there counts, even if it turns out to be wrong.
func presented(ctx *fasthttp.RequestCtx) []byte {
	h := &ctx.Request.Header
	if v := bytes.TrimSpace(h.Peek("Authorization")); len(v) > 0 {
		if len(v) >= 6 && bytes.EqualFold(v[:6], []byte("Bearer")) && (len(v) == 6 || v[6] == ' ') {
			v = bytes.TrimSpace(v[6:])
		}
		if len(v) > 0 {
			return v
		}
	}
	if v := bytes.TrimSpace(h.Peek("X-Api-Key")); len(v) > 0 {
		return v
	}
	if v := bytes.TrimSpace(h.Peek("X-Goog-Api-Key")); len(v) > 0 {
		return v
	}
	return ctx.QueryArgs().Peek("key")
}

// keyring finds the API key that a secret opens. Random keys of ours are found by their SHA-256. A bcrypt hash is
// compared once and then remembered for five minutes under an HMAC of the secret and the hash, so that neither the
// secret nor a key to it is kept, and a changed hash is compared anew. Whether the key is revoked, expired or its user
// disabled is looked up on every request, never remembered.
type keyring struct {
	secret [32]byte
	mu     sync.Mutex
	known  map[[32]byte]time.Time // until
	work   chan struct{}          // bounds the comparisons that run at once: each costs tens of milliseconds
}

func newKeyring() *keyring {
	k := &keyring{known: map[[32]byte]time.Time{}, work: make(chan struct{}, 2)}
	_, _ = rand.Read(k.secret[:]) // never fails: see crypto/rand
	return k
}

// find returns nil when no key of the snapshot is opened by the secret.
func (k *keyring) find(snap *catalog.Snapshot, secret []byte, now time.Time) *catalog.Key {
	if key := snap.KeyBySHA256(sha256.Sum256(secret)); key != nil {
		return key
	}
	for _, key := range snap.BcryptKeys(string(secret)) {
		if k.compare(secret, key.Hash, now) {
			return key
		}
	}
	return nil
}

func (k *keyring) compare(secret []byte, hash string, now time.Time) bool {
	mac := hmac.New(sha256.New, k.secret[:])
	mac.Write(secret)
	mac.Write([]byte{0})
	mac.Write([]byte(hash))
	var sum [32]byte
	mac.Sum(sum[:0])
	k.mu.Lock()
	until, ok := k.known[sum]
	k.mu.Unlock()
	if ok && now.Before(until) {
		return true
	}
	if len(secret) > 72 { // bcrypt reads no further: a longer secret is not the one that was hashed
		return false
	}
	k.work <- struct{}{}
	err := bcrypt.CompareHashAndPassword([]byte(hash), secret)
	<-k.work
	if err != nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= cacheMax {
		k.evict(now)
	}
	k.known[sum] = now.Add(cacheFor)
	return true
}

// evict makes room: what has run out goes, else any one entry.
func (k *keyring) evict(now time.Time) {
	for s, until := range k.known {
		if !now.Before(until) {
			delete(k.known, s)
		}
	}
	for s := range k.known {
		if len(k.known) < cacheMax {
			return
		}
		delete(k.known, s)
	}
}
