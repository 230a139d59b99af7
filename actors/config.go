package actors

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/penstock/penstock/domain/catalog"
	"github.com/penstock/penstock/events"
)

// Vault seals the credentials of accounts and webhooks; account is a catalog.Sealed.SecretID.
type Vault interface {
	Seal(account string, version int64, plain string) (sealed, digest []byte)
	Digest(account, plain string) []byte
	Open(account string, version int64, sealed []byte) (string, error)
}

// UnopenedError names the accounts, and webhooks as webhook/ID, whose credentials the vault does not open.
type UnopenedError struct{ Accounts []string }

func (e *UnopenedError) Error() string {
	return "the secret key does not open the credentials of accounts: " + strings.Join(e.Accounts, ", ")
}

// Wish is a change of one resource. A nil Resource wants it gone.
type Wish struct {
	Kind       catalog.Kind
	ID         string
	Resource   catalog.Resource
	Credential string // of a Sealed resource, in plain text; "" keeps the present one
	// RevokedUnsaid is that of catalog.Apply.
	RevokedUnsaid bool
	// Check refuses the change by the version of the resource that is there now, 0 for none. May be nil.
	Check func(version int64) error
}

// Applied is what became of a wish, or of a resource that was pruned.
type Applied struct {
	catalog.Ref
	Before, After catalog.Resource // nil: was not, is not there
	Changed       bool
	Version       int64           // of the stream, after
	Position      events.Position // of the fact, 0 without one
}

// Catalogue is the shell around the configuration: one writer decides, stores, folds, and puts the new snapshot in
// force before the write returns. Readers take the snapshot without a lock.
type Catalogue struct {
	store   events.Store
	vault   Vault
	journal *events.Journal
	node    string
	inForce func(*catalog.Snapshot)

	mu          sync.Mutex
	state       *catalog.State
	doubtful    bool // an append has failed that may have been stored
	behind      bool // the state is not in force: its credentials could not be read
	snapshot    atomic.Pointer[catalog.Snapshot]
	credentials atomic.Pointer[map[string]credential]
}

type credential struct {
	version int64
	plain   string
}

// LoadState folds the stored configuration. A row that can not be read does not stop it: its resource is put out of
// force rather than left at an older value.
func LoadState(ctx context.Context, store events.Store) (*catalog.State, error) {
	state := catalog.NewState()
	err := events.FindReadable(ctx, store, events.Query{StreamPrefix: catalog.Streams}, func(row *events.Committed) {
		for i, f := range row.Facts {
			state.Evolve(f, int64(row.Position)+int64(i))
		}
	}, func(bad *events.DecodeError) {
		if ref, ok := catalog.RefOfStream(bad.Stream); ok {
			state.Evolve(&catalog.Unreadable{Ref: ref, Reason: bad.Err.Error()}, int64(bad.Last))
		}
	})
	return state, errors.Wrap(err, "load catalogue")
}

// LoadCatalogue folds the stored configuration and opens the credentials; when some do not open the error is an
// *UnopenedError. Settings that nobody has set are as defaults say; nil: catalog.DefaultSettings.
func LoadCatalogue(ctx context.Context, store events.Store, vault Vault, defaults *catalog.Settings) (*Catalogue, error) {
	state, err := LoadState(ctx, store)
	if err != nil {
		return nil, err
	}
	state.Defaults = defaults
	c := &Catalogue{store: store, vault: vault, state: state}
	snap := catalog.Build(c.state, nil)
	opened, err := c.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	c.credentials.Store(&opened)
	c.snapshot.Store(snap)
	return c, nil
}

// Serve lets the catalogue take wishes. inForce is called with every new snapshot, before Apply returns.
func (c *Catalogue) Serve(journal *events.Journal, node string, inForce func(*catalog.Snapshot)) {
	c.journal, c.node, c.inForce = journal, node, inForce
}

// open opens the credentials of all accounts and webhooks, taking over those that known has.
func (c *Catalogue) open(ctx context.Context, known map[string]credential) (map[string]credential, error) {
	opened := map[string]credential{}
	var bad []string
	for _, r := range slices.Concat(c.state.List(catalog.KindAccount), c.state.List(catalog.KindWebhook)) {
		id := r.(catalog.Sealed).SecretID()
		version, _ := r.(catalog.Sealed).Secret()
		if k, ok := known[id]; ok && k.version == version {
			opened[id] = k
			continue
		}
		sealed, err := c.store.Secret(ctx, id, version)
		if err != nil {
			return nil, errors.Wrapf(err, "%s %s", r.Kind(), r.Ident())
		}
		if sealed == nil {
			bad = append(bad, id)
			continue
		}
		plain, err := c.vault.Open(id, version, sealed.Sealed)
		if err != nil {
			bad = append(bad, id)
			continue
		}
		opened[id] = credential{version, plain}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return nil, &UnopenedError{bad}
	}
	return opened, nil
}

// Snapshot is the configuration in force.
func (c *Catalogue) Snapshot() *catalog.Snapshot { return c.snapshot.Load() }

// Credential is the credential of an account, or another one by its catalog.Sealed.SecretID.
func (c *Catalogue) Credential(id string) (string, bool) {
	k, ok := (*c.credentials.Load())[id]
	return k.plain, ok
}

// Get is a resource and the version of its stream.
func (c *Catalogue) Get(kind catalog.Kind, id string) (catalog.Resource, int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Get(kind, id)
}

// Since is the position at which an upstream, an account or a key was added last: what is older is of an earlier life.
func (c *Catalogue) Since(r catalog.Ref) events.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return events.Position(c.state.Since(r))
}

// List is all resources of a kind, in order of their ids, with their versions.
func (c *Catalogue) List(kind catalog.Kind) ([]catalog.Resource, []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.state.List(kind)
	versions := make([]int64, len(list))
	for i, r := range list {
		_, versions[i], _ = c.state.Get(kind, r.Ident())
	}
	return list, versions
}

// Revision is the position of the last fact of the configuration in force.
func (c *Catalogue) Revision() events.Position { return events.Position(c.snapshot.Load().Revision) }

// Apply makes all wishes true in one append, or none. With prune every resource that no wish names is removed; a dry
// run only decides. Applied has one entry per wish, in their order, then the pruned ones.
func (c *Catalogue) Apply(ctx context.Context, wishes []Wish, dryRun, prune bool) ([]Applied, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	out, cmds, secrets, err := c.commands(ctx, wishes)
	if err != nil {
		return nil, err
	}
	if prune {
		out, cmds = c.prune(out, cmds)
	}
	changes, err := catalog.DecideAll(c.state, cmds)
	if err != nil {
		return nil, err
	}
	next := c.state.Clone()
	for i := range changes {
		for _, f := range changes[i].Facts {
			next.Evolve(f, next.Revision)
		}
	}
	for i := range out {
		out[i].After, out[i].Version, _ = next.Get(out[i].Kind, out[i].ID)
		for k := range changes {
			out[i].Changed = out[i].Changed || changes[k].Ref == out[i].Ref
		}
	}
	if dryRun || len(changes) == 0 {
		return out, nil
	}
	return out, c.commit(ctx, changes, secrets, out)
}

// commands turns wishes into commands and seals new credentials.
func (c *Catalogue) commands(ctx context.Context, wishes []Wish) ([]Applied, []catalog.Command, []events.Secret, error) {
	var out []Applied
	var cmds []catalog.Command
	var secrets []events.Secret
	for _, w := range wishes {
		ref := catalog.Ref{Kind: w.Kind, ID: w.ID}
		before, version, there := c.state.Get(w.Kind, w.ID)
		if w.Check != nil {
			if !there {
				version = 0
			}
			if err := w.Check(version); err != nil {
				return nil, nil, nil, errors.Wrap(err, ref.String())
			}
		}
		out = append(out, Applied{Ref: ref, Before: before})
		if w.Resource == nil {
			cmds = append(cmds, catalog.Remove{Kind: w.Kind, ID: w.ID})
			continue
		}
		r := w.Resource
		if with, ok := r.(catalog.Sealed); ok && w.Credential != "" {
			sealed, secret, err := c.sealed(ctx, with, before, w.Credential)
			if err != nil {
				return nil, nil, nil, err
			}
			r = sealed
			if secret != nil {
				secrets = append(secrets, *secret)
			}
		}
		cmds = append(cmds, catalog.Apply{Resource: r, RevokedUnsaid: w.RevokedUnsaid})
	}
	return out, cmds, secrets, nil
}

// sealed is the resource with a version of the credential: the present one when that is the same, else a new one.
func (c *Catalogue) sealed(ctx context.Context, r catalog.Sealed, before catalog.Resource, plain string) (catalog.Sealed, *events.Secret, error) {
	id := r.SecretID()
	newest, err := c.store.Secret(ctx, id, 0)
	if err != nil {
		return nil, nil, errors.Wrapf(err, "%s %s", r.Kind(), r.Ident())
	}
	masked := catalog.Mask(plain)
	if old, ok := before.(catalog.Sealed); ok && newest != nil && bytes.Equal(newest.Digest, c.vault.Digest(id, plain)) {
		if version, _ := old.Secret(); version == newest.Version {
			return r.WithSecret(version, masked), nil, nil
		}
	}
	s := &events.Secret{ID: id, Version: 1}
	if newest != nil {
		s.Version = newest.Version + 1
	}
	s.Sealed, s.Digest = c.vault.Seal(id, s.Version, plain)
	return r.WithSecret(s.Version, masked), s, nil
}

// prune adds the removal of everything that is not named.
func (c *Catalogue) prune(out []Applied, cmds []catalog.Command) ([]Applied, []catalog.Command) {
	named := map[catalog.Ref]bool{}
	for _, a := range out {
		named[a.Ref] = true
	}
	for _, kind := range slices.Backward(catalog.Kinds()) {
		for _, r := range c.state.List(kind) {
			if ref := (catalog.Ref{Kind: kind, ID: r.Ident()}); !named[ref] {
				out = append(out, Applied{Ref: ref, Before: r})
				cmds = append(cmds, catalog.Remove{Kind: kind, ID: ref.ID})
			}
		}
	}
	return out, cmds
}

// commit stores the changes, folds them and puts them in force.
func (c *Catalogue) commit(ctx context.Context, changes []catalog.Change, secrets []events.Secret, out []Applied) error {
	a := events.Append{Secrets: secrets}
	now := time.Now().UTC()
	for i := range changes {
		a.Rows = append(a.Rows, events.Row{
			Stream: changes[i].Stream(), Version: changes[i].Version, At: now, Node: c.node, Facts: changes[i].Facts,
		})
	}
	at, err := c.journal.Start(a, events.May).Position()
	if err != nil {
		c.doubtful = c.doubtful || errors.Is(err, events.ErrUnavailable)
		return err
	}
	for i := range changes {
		for k := range out {
			if out[k].Ref == changes[i].Ref {
				out[k].Position = at
			}
		}
		for _, f := range changes[i].Facts {
			c.state.Evolve(f, int64(at))
			at++
		}
	}
	// It is stored: whoever asked for it may have gone, but it comes into force.
	return c.enforce(ctx)
}

// resolve reads the configuration again after an append that may have been stored although it failed, once the store takes
// appends again: by then it knows. Otherwise all later changes of the same resources would be conflicts. What is
// stored and not in force comes into force before it is called unchanged.
func (c *Catalogue) resolve(ctx context.Context) error {
	if c.behind {
		if err := c.enforce(ctx); err != nil {
			return err
		}
	}
	if !c.doubtful || c.journal.Diverted() != nil {
		return nil
	}
	state, err := LoadState(ctx, c.store)
	if err != nil {
		return err
	}
	if state.Defaults = c.state.Defaults; state.Revision != c.state.Revision {
		c.state = state
		if err := c.enforce(ctx); err != nil {
			return err
		}
	}
	c.doubtful = false
	return nil
}

// enforce puts the state in force.
func (c *Catalogue) enforce(ctx context.Context) error {
	c.behind = true
	opened, err := c.open(context.WithoutCancel(ctx), *c.credentials.Load())
	if err != nil {
		return err
	}
	snap := catalog.Build(c.state, c.snapshot.Load())
	c.credentials.Store(&opened)
	c.snapshot.Store(snap)
	c.inForce(snap)
	c.behind = false
	return nil
}
