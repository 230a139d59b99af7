package actors_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/actors"
	"github.com/penstock/penstock/adapters/memory"
	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// sealing is a vault that marks what it seals; with another mark it opens nothing.
type sealing struct{ mark string }

func (v sealing) Seal(account string, _ int64, plain string) (sealed, digest []byte) {
	return []byte(v.mark + ":" + account + ":" + plain), v.Digest(account, plain)
}

func (v sealing) Digest(account, plain string) []byte {
	return []byte("digest:" + account + ":" + plain)
}

func (v sealing) Open(account string, _ int64, sealed []byte) (string, error) {
	plain, ok := bytes.CutPrefix(sealed, []byte(v.mark+":"+account+":"))
	if !ok {
		return "", errors.New("does not open")
	}
	return string(plain), nil
}

// office is a catalogue over a store and a journal.
type office struct {
	*actors.Catalogue
	t       *testing.T
	store   *books
	journal *events.Journal
	inForce atomic.Int64
}

func openOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, store: &books{Store: memory.NewStore()}}
	o.journal = events.NewJournal(events.JournalOptions{Store: o.store, Node: "n"})
	t.Cleanup(func() {
		if err := o.journal.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var err error
	if o.Catalogue, err = actors.LoadCatalogue(context.Background(), o.store, sealing{"x"}, nil); err != nil {
		t.Fatal(err)
	}
	o.Serve(o.journal, "n", func(*catalog.Snapshot) { o.inForce.Add(1) })
	return o
}

func want(r catalog.Resource) actors.Wish {
	return actors.Wish{Kind: r.Kind(), ID: r.Ident(), Resource: r}
}

func withSecret(r catalog.Resource, plain string) actors.Wish {
	w := want(r)
	w.Credential = plain
	return w
}

func (o *office) apply(ws ...actors.Wish) []actors.Applied {
	o.t.Helper()
	out, err := o.Apply(context.Background(), ws, false, false)
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

func bare(id, up string) *catalog.Account {
	return &catalog.Account{ID: id, Upstream: up, Active: true}
}

func start() []actors.Wish {
	return []actors.Wish{want(upstream("a")), withSecret(bare("a1", "a"), "sk-one-1234"), want(key("k"))}
}

// A write is stored, in force and visible when it returns, at a position that is the revision (E28-E30).
func TestAWriteIsInForceWhenItReturns(t *testing.T) {
	o := openOffice(t)
	out := o.apply(start()...)
	if got, _ := o.Credential("a1"); got != "sk-one-1234" || o.Snapshot().Upstream("a") == nil || o.inForce.Load() != 1 {
		t.Errorf("credential %q, %d times in force", got, o.inForce.Load())
	}
	if last := out[len(out)-1]; o.Revision() != 3 || last.Position == 0 || !last.Changed || last.Version != 1 {
		t.Errorf("revision %d, %+v", o.Revision(), last)
	}
	if again := o.apply(start()...); again[0].Changed || again[1].Changed || o.Revision() != 3 || o.inForce.Load() != 1 {
		t.Errorf("an unchanged apply changed something: %+v", again)
	}
	back, err := actors.LoadCatalogue(context.Background(), o.store, sealing{"x"}, nil)
	if err != nil || back.Revision() != 3 {
		t.Fatalf("read back: revision %d, %v", back.Revision(), err)
	}
	if got, _ := back.Credential("a1"); got != "sk-one-1234" {
		t.Errorf("read back: %q", got)
	}
}

// A new credential is a new version; the old one stays for a rollback; the same one again is no change.
func TestCredentialsHaveVersions(t *testing.T) {
	o := openOffice(t)
	o.apply(start()...)
	o.apply(withSecret(bare("a1", "a"), "sk-two-5678"))
	if got, _ := o.Credential("a1"); got != "sk-two-5678" {
		t.Errorf("in force: %q", got)
	}
	if out := o.apply(withSecret(bare("a1", "a"), "sk-two-5678")); out[0].Changed {
		t.Error("the same credential is a change")
	}
	for version, plain := range map[int64]string{1: "sk-one-1234", 2: "sk-two-5678"} {
		s, err := o.store.Secret(context.Background(), "a1", version)
		if err != nil || s == nil || !strings.HasSuffix(string(s.Sealed), plain) {
			t.Errorf("version %d: %v %v", version, s, err)
		}
	}
	var unopened *actors.UnopenedError
	if _, err := actors.LoadCatalogue(context.Background(), o.store, sealing{"y"}, nil); !errors.As(err, &unopened) || unopened.Accounts[0] != "a1" {
		t.Errorf("with another key: %v", err)
	}
}

// One bad wish undoes all; a dry run changes nothing; a failing store changes nothing.
func TestAllWishesOrNone(t *testing.T) {
	o := openOffice(t)
	o.apply(start()...)
	other := upstream("b")
	refuse := errors.New("version is another")
	for name, c := range map[string]struct {
		wishes []actors.Wish
		dry    bool
		err    error
		broken bool
	}{
		"bad reference": {wishes: []actors.Wish{want(other), withSecret(bare("x1", "nowhere"), "sk-1234567")}, err: errors.New("nowhere")},
		"check":         {wishes: []actors.Wish{want(other), {Kind: catalog.KindKey, ID: "k", Resource: key("k"), Check: func(int64) error { return refuse }}}, err: refuse},
		"given twice":   {wishes: []actors.Wish{want(other), withSecret(bare("b1", "b"), "sk-1234567"), withSecret(bare("b1", "b"), "sk-7654321")}, err: errors.New("given twice")},
		"dry run":       {wishes: []actors.Wish{want(other)}, dry: true},
		"broken store":  {wishes: []actors.Wish{want(other)}, broken: true, err: events.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if c.broken {
				o.store.mu.Lock()
				o.store.check = func(string) (chan struct{}, bool) { return nil, true }
				o.store.mu.Unlock()
			}
			out, err := o.Apply(context.Background(), c.wishes, c.dry, false)
			if (err == nil) != (c.err == nil) || err != nil && !errors.Is(err, c.err) && !strings.Contains(err.Error(), c.err.Error()) {
				t.Errorf("error %v", err)
			}
			if c.dry && (len(out) != 1 || !out[0].Changed || out[0].After == nil) {
				t.Errorf("the dry run says %+v", out)
			}
			if o.Snapshot().Upstream("b") != nil || o.Revision() != 3 {
				t.Error("something has changed")
			}
			o.store.mu.Lock()
			o.store.check = nil
			o.store.mu.Unlock()
		})
	}
}

// The store has taken a write and its answer was lost: the write is refused, and in force before the next one.
func TestAWriteInDoubtIsFoundOut(t *testing.T) {
	o := openOffice(t)
	o.apply(want(upstream("a")))
	o.store.mu.Lock()
	o.store.lose = true
	o.store.mu.Unlock()
	if _, err := o.Apply(context.Background(), []actors.Wish{withSecret(bare("a1", "a"), "sk-one-1234")}, false, false); !errors.Is(err, events.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	for o.journal.Diverted() != nil {
		time.Sleep(time.Millisecond) // it asks the store by itself
	}
	out := o.apply(withSecret(bare("a1", "a"), "sk-one-1234"))
	if len(out) != 1 || out[0].Changed {
		t.Errorf("the same again is %+v", out)
	}
	if got, _ := o.Credential("a1"); got != "sk-one-1234" || o.Snapshot().Account("a1") == nil {
		t.Errorf("in force: %q", got)
	}
	o.apply(withSecret(bare("a1", "a"), "sk-two-1234"))
	if got, _ := o.Credential("a1"); got != "sk-two-1234" {
		t.Errorf("in force: %q", got)
	}
}

// Prune removes what no wish names, in an order in which nothing is referred to any more.
func TestPrune(t *testing.T) {
	o := openOffice(t)
	o.apply(start()...)
	out, err := o.Apply(context.Background(), []actors.Wish{want(key("k"))}, false, true)
	if err != nil || len(out) != 3 || o.Snapshot().Upstream("a") != nil || o.Snapshot().Key("k") == nil {
		t.Errorf("%+v %v", out, err)
	}
	if _, there := o.Credential("a1"); there {
		t.Error("the credential of a removed account is still there")
	}
}

// Whether a key stays revoked is decided where it is written: between a look at it and the write it may be revoked.
func TestAFileThatSaysNothingOfARevocationLeavesIt(t *testing.T) {
	o := openOffice(t)
	revoked := key("k")
	revoked.Revoked = true
	o.apply(want(revoked))
	again := want(key("k"))
	again.RevokedUnsaid = true
	if out := o.apply(again); out[0].Changed || !o.Snapshot().Key("k").Revoked {
		t.Errorf("%+v", out[0])
	}
}

// What was stored and could not be put into force is not called unchanged when it is asked for again: it comes into force.
func TestAWriteThatCouldNotComeIntoForceDoesWhenItIsRepeated(t *testing.T) {
	o := openOffice(t)
	o.apply(want(upstream("a")))
	o.store.blind.Store(true)
	wish := withSecret(bare("a1", "a"), "sk-one-1234")
	if _, err := o.Apply(context.Background(), []actors.Wish{wish}, false, false); !errors.Is(err, errDisk) {
		t.Fatalf("error %v", err)
	}
	o.apply(wish)
	if got, _ := o.Credential("a1"); got != "sk-one-1234" || o.Snapshot().Account("a1") == nil {
		t.Errorf("in force: %q", got)
	}
}

// Whoever asked for a write may go while it is stored: it comes into force all the same.
func TestAWriteWhoseClientHasGoneComesIntoForce(t *testing.T) {
	o := openOffice(t)
	o.apply(want(upstream("a")))
	ctx, cancel := context.WithCancel(context.Background())
	o.store.mu.Lock()
	o.store.check = func(string) (chan struct{}, bool) { cancel(); return nil, false }
	o.store.mu.Unlock()
	if _, err := o.Apply(ctx, []actors.Wish{withSecret(bare("a1", "a"), "sk-one-1234")}, false, false); err != nil {
		t.Errorf("error %v", err)
	}
	if got, _ := o.Credential("a1"); got != "sk-one-1234" || o.Snapshot().Account("a1") == nil {
		t.Errorf("in force: %q", got)
	}
}

// Readers and writers at once: snapshots only move forward, and what a snapshot names has its credential.
func TestSnapshotsOnlyMoveForward(t *testing.T) {
	o := openOffice(t)
	o.apply(start()...)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := int64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := o.Snapshot()
				if s.Revision < last {
					t.Errorf("revision %d after %d", s.Revision, last)
				}
				last = s.Revision
				if _, ok := o.Credential("a1"); s.Account("a1") != nil && !ok {
					t.Error("an account without a credential")
				}
				o.List(catalog.KindKey)
			}
		})
	}
	for n := range 50 {
		expires := time.Unix(int64(2_000_000_000+n), 0).UTC()
		o.apply(want(key("k", func(k *catalog.Key) { k.ExpiresAt = &expires })))
	}
	close(stop)
	wg.Wait()
	if o.Revision() != 53 {
		t.Errorf("revision %d", o.Revision())
	}
}
