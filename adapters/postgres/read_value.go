package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/penstock/penstock/projections"
)

// readKind says how the values of a column are stored. Rows travel in the binary format of the server both ways: it
// is exact, and costs a fraction of what texts cost.
type readKind struct {
	sql string
	oid uint32
}

var (
	kindText   = &readKind{`text COLLATE "C"`, pgtype.TextOID} // ordered by bytes, as everywhere else
	kindJSON   = &readKind{"json", pgtype.JSONOID}             // keeps the text as it is; jsonb costs twice as much
	kindInt    = &readKind{"bigint", pgtype.Int8OID}
	kindMoney  = &readKind{"numeric(38,10)", pgtype.NumericOID} // USD
	kindMoment = &readKind{"timestamptz", pgtype.TimestamptzOID}
)

// durationSuffix ends the names of columns of KindMicros that hold a duration. They are whole microseconds; the others
// are moments, which whoever queries the tables by hand wants to see as such.
const durationSuffix = "_us"

// kindOf is how a declared column is stored.
func kindOf(c projections.Column) *readKind {
	switch c.Kind {
	case projections.KindText:
		return kindText
	case projections.KindJSON:
		return kindJSON
	case projections.KindMoney:
		return kindMoney
	case projections.KindMicros:
		if !strings.HasSuffix(c.Name, durationSuffix) {
			return kindMoment
		}
	}
	return kindInt
}

// appendField appends a value with its length, as arrays and COPY hold it. name says that the column is part of an
// index.
func appendField(b []byte, k *readKind, name bool, v projections.Value) ([]byte, error) {
	if v.IsNull() {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32), nil
	}
	if v.IsText() {
		switch k {
		case kindText:
			return appendBytes(b, storedText(v.Text(), name)), nil
		case kindJSON:
			return appendBytes(b, v.Text()), nil
		}
		return b, errors.Newf("%v is no %s", v, k.sql)
	}
	switch k {
	case kindInt:
		return appendInt8(b, v.Int()), nil
	case kindMoney:
		return appendNumeric(b, v.Int()), nil
	case kindMoment:
		n, ok := serverMoment(v.Int())
		if !ok {
			return b, errors.Newf("%v microseconds since 1970 are beyond the server's times", v)
		}
		return appendInt8(b, n), nil
	}
	return appendBytes(b, strconv.FormatInt(v.Int(), 10)), nil // what adding up leaves of a text
}

// fieldValue is the value of a column of a result in binary format; nil is NULL.
func fieldValue(oid uint32, raw []byte) (projections.Value, error) {
	if raw == nil {
		return projections.Null(), nil
	}
	switch oid {
	case pgtype.TextOID:
		return projections.Text(shownText(string(raw))), nil
	case pgtype.JSONOID:
		return projections.Text(string(raw)), nil
	case pgtype.NumericOID:
		n, err := numericUnits(raw)
		return projections.Int(n), err
	case pgtype.Int8OID, pgtype.TimestamptzOID:
		if len(raw) != 8 {
			break
		}
		n := int64(binary.BigEndian.Uint64(raw))
		if oid == pgtype.TimestamptzOID {
			if n == math.MaxInt64 || n == math.MinInt64 {
				return projections.Null(), errors.New("an infinite time")
			}
			n += momentZero
		}
		return projections.Int(n), nil
	}
	return projections.Null(), errors.Newf("a value of unexpected type %d with %d bytes", oid, len(raw))
}

// The server counts microseconds since 2000, from 4714 BC up to 294276 AD.
const (
	momentZero = 946684800000000
	momentMin  = -211813488000000000
	momentEnd  = 9223371331200000000
)

func serverMoment(us int64) (n int64, ok bool) {
	if us < math.MinInt64+momentZero {
		return 0, false
	}
	n = us - momentZero
	return n, n >= momentMin && n < momentEnd
}

// nameMax is how many bytes a text of an index may have: an index entry of more than 2,704 bytes is refused by the
// server, and names are also what clients write. A longer one is stored as its beginning and a digest of the whole.
const (
	nameMax  = 256
	nameKept = 192
)

// storedText is a text as it is stored. The server knows no NUL inside texts, so NUL becomes \1\1 and \1 becomes \1\2,
// which keeps the order.
func storedText(s string, name bool) string {
	stored := withoutNUL(s)
	if !name || len(stored) <= nameMax {
		return stored
	}
	kept := 0
	for i, r := range s {
		end := i + utf8.RuneLen(r)
		if len(withoutNUL(s[:end])) > nameKept {
			break
		}
		kept = end
	}
	digest := sha256.Sum256([]byte(s))
	return withoutNUL(s[:kept]) + "…" + hex.EncodeToString(digest[:16])
}

var (
	escapes   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescapes = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

func withoutNUL(s string) string {
	if strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, 1) < 0 {
		return s
	}
	return escapes.Replace(s)
}

func shownText(s string) string {
	if strings.IndexByte(s, 1) < 0 {
		return s
	}
	return unescapes.Replace(s)
}

// A numeric is a list of digits to the base 10,000 with the exponent of the first one. Amounts have ten decimal places,
// so the last digit is that of 1e-12.
const (
	base        = 10000
	unitsPerUSD = 10000000000
	lastDigit   = -3
	signMinus   = 0x4000
)

// appendNumeric appends units of 1e-10 as a numeric, with its length.
func appendNumeric(b []byte, units int64) []byte {
	sign, size := uint16(0), uint64(units)
	if units < 0 {
		sign, size = signMinus, -size
	}
	whole, part := size/unitsPerUSD, size%unitsPerUSD*100
	digits := [...]uint16{
		uint16(whole / (base * base)), uint16(whole / base % base), uint16(whole % base),
		uint16(part / (base * base)), uint16(part / base % base), uint16(part % base),
	}
	from, to := 0, len(digits)
	for from < to && digits[from] == 0 {
		from++
	}
	for to > from && digits[to-1] == 0 {
		to--
	}
	weight := len(digits) + lastDigit - 1 - from
	if from == to {
		weight = 0
	}
	b = binary.BigEndian.AppendUint32(b, uint32(8+2*(to-from)))
	b = binary.BigEndian.AppendUint64(b, uint64(to-from)<<48|uint64(uint16(weight))<<32|uint64(sign)<<16|10)
	for _, d := range digits[from:to] {
		b = binary.BigEndian.AppendUint16(b, d)
	}
	return b
}

var errNumeric = errors.New("an amount is no multiple of 1e-10 that fits 64 bits")

// numericUnits reads a numeric as units of 1e-10. One that they can not express exactly is an error.
func numericUnits(raw []byte) (int64, error) {
	if len(raw) < 8 {
		return 0, errNumeric
	}
	count := int(binary.BigEndian.Uint16(raw))
	weight := int(int16(binary.BigEndian.Uint16(raw[2:])))
	sign := binary.BigEndian.Uint16(raw[4:])
	if len(raw) != 8+2*count || sign != 0 && sign != signMinus {
		return 0, errNumeric
	}
	digit := func(exponent int) uint64 {
		if i := weight - exponent; i >= 0 && i < count {
			return uint64(binary.BigEndian.Uint16(raw[8+2*i:]))
		}
		return 0
	}
	var size uint64
	for e := max(weight, 0); e > lastDigit; e-- {
		if size > (math.MaxUint64-base)/base {
			return 0, errNumeric
		}
		size = size*base + digit(e)
	}
	last := digit(lastDigit)
	if last%100 != 0 || weight-count+1 < lastDigit || size > (math.MaxUint64-100)/100 {
		return 0, errNumeric
	}
	size = size*100 + last/100
	switch {
	case sign == signMinus && size <= 1<<63:
		return -int64(size), nil
	case sign == 0 && size <= math.MaxInt64:
		return int64(size), nil
	}
	return 0, errNumeric
}
