package proxy

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash"
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
	if v := bytes.TrimSpace(h.PeekCanonical(authorization)); len(v) > 0 {
		if len(v) >= 6 && bytes.EqualFold(v[:6], []byte("Bearer")) && (len(v) == 6 || v[6] == ' ') {
			v = bytes.TrimSpace(v[6:])
		}
		if len(v) > 0 {
			return v
		}
	}
	if v := bytes.TrimSpace(h.PeekCanonical(plainAPIKey)); len(v) > 0 {
		return v
	}
	if v := bytes.TrimSpace(h.PeekCanonical(googleAPIKey)); len(v) > 0 {
		return v
	}
	return ctx.QueryArgs().Peek("key")
}

// keyring finds the API key that a secret opens. Random keys of ours are found by their SHA-256. A bcrypt hash is
// compared once and then remembered for five minutes under an HMAC of the secret, with an HMAC of secret and hash, so that
// neither of them is kept, a changed hash is compared anew, and what is remembered is found at once among any number of
// keys. Whether the key is revoked, expired or its user disabled is looked up on every request, never remembered.
type keyring struct {
	secret [32]byte
	mu     sync.Mutex
	known  map[[32]byte]opened  // by the HMAC of the secret
	recent map[string]time.Time // when a key was used last, by id, to half a minute
	work   chan struct{}        // bounds the comparisons that run at once: each costs tens of milliseconds
	macs   sync.Pool            // of *keyed
}

// opened is a comparison that has come out well.
type opened struct {
	until time.Time
	key   string   // id
	of    [32]byte // HMAC of the secret and the hash
}

func newKeyring() *keyring {
	k := &keyring{known: map[[32]byte]opened{}, recent: map[string]time.Time{}, work: make(chan struct{}, 2)}
	_, _ = rand.Read(k.secret[:]) // never fails: see crypto/rand
	k.macs.New = func() any { return &keyed{sum: hmac.New(sha256.New, k.secret[:])} }
	return k
}

// find returns nil when no key of the snapshot is opened by the secret.
func (k *keyring) find(snap *catalog.Snapshot, secret []byte, now time.Time) *catalog.Key {
	if key := snap.KeyBySHA256(sha256.Sum256(secret)); key != nil {
		return key
	}
	if key := k.remembered(snap, secret, now); key != nil {
		return key
	}
	for _, key := range snap.BcryptKeys(secret) {
		if k.compare(secret, key, now) {
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
	return k.remembered(snap, secret, now)
}

// remembered is the key for which a comparison that is still remembered has come out well, and whose hash has not changed since.
func (k *keyring) remembered(snap *catalog.Snapshot, secret []byte, now time.Time) *catalog.Key {
	sum := k.mac(secret, "")
	k.mu.Lock()
	o, ok := k.known[sum]
	k.mu.Unlock()
	if !ok || !now.Before(o.until) {
		return nil
	}
	if key := snap.Key(o.key); key != nil && k.mac(secret, key.Hash) == o.of {
		return key
	}
	return nil
}

// mac is what a secret is remembered under; with a hash, what it was compared with.
func (k *keyring) mac(secret []byte, hash string) (sum [32]byte) {
	m := k.macs.Get().(*keyed)
	m.sum.Reset()
	m.text = append(append(append(m.text[:0], secret...), 0), hash...)
	m.sum.Write(m.text)
	copy(sum[:], m.sum.Sum(m.text[:0]))
	clear(m.text)
	k.macs.Put(m)
	return sum
}

// keyed is the HMAC of one keyring with room for what it is made of.
type keyed struct {
	sum  hash.Hash
	text []byte
}

func (k *keyring) compare(secret []byte, key *catalog.Key, now time.Time) bool {
	if len(secret) > 72 { // bcrypt reads no further: a longer secret is not the one that was hashed
		return false
	}
	k.work <- struct{}{}
	err := bcrypt.CompareHashAndPassword([]byte(key.Hash), secret)
	<-k.work
	if err != nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.known) >= cacheMax {
		k.evict(now)
	}
	k.known[k.mac(secret, "")] = opened{now.Add(cacheFor), key.ID, k.mac(secret, key.Hash)}
	return true
}

// evict makes room: what has run out goes, else any one entry.
func (k *keyring) evict(now time.Time) {
	for s, o := range k.known {
		if !now.Before(o.until) {
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
