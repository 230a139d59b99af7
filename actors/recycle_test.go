package actors

import (
	"testing"

	"github.com/penstock/penstock/domain/catalog"
)

// attempting is a life in the middle of an attempt, as its client's Gone has it.
func attempting() *life {
	l := &life{c: &Call{Gone: &Gone{}}, paper: &paper{}, up: &catalog.CompiledUpstream{}}
	l.recall, l.cut = l.paper.back.take(), l.paper.cut.take()
	l.c.Gone.Hold((*parting)(l))
	return l
}

// kept says whether the memory of a life that is over stays with it.
func kept(l *life) bool {
	l.leftBehind()
	c := l.c
	l.recycle()
	return l.c == c
}

// What a client's going may still reach is never another request's: it may come while the answer is on its way, and run on after
// the attempt.
func TestMemoryOfALifeIsNotUsedAgainOnceItsClientHasGone(t *testing.T) {
	if kept(attempting()) {
		t.Error("a life that nobody has any more was kept")
	}
	went := attempting()
	went.c.Gone.Fire()
	if !kept(went) {
		t.Error("the client went during the attempt: another goroutine may be in parting.Close")
	}
	holding := attempting()
	holding.way = new(itinerary)
	if !kept(holding) {
		t.Error("the life has not left yet")
	}
	late := attempting()
	gone, back, cut := late.c.Gone, late.recall, late.cut
	if kept(late) {
		t.Error("a life that nobody has any more was kept")
	}
	for _, g := range []*Gone{gone, back, cut} { // of whoever comes too late: all of it is on paper, or the client's
		g.Fire()
	}
	if got := lives.Get().(*life); got.cut != nil || got.c != nil || got.recall != nil {
		t.Errorf("another request would get what is left of this one: %+v", got)
	}
}
