package catalog

import "strings"

// Name is what a client's name of a model means.
type Name struct {
	Upstream *CompiledUpstream // the only one that may serve it; nil: every upstream that takes the model
	Model    string            // for model rules and for the body
}

// ResolveName reads a model's name (E13-E16): what a granted upstream declares by a rule or a rewrite is that model, also
// with a slash in it; else "upstream/model" with the id of an active upstream selects it; everything else is the name
// of a model. Whether that upstream is granted is not asked here: who may not use it is refused, not served elsewhere.
// A price declares nothing: price lists are full of names with slashes.
func (s *Snapshot) ResolveName(k *Key, model string) Name {
	if id, bare, ok := strings.Cut(model, "/"); ok && bare != "" {
		if u := s.byID[id]; u != nil && u.Active && !s.declared(k, model) {
			return Name{u, bare}
		}
	}
	return Name{Model: model}
}

// AllowsModel says that the key may ask for the model under the name that it was given, or under the bare name of an
// "upstream/model".
func (s *Snapshot) AllowsModel(k *Key, model string) bool {
	if k.allowsModel(model) {
		return true
	}
	n := s.ResolveName(k, model)
	return n.Upstream != nil && k.allowsModel(n.Model)
}

// Selects says that the name is "upstream/model" of an upstream that the key may use and that has the model under that
// very name.
func (s *Snapshot) Selects(k *Key, model string) bool {
	n, grant := s.ResolveName(k, model), s.Grant(k)
	return n.Upstream != nil && grant.Upstream(n.Upstream) && s.Names(n.Upstream, n.Model) && s.AllowsModel(k, model)
}

func (s *Snapshot) declared(k *Key, model string) bool {
	grant := s.Grant(k)
	for _, u := range s.upstreams {
		if u.Active && grant.Upstream(u) && u.declares(model) {
			return true
		}
	}
	return false
}

// Lists says that an upstream that the key may use has the model under that very name, so that Models shows it unless
// the key's own list leaves it out. It does not allocate.
func (s *Snapshot) Lists(k *Key, model string) bool {
	grant := s.Grant(k)
	for _, u := range s.upstreams {
		if u.Active && grant.Upstream(u) && s.Names(u, model) {
			return true
		}
	}
	return false
}

// Names says that an upstream has the model under that very name: a rule or a rewrite names it, or the upstream takes
// every model and there is a price for it. An expression names nothing.
func (s *Snapshot) Names(u *CompiledUpstream, model string) bool {
	return u.declares(model) || !u.models.explicit && s.prices.has(u.ID, model)
}

func (u *CompiledUpstream) declares(model string) bool {
	if _, ok := u.models.names[model]; ok {
		return true
	}
	_, ok := u.UpstreamModels[model]
	return ok && u.Match(model).Matched
}

// has says that there is a price for exactly that model.
func (x *priceIndex) has(upstream, model string) bool {
	if _, ok := x.exact[priceKey{model, upstream}]; ok {
		return true
	}
	_, ok := x.exact[priceKey{model, ""}]
	return ok
}
