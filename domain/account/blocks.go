package account

import (
	"slices"
	"strings"
	"time"
)

// modelsMax bounds the models of an account that are blocked at once; callers name models.
const modelsMax = 256

// Blocks is the cool-down of one account as a whole and of single models at it, with the verbs of Block. The zero value
// with its Account set blocks nothing.
type Blocks struct {
	Account string
	whole   Block
	models  map[string]*Block // blocked or on probation; what is over goes when another one comes
}

// of is the block of a model, nil when there is none. It changes nothing, so that many may look at a clone at once.
func (s *Blocks) of(model string) *Block {
	if model == "" {
		return &s.whole
	}
	return s.models[model]
}

// Apply blocks a model, or with "" all of them. See Block.Apply.
func (s *Blocks) Apply(now time.Time, model string, a Ask) *Blocked {
	s.whole.Account = s.Account
	if b := s.of(model); b != nil {
		return b.Apply(now, a)
	}
	b := &Block{Account: s.Account, Model: model}
	f := b.Apply(now, a)
	if f != nil {
		s.add(now, b)
	}
	return f
}

// add makes room: what is over goes first, then what ends soonest.
func (s *Blocks) add(now time.Time, b *Block) {
	if s.models == nil {
		s.models = map[string]*Block{}
	}
	if len(s.models) >= modelsMax {
		s.makeRoom(now)
	}
	s.models[b.Model] = b
}

func (s *Blocks) makeRoom(now time.Time) {
	soonest := ""
	for model, b := range s.models {
		if !b.holds(now) {
			delete(s.models, model)
			continue
		}
		if first := s.models[soonest]; first == nil || b.until.Before(first.until) || b.until.Equal(first.until) && model < soonest {
			soonest = model
		}
	}
	if len(s.models) >= modelsMax {
		delete(s.models, soonest)
	}
}

// Acquire is Block's, for a call of a model: neither the account nor the model at it is blocked.
func (s *Blocks) Acquire(model string, now time.Time) (p Permit, ok bool, until time.Time) {
	if ok, until = s.Check(model, now); !ok {
		return Permit{}, false, until
	}
	if p, _, _ = s.of("").Acquire(now); p.Probe != 0 || model == "" {
		return p, true, time.Time{}
	}
	if b := s.of(model); b != nil {
		p, _, _ = b.Acquire(now)
	}
	return p, true, time.Time{}
}

// Check is Block's.
func (s *Blocks) Check(model string, now time.Time) (ok bool, until time.Time) {
	ok, until = s.of("").Check(now)
	b := s.of(model)
	if b == nil || model == "" {
		return ok, until
	}
	okModel, untilModel := b.Check(now)
	if untilModel.After(until) {
		until = untilModel
	}
	return ok && okModel, until
}

// ModelUntil is until when a model is blocked on its own; zero: it is not, or it is on probation.
func (s *Blocks) ModelUntil(model string, now time.Time) time.Time {
	if b := s.models[model]; b != nil && b.Active(now) {
		return b.until
	}
	return time.Time{}
}

// AnyModel says that blocks of single models are kept.
func (s *Blocks) AnyModel() bool { return len(s.models) > 0 }

// Release is Block's.
func (s *Blocks) Release(p Permit) {
	if b := s.of(p.Model); b != nil {
		b.Release(p)
	}
}

// Succeeded is Block's.
func (s *Blocks) Succeeded(p Permit) *Unblocked {
	b := s.of(p.Model)
	if b == nil {
		return nil
	}
	f := b.Succeeded(p)
	if f != nil {
		delete(s.models, p.Model)
	}
	return f
}

// Clear lifts everything and says what was lifted, the account's own block first, then models by name.
func (s *Blocks) Clear(now time.Time, by string) []*Unblocked {
	var facts []*Unblocked
	if f := s.of("").Clear(now, by); f != nil {
		facts = append(facts, f)
	}
	for _, b := range s.Models(now) {
		if f := b.Clear(now, by); f != nil {
			facts = append(facts, f)
		}
	}
	clear(s.models)
	return facts
}

// Evolve applies a stored fact of this account at the time that its envelope says.
func (s *Blocks) Evolve(fact any, at time.Time) {
	s.whole.Account = s.Account
	switch f := fact.(type) {
	case *Blocked:
		b := s.of(f.Model)
		if b == nil {
			b = &Block{Account: s.Account, Model: f.Model}
			s.add(at, b)
		}
		b.Evolve(f)
	case *Unblocked:
		if f.Model != "" {
			delete(s.models, f.Model)
			return
		}
		s.of("").Evolve(f)
	}
}

// Whole is the block of the account for all models. It is the machine's own: look, do not touch.
func (s *Blocks) Whole() *Block { return s.of("") }

// Models lists the models that are blocked or on probation, by name. They are the machine's own.
func (s *Blocks) Models(now time.Time) []*Block {
	var list []*Block
	for _, b := range s.models {
		if b.holds(now) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *Block) int { return strings.Compare(a.Model, b.Model) })
	return list
}

// Clone is a copy that stays as it is.
func (s *Blocks) Clone() *Blocks {
	c := &Blocks{Account: s.Account, whole: s.whole}
	if len(s.models) > 0 {
		c.models = make(map[string]*Block, len(s.models))
		for model, b := range s.models {
			of := *b
			c.models[model] = &of
		}
	}
	return c
}

// View is a block for people: until when, why, and who said so.
type View struct {
	Model   string     `json:"model,omitempty"` // "": all
	Reason  string     `json:"reason"`
	Source  string     `json:"source"`
	Until   time.Time  `json:"until"`
	Resets  *time.Time `json:"resets,omitempty"`  // what the upstream said, where that is later
	Probing bool       `json:"probing,omitempty"` // Until is over, single calls try it
}

// Views lists what is blocked or on probation, the account as a whole first, then models by name.
func (s *Blocks) Views(now time.Time) []View {
	var views []View
	for _, b := range append([]*Block{s.Whole()}, s.Models(now)...) {
		if !b.holds(now) {
			continue
		}
		v := View{Model: b.Model, Reason: b.reason, Source: b.source, Until: b.until, Probing: b.Probing(now)}
		if !b.resets.IsZero() {
			resets := b.resets
			v.Resets = &resets
		}
		views = append(views, v)
	}
	return views
}
