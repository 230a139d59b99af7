package events

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// BlockSize is the number of positions of a block of the search index. Migration 0004 of each store knows it, too.
//
// The index says of every block that is full which of its rows have a key, an upstream, or a fact of a type. It is
// written when the block fills up, in the commit that fills it: a few rows, side by side, for some thousand positions, where
// an index on each column would cost every append. What stands in the block under way is found by looking at its rows.
const BlockSize = 4096

// BlockOf is the block that a row belongs to: that of its first position.
func BlockOf(at Position) int64 { return int64(at / BlockSize) }

// BlockStart is the first position of a block. Block 0 has no row at its first.
func BlockStart(block int64) Position { return Position(block) * BlockSize }

// Values longer than termMax are not searched for through the index, and those longer than valueMax, which leaves room for
// how a store spells one, are not in it.
const (
	termMax  = 200
	valueMax = 2 + 2*termMax
)

// Term is what a block is searched for.
type Term struct {
	Kind  string // key, upstream or type
	Value string
}

// Terms are those that every row which matches has, the rarest kind first; none: the index is of no help.
func (q *Query) Terms() (terms []Term) {
	if q.Stream != "" || q.Request != "" { // have indexes of their own
		return nil
	}
	for _, t := range []Term{{"key", q.Key}, {"upstream", q.Upstream}, {"type", q.Type}} {
		if t.Value != "" && len(t.Value) <= termMax {
			terms = append(terms, t)
		}
	}
	return terms
}

// Block gathers the terms of the rows of one block. The zero value is block 0, empty. Its rows come in order.
type Block struct {
	Number int64
	places map[Term]*places
	types  map[string][]*places // by Row.Types

	key, upstream *places // of the last row that had them: mostly those of the next one, too
}

// places are the offsets of a term's rows within the block.
type places struct {
	value string // of the term
	text  []byte
}

// Begin turns to another block, which is empty.
func (b *Block) Begin(number int64) {
	b.Number = number
	clear(b.places)
	clear(b.types)
	b.key, b.upstream = nil, nil
}

// Add notes a row of the block.
func (b *Block) Add(at Position, types, key, upstream string) {
	if b.places == nil {
		b.places, b.types = map[Term]*places{}, map[string][]*places{}
	}
	offset := int64(at % BlockSize)
	b.ofRecent("key", key, &b.key).add(offset)
	b.ofRecent("upstream", upstream, &b.upstream).add(offset)
	list, known := b.types[types]
	if !known {
		for name := range EachType(types) {
			if p := b.of("type", name); !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
		b.types[strings.Clone(types)] = list
	}
	for _, p := range list {
		p.add(offset)
	}
}

func (b *Block) ofRecent(kind, value string, recent **places) *places {
	if *recent != nil && (*recent).value == value {
		return *recent
	}
	p := b.of(kind, value)
	if p != nil {
		*recent = p
	}
	return p
}

// of are the places of a term; nil: it is none.
func (b *Block) of(kind, value string) *places {
	if value == "" || len(value) > valueMax {
		return nil
	}
	p := b.places[Term{kind, value}]
	if p == nil {
		p = &places{value: strings.Clone(value)}
		b.places[Term{kind, p.value}] = p
	}
	return p
}

func (p *places) add(offset int64) {
	if p == nil {
		return
	}
	if len(p.text) > 0 {
		p.text = append(p.text, ' ')
	}
	p.text = strconv.AppendInt(p.text, offset, 10)
}

// BlockRow is a row of the index: in a block, the rows with a term.
type BlockRow struct {
	Term
	Offsets string // of the rows within the block, ascending, space-separated
}

// Rows are the rows of the index for what was gathered, in the order of its key.
func (b *Block) Rows() []BlockRow {
	rows := make([]BlockRow, 0, len(b.places))
	for t, p := range b.places {
		rows = append(rows, BlockRow{t, string(p.text)})
	}
	slices.SortFunc(rows, func(a, b BlockRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Value, b.Value))
	})
	return rows
}

// Offsets is the set of the rows of a block, by their offsets, that have all terms of a search. The zero value is that of
// a search without terms: no set at all.
type Offsets struct {
	list  []uint16
	begun bool
}

// Reset makes it the zero value again, with the memory that it has.
func (o *Offsets) Reset() { o.list, o.begun = o.list[:0], false }

// Narrow keeps the offsets that stand in a BlockRow's text, too. The first text sets them.
func (o *Offsets) Narrow(text string) error {
	first := !o.begun
	o.begun = true
	kept, at := 0, 0
	for rest := text; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil || n >= BlockSize {
			return fmt.Errorf("search index: offset %q", word)
		}
		switch offset := uint16(n); {
		case first:
			o.list = append(o.list, offset)
		default:
			for at < len(o.list) && o.list[at] < offset {
				at++
			}
			if at < len(o.list) && o.list[at] == offset {
				o.list[kept] = offset
				kept, at = kept+1, at+1
			}
		}
	}
	if !first {
		o.list = o.list[:kept]
	}
	return nil
}

// Len is how many they are.
func (o *Offsets) Len() int { return len(o.list) }

// Positions appends the positions within [low, high] that they are in a block, in the order of reading.
func (o *Offsets) Positions(into []Position, block int64, low, high Position, newest bool) []Position {
	begun := len(into)
	for _, offset := range o.list {
		if at := BlockStart(block) + Position(offset); low <= at && at <= high {
			into = append(into, at)
		}
	}
	if newest {
		slices.Reverse(into[begun:])
	}
	return into
}

// BlockSpan is the block where the reading of [low, high] begins, and which part of the range lies in it.
func BlockSpan(low, high Position, newest bool) (block int64, first, last Position) {
	if newest {
		block = BlockOf(high)
		return block, max(low, BlockStart(block)), high
	}
	block = BlockOf(low)
	return block, low, min(high, BlockStart(block+1)-1)
}

// Thinned are the blocks of which rows were removed since they were indexed. The zero value is ready. The index may name
// rows that are no more, for a search looks at each; it never lacks one.
type Thinned struct {
	blocks []int64
	now    int64 // the one that rows were removed from last
	more   bool  // rows were removed since the last Due
}

// Note says that a row was removed.
func (t *Thinned) Note(at Position) {
	t.now, t.more = BlockOf(at), true
	if !slices.Contains(t.blocks, t.now) {
		t.blocks = append(t.blocks, t.now)
	}
}

// Due are a few blocks before block full whose index is to be made anew. One that more rows may yet be removed from waits
// until a removal finds none.
func (t *Thinned) Due(full int64) (due []int64) {
	const most = 8
	for _, n := range t.blocks {
		if n < full && len(due) < most && (n != t.now || !t.more) {
			due = append(due, n)
		}
	}
	t.more = false
	return due
}

// Done says that the index was made anew.
func (t *Thinned) Done(blocks []int64) {
	t.blocks = slices.DeleteFunc(t.blocks, func(n int64) bool { return slices.Contains(blocks, n) })
}
