package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
)

// Command is an Apply or a Remove.
type Command interface{ ref() Ref }

// Apply wants the resource to have this value. An account or webhook without SecretVersion keeps the credential
// that it has.
type Apply struct {
	Resource Resource
	// RevokedUnsaid: of a key, that nothing is said about its revocation, so that one which is revoked stays so.
	RevokedUnsaid bool
}

// Remove wants the resource to be gone.
type Remove struct {
	Kind Kind
	ID   string
}

func (c Apply) ref() Ref {
	if c.Resource == nil {
		return Ref{}
	}
	return Ref{c.Resource.Kind(), c.Resource.Ident()}
}
func (c Remove) ref() Ref { return Ref(c) }

// Decide turns a command into facts: none when nothing would change. Defaults are filled in on a copy; the command's
// resource stays as it is. Errors are InvalidError (several are joined), NotFoundError and ReferencedError.
func Decide(s *State, cmd Command) ([]Fact, error) {
	switch c := cmd.(type) {
	case Apply:
		return decideApply(s, c)
	case Remove:
		return decideRemove(s, c)
	}
	return nil, &InvalidError{Reason: "is not a command"}
}

func decideApply(s *State, c Apply) ([]Fact, error) {
	if c.Resource == nil {
		return nil, &InvalidError{Reason: "no resource is given"}
	}
	r, err := normalize(s, c.Resource)
	if err != nil {
		return nil, err
	}
	row := s.rows[Ref{r.Kind(), r.Ident()}]
	if key, ok := r.(*Key); ok && c.RevokedUnsaid {
		was, _ := row.resource.(*Key)
		key.Revoked = was != nil && was.Revoked
	}
	if row.resource != nil && row.broken == "" && same(row.resource, r) {
		return nil, nil
	}
	return []Fact{set(r, row.resource == nil && row.broken == "")}, nil
}

func decideRemove(s *State, c Remove) ([]Fact, error) {
	row := s.rows[c.ref()]
	if row.resource == nil && row.broken == "" {
		return nil, &NotFoundError{c.ref()}
	}
	if by := s.referrers(c.ref()); len(by) > 0 {
		return nil, &ReferencedError{c.ref(), by}
	}
	return []Fact{removed(c.ref())}, nil
}

// same compares what would be stored.
func same(a, b Resource) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// Change is the part of a decision that goes to one stream.
type Change struct {
	Ref
	Version int64 // of the stream before, for the optimistic check of the append
	Facts   []Fact
}

// DecideAll decides several commands as one: what is named in any order may refer to each other, applies come before
// removals, and one error refuses all (every error is reported, joined). Changes hold only what changes.
func DecideAll(s *State, cmds []Command) ([]Change, error) {
	ordered := slices.Clone(cmds)
	slices.SortStableFunc(ordered, func(a, b Command) int { return cmp.Compare(turn(a), turn(b)) })
	draft := s.Clone()
	draft.release(cmds)
	seen := make(map[Ref]bool, len(cmds))
	var changes []Change
	var errs []error
	for _, cmd := range ordered {
		version := draft.rows[keyOf(cmd)].version
		if seen[keyOf(cmd)] {
			errs = append(errs, &InvalidError{Ref: keyOf(cmd), Reason: "is given twice; ids must differ"})
			continue
		}
		seen[keyOf(cmd)] = true
		facts, err := Decide(draft, cmd)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range facts {
			draft.Evolve(f, draft.Revision)
		}
		draft.hold(keyOf(cmd))
		if len(facts) > 0 {
			ref, _ := refOf(facts[0])
			changes = append(changes, Change{ref, version, facts})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return changes, nil
}

// release frees the hashes of the keys that the commands are about, so that each is judged by what the others will have: a key
// may get another id, and two keys may change their secrets. Those that stay take theirs back in their turn, see hold.
func (s *State) release(cmds []Command) {
	for _, cmd := range cmds {
		s.forget(s.rows[keyOf(cmd)].resource)
	}
}

// hold takes the hash of a key, if it is one and is there.
func (s *State) hold(ref Ref) {
	if k, ok := s.rows[ref].resource.(*Key); ok {
		s.hashes[k.Hash] = k.ID
	}
}

// keyOf is the resource of a command, with the id that a price gets by default.
func keyOf(c Command) Ref {
	if a, ok := c.(Apply); ok {
		if p, ok := a.Resource.(*Price); ok {
			return Ref{KindPrice, p.defaultID()}
		}
	}
	return c.ref()
}

// kinds in the order in which they may refer to earlier ones.
var kinds = [...]Kind{KindUpstream, KindAccount, KindGroup, KindUser, KindKey, KindPrice, KindRule, KindSetting, KindWebhook}

// Kinds lists every kind; a resource refers only to kinds that come before its own.
func Kinds() []Kind { return slices.Clone(kinds[:]) }

// Valid says that k is one of the kinds.
func (k Kind) Valid() bool { return slices.Contains(kinds[:], k) }

// turn orders commands: applies by kind, then removals by kind in reverse.
func turn(c Command) int {
	at := slices.Index(kinds[:], c.ref().Kind)
	if _, isRemove := c.(Remove); isRemove {
		return 2*len(kinds) - at
	}
	return at
}

// reference is a field of a resource that names another one.
type reference struct {
	field string
	to    Ref
}

// references lists what a resource needs to exist.
func references(r Resource) []reference {
	var list []reference
	one := func(field string, kind Kind, id string) {
		if id != "" {
			list = append(list, reference{field, Ref{kind, id}})
		}
	}
	many := func(field string, kind Kind, ids []string) {
		for i, id := range ids {
			list = append(list, reference{indexed(field, i), Ref{kind, id}})
		}
	}
	switch r := r.(type) {
	case *Account:
		one("upstream", KindUpstream, r.Upstream)
	case *Group:
		many("upstreams", KindUpstream, r.Upstreams)
		many("accounts", KindAccount, r.Accounts)
	case *Key:
		one("user", KindUser, r.User)
		one("group", KindGroup, r.Group)
		many("upstreams", KindUpstream, r.Upstreams)
	case *Price:
		one("upstream", KindUpstream, r.Upstream)
	case *Rule:
		one("upstream", KindUpstream, r.Upstream)
	}
	return list
}

// referrers lists who refers to a resource, sorted by kind and id.
func (s *State) referrers(to Ref) []Ref {
	var by []Ref
	for ref, v := range s.rows {
		if v.resource != nil && slices.ContainsFunc(references(v.resource), func(r reference) bool { return r.to == to }) {
			by = append(by, ref)
		}
	}
	slices.SortFunc(by, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds[:], a.Kind), slices.Index(kinds[:], b.Kind)), cmp.Compare(a.ID, b.ID))
	})
	return by
}
