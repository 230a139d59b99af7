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

	recentMax = 65536 // keys whose last use is remembered
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
	recent map[string]time.Time   // when a key was used last, by id, to half a minute
	work   chan struct{}          // bounds the comparisons that run at once: each costs tens of milliseconds
}

func newKeyring() *keyring {
	k := &keyring{known: map[[32]byte]time.Time{}, recent: map[string]time.Time{}, work: make(chan struct{}, 2)}
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

// used notes that a key was found.
func (k *keyring) used(id string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.recent[id]) < cacheFor/10 {
		return
	}
	if k.recent[id] = now; len(k.recent) > recentMax {
		for id, at := range k.recent {
			if now.Sub(at) >= cacheFor || len(k.recent) > recentMax {
				delete(k.recent, id)
			}
		}
	}
}

// recall finds a key without comparing hashes that cost anything: one that was used within the last five minutes.
func (k *keyring) recall(snap *catalog.Snapshot, secret []byte, now time.Time) *catalog.Key {
	if key := snap.KeyBySHA256(sha256.Sum256(secret)); key != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if at, ok := k.recent[key.ID]; ok && now.Sub(at) < cacheFor {
			return key
		}
		return nil
	}
	for _, key := range snap.BcryptKeys(string(secret)) {
		if k.opened(k.mac(secret, key.Hash), now) {
			return key
		}
	}
	return nil
}

// opened says that a comparison that is still remembered has come out well.
func (k *keyring) opened(sum [32]byte, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, ok := k.known[sum]
	return ok && now.Before(until)
}

// mac is what a secret is remembered under that opens a hash.
func (k *keyring) mac(secret []byte, hash string) (sum [32]byte) {
	mac := hmac.New(sha256.New, k.secret[:])
	mac.Write(secret)
	mac.Write([]byte{0})
	mac.Write([]byte(hash))
	mac.Sum(sum[:0])
	return sum
}

func (k *keyring) compare(secret []byte, hash string, now time.Time) bool {
	sum := k.mac(secret, hash)
	if k.opened(sum, now) {
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
