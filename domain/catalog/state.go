package catalog

import (
	"cmp"
	"maps"
	"slices"
)

// Fact is a pointer to one of the facts of fact.go, or an *Unreadable.
type Fact = any

// Unreadable stands for a stored fact that could not be decoded. It is handed to Evolve and never stored. A key, user
// or group whose latest fact is unreadable is out of force until it is written again: its older value may allow what
// the newer one took away (E52). Other kinds keep their older value. Both are counted.
type Unreadable struct {
	Ref
	Reason string
}

// State is the catalogue after a number of facts. It belongs to one goroutine; Resources in it are never changed in
// place. NewState makes an empty one.
type State struct {
	Revision int64     // position of the last fact
	Defaults *Settings // of settings that nobody has set; nil: those of DefaultSettings

	rows   map[Ref]row
	hashes map[string]string // key hash → key id, so that no two keys share a secret
}

// row is one stream. It outlives the removal of its resource, as versions go on.
type row struct {
	resource Resource // nil: removed, or out of force because unreadable
	version  int64    // facts in the stream
	since    int64    // position at which it was added last; of upstreams, accounts and keys
	broken   string   // why the newest fact could not be read; "" is fine
}

// NewState is an empty catalogue.
func NewState() *State {
	return &State{rows: map[Ref]row{}, hashes: map[string]string{}}
}

// Clone is an independent copy that shares the (immutable) resources.
func (s *State) Clone() *State {
	return &State{Revision: s.Revision, Defaults: s.Defaults, rows: maps.Clone(s.rows), hashes: maps.Clone(s.hashes)}
}

// Since is the position at which an upstream, an account or a key was added last; 0 when none was that can be read.
func (s *State) Since(r Ref) int64 { return s.rows[r].since }

// Get is the resource and the version of its stream; ok is false when there is none now (the version still counts the
// facts that its stream has).
func (s *State) Get(kind Kind, id string) (r Resource, version int64, ok bool) {
	v := s.rows[Ref{kind, id}]
	return v.resource, v.version, v.resource != nil
}

// List is all resources of a kind, sorted by id.
func (s *State) List(kind Kind) []Resource {
	var list []Resource
	for ref, v := range s.rows {
		if ref.Kind == kind && v.resource != nil {
			list = append(list, v.resource)
		}
	}
	slices.SortFunc(list, func(a, b Resource) int { return cmp.Compare(a.Ident(), b.Ident()) })
	return list
}

// has says that the resource exists in a readable form.
func (s *State) has(r Ref) bool { return s.rows[r].resource != nil }

// Evolve folds one fact at the given position of the event store. It is total: a fact of another part of the system
// changes only the revision.
func (s *State) Evolve(fact Fact, position int64) {
	s.Revision = max(s.Revision, position)
	ref, ok := refOf(fact)
	if !ok {
		return
	}
	v := s.rows[ref]
	v.version++
	if u, bad := fact.(*Unreadable); bad {
		v.broken = cmp.Or(u.Reason, "unreadable")
		switch ref.Kind {
		case KindKey, KindUser, KindGroup:
			s.forget(v.resource)
			v.resource = nil
		}
	} else {
		s.forget(v.resource)
		v.resource, v.broken = valueOf(fact), ""
		switch fact.(type) {
		case *UpstreamRegistered, *AccountRegistered, *KeyRegistered:
			v.since = position
		}
		if k, isKey := v.resource.(*Key); isKey {
			s.hashes[k.Hash] = k.ID
		}
	}
	s.rows[ref] = v
}

func (s *State) forget(r Resource) {
	if k, ok := r.(*Key); ok && s.hashes[k.Hash] == k.ID {
		delete(s.hashes, k.Hash)
	}
}

// refOf is the resource that a fact is about; ok is false for facts that are not the catalogue's.
func refOf(fact Fact) (ref Ref, ok bool) {
	switch f := fact.(type) {
	case *Unreadable:
		return f.Ref, true
	case Resource: // every Registered and Changed, by its embedded resource
		return Ref{f.Kind(), f.Ident()}, true
	case *UpstreamRemoved:
		return Ref{KindUpstream, f.ID}, true
	case *AccountRemoved:
		return Ref{KindAccount, f.ID}, true
	case *GroupRemoved:
		return Ref{KindGroup, f.ID}, true
	case *UserRemoved:
		return Ref{KindUser, f.ID}, true
	case *KeyRemoved:
		return Ref{KindKey, f.ID}, true
	case *PriceRemoved:
		return Ref{KindPrice, f.ID}, true
	case *RuleRemoved:
		return Ref{KindRule, f.ID}, true
	case *SettingRemoved:
		return Ref{KindSetting, f.Name}, true
	case *WebhookRemoved:
		return Ref{KindWebhook, f.ID}, true
	}
	return Ref{}, false
}

// valueOf is the new value that a fact carries, nil for a removal.
func valueOf(fact Fact) Resource {
	switch f := fact.(type) {
	case *UpstreamRegistered:
		return &f.Upstream
	case *UpstreamChanged:
		return &f.Upstream
	case *AccountRegistered:
		return &f.Account
	case *AccountChanged:
		return &f.Account
	case *GroupRegistered:
		return &f.Group
	case *GroupChanged:
		return &f.Group
	case *UserRegistered:
		return &f.User
	case *UserChanged:
		return &f.User
	case *KeyRegistered:
		return &f.Key
	case *KeyChanged:
		return &f.Key
	case *PriceRegistered:
		return &f.Price
	case *PriceChanged:
		return &f.Price
	case *RuleRegistered:
		return &f.Rule
	case *RuleChanged:
		return &f.Rule
	case *SettingRegistered:
		return &f.Setting
	case *SettingChanged:
		return &f.Setting
	case *WebhookRegistered:
		return &f.Webhook
	case *WebhookChanged:
		return &f.Webhook
	}
	return nil
}

// set is the fact that a resource has this value: Registered when it is new, else Changed.
func set(r Resource, isNew bool) Fact {
	switch r := r.(type) {
	case *Upstream:
		return pick(isNew, &UpstreamRegistered{*r}, &UpstreamChanged{*r})
	case *Account:
		return pick(isNew, &AccountRegistered{*r}, &AccountChanged{*r})
	case *Group:
		return pick(isNew, &GroupRegistered{*r}, &GroupChanged{*r})
	case *User:
		return pick(isNew, &UserRegistered{*r}, &UserChanged{*r})
	case *Key:
		return pick(isNew, &KeyRegistered{*r}, &KeyChanged{*r})
	case *Price:
		return pick(isNew, &PriceRegistered{*r}, &PriceChanged{*r})
	case *Rule:
		return pick(isNew, &RuleRegistered{*r}, &RuleChanged{*r})
	case *Setting:
		return pick(isNew, &SettingRegistered{*r}, &SettingChanged{*r})
	case *Webhook:
		return pick(isNew, &WebhookRegistered{*r}, &WebhookChanged{*r})
	}
	return nil
}

// removed is the fact that a resource is gone.
func removed(r Ref) Fact {
	switch r.Kind {
	case KindUpstream:
		return &UpstreamRemoved{r.ID}
	case KindAccount:
		return &AccountRemoved{r.ID}
	case KindGroup:
		return &GroupRemoved{r.ID}
	case KindUser:
		return &UserRemoved{r.ID}
	case KindKey:
		return &KeyRemoved{r.ID}
	case KindPrice:
		return &PriceRemoved{r.ID}
	case KindRule:
		return &RuleRemoved{r.ID}
	case KindSetting:
		return &SettingRemoved{r.ID}
	case KindWebhook:
		return &WebhookRemoved{r.ID}
	}
	return nil
}

func pick(first bool, a, b Fact) Fact {
	if first {
		return a
	}
	return b
}
