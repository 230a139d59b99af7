// Package lru keeps values by key in the order of their last use, so that whoever must forget forgets the longest unused.
package lru

import "iter"

// Map keeps values of type V. The zero value is empty and ready. A step takes constant time; memory is reused after Drop,
// so that a map that stays within a bound stops allocating. One goroutine at a time may change it, any number may Get
// between two changes.
type Map[K comparable, V any] struct {
	at             map[K]link
	rows           []row[K, V]
	free           link // rows without a key, through older
	oldest, newest link
}

type row[K comparable, V any] struct {
	key          K
	value        V
	older, newer link
}

// link is a row's place plus one; 0 is none.
type link int32

func (m *Map[K, V]) row(l link) *row[K, V] { return &m.rows[l-1] }

// Len is the number of keys.
func (m *Map[K, V]) Len() int { return len(m.at) }

// Rows is how many values there is memory for.
func (m *Map[K, V]) Rows() int { return len(m.rows) }

// Get is the value of a key, nil when there is none. Looking is no use. The pointer is valid until the next Touch or Drop.
func (m *Map[K, V]) Get(k K) *V {
	if l := m.at[k]; l != 0 {
		return &m.row(l).value
	}
	return nil
}

// Touch makes a key the newest, and gives it the zero value when it was not there. The pointer is valid until the next
// Touch or Drop.
func (m *Map[K, V]) Touch(k K) *V {
	l := m.at[k]
	switch {
	case l != 0:
		m.unlink(l)
	case m.free != 0:
		l = m.free
		m.free = m.row(l).older
	default:
		m.rows = append(m.rows, row[K, V]{})
		l = link(len(m.rows))
	}
	if m.at == nil {
		m.at = map[K]link{}
	}
	m.at[k] = l
	r := m.row(l)
	r.key, r.older, r.newer = k, m.newest, 0
	if m.newest != 0 {
		m.row(m.newest).newer = l
	} else {
		m.oldest = l
	}
	m.newest = l
	return &r.value
}

// Oldest is the longest unused key and its value; the value is nil when the map is empty.
func (m *Map[K, V]) Oldest() (k K, v *V) {
	if m.oldest == 0 {
		return k, nil
	}
	r := m.row(m.oldest)
	return r.key, &r.value
}

// Drop removes a key, if it is there.
func (m *Map[K, V]) Drop(k K) {
	l := m.at[k]
	if l == 0 {
		return
	}
	m.unlink(l)
	delete(m.at, k)
	*m.row(l) = row[K, V]{older: m.free}
	m.free = l
}

// All yields keys and values, the last used first. The map must not change meanwhile; the values may.
func (m *Map[K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for l := m.newest; l != 0; l = m.row(l).older {
			if r := m.row(l); !yield(r.key, &r.value) {
				return
			}
		}
	}
}

func (m *Map[K, V]) unlink(l link) {
	r := m.row(l)
	if r.newer != 0 {
		m.row(r.newer).older = r.older
	} else {
		m.newest = r.older
	}
	if r.older != 0 {
		m.row(r.older).newer = r.newer
	} else {
		m.oldest = r.newer
	}
}
