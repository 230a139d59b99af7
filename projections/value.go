package projections

import (
	"cmp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/domain/money"
)

// Value is one field of a row: a number, a text or NULL. The zero value is NULL. Values compare with ==.
type Value struct {
	is uint8
	n  int64
	s  string
}

const (
	isNull uint8 = iota
	isNumber
	isText
)

// Null is the absent value.
func Null() Value { return Value{} }

// Int is a whole number.
func Int(n int64) Value { return Value{is: isNumber, n: n} }

// Bool is 1 or 0.
func Bool(b bool) Value {
	if b {
		return Int(1)
	}
	return Int(0)
}

// Money is an amount in its units.
func Money(a money.Amount) Value { return Int(int64(a)) }

// Micros is a time in microseconds since 1970.
func Micros(t time.Time) Value { return Int(t.UnixMicro()) }

// Text is a text, also a JSON one. Bytes that are no UTF-8 are replaced as they are in stored facts, so that a row is
// the same whether its fact came from the journal or from the store.
func Text(s string) Value {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return Value{is: isText, s: s}
}

// IsNull says that the value is absent.
func (v Value) IsNull() bool { return v.is == isNull }

// IsText says that the value is a text.
func (v Value) IsText() bool { return v.is == isText }

// Int is the number, 0 for anything else.
func (v Value) Int() int64 { return v.n }

// Money is the number as an amount.
func (v Value) Money() money.Amount { return money.Amount(v.n) }

// Time is the number as a time in UTC.
func (v Value) Time() time.Time { return time.UnixMicro(v.n).UTC() }

// Text is the text, "" for anything else.
func (v Value) Text() string { return v.s }

// String shows the value in a report.
func (v Value) String() string {
	switch v.is {
	case isNumber:
		return strconv.FormatInt(v.n, 10)
	case isText:
		return strconv.Quote(v.s)
	}
	return "NULL"
}

// Compare orders values as stores order keys: NULL, numbers, texts by bytes.
func (v Value) Compare(w Value) int {
	return cmp.Or(cmp.Compare(v.is, w.is), cmp.Compare(v.n, w.n), cmp.Compare(v.s, w.s))
}

// CompareKeys orders rows of a table by their primary key.
func (t *Table) CompareKeys(a, b []Value) int {
	for i := range t.Key {
		if c := a[i].Compare(b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// sameKey says that rows of a table have the same primary key.
func (t *Table) sameKey(a, b []Value) bool {
	for i := range t.Key {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// AppendKey appends a text to b that is the same for rows of the same primary key and for no others.
func (t *Table) AppendKey(b []byte, row []Value) []byte {
	for _, v := range row[:t.Key] {
		b = append(b, v.is)
		n := uint64(v.n)
		if v.is == isText {
			n = uint64(len(v.s))
		}
		b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56))
		b = append(b, v.s...)
	}
	return b
}

// Collect gathers what add makes of the rows that each hands on; never nil without an error. A row is valid until add returns.
func Collect[T any](each func(func(row []Value) error) error, add func(list []T, row []Value) ([]T, error)) ([]T, error) {
	list := []T{}
	err := each(func(row []Value) (err error) {
		list, err = add(list, row)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
