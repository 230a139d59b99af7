package simulator

// fault is what goes wrong with one request.
type fault uint8

const (
	healthy fault = iota
	faultReset
	faultHang
	faultStatus
	faultResetAfterHeaders
	faultWrongType
	faultEmpty
	faultGarbage
	faultNoContent
	faultStall
	faultTrunc
	faultMidstream
	faultFailed
	faultOversized
	faultKinds
)

// faults lists every fault in the order of drawing. The salts never change: a seed keeps its meaning.
var faults = [...]struct {
	kind       fault
	field      string
	salt       uint64
	streamOnly bool
	rate       func(*Behavior) float64
}{
	{faultReset, "reset_rate", 2, false, func(b *Behavior) float64 { return b.ResetRate }},
	{faultHang, "hang_rate", 6, false, func(b *Behavior) float64 { return b.HangRate }},
	{faultStatus, "err_rate", 3, false, func(b *Behavior) float64 { return b.ErrRate }},
	{faultResetAfterHeaders, "reset_after_headers", 7, false, func(b *Behavior) float64 { return b.ResetAfterHeaders }},
	{faultWrongType, "wrong_type_rate", 8, false, func(b *Behavior) float64 { return b.WrongTypeRate }},
	{faultEmpty, "empty_rate", 9, false, func(b *Behavior) float64 { return b.EmptyRate }},
	{faultGarbage, "garbage_rate", 10, false, func(b *Behavior) float64 { return b.GarbageRate }},
	{faultOversized, "oversized_rate", 14, false, func(b *Behavior) float64 { return b.OversizedRate }},
	{faultNoContent, "nocontent_rate", 11, true, func(b *Behavior) float64 { return b.NoContentRate }},
	{faultStall, "stall_rate", 4, false, func(b *Behavior) float64 { return b.StallRate }},
	{faultTrunc, "trunc_rate", 5, false, func(b *Behavior) float64 { return b.TruncRate }},
	{faultMidstream, "midstream_error_rate", 12, true, func(b *Behavior) float64 { return b.MidstreamErrRate }},
	{faultFailed, "failed_rate", 13, false, func(b *Behavior) float64 { return b.FailedRate }},
}

// saltJitter belongs to ttfb_jitter_ms.
const saltJitter = 1

// chance returns a uniform 0..1 that depends only on the seed, the request number and the salt.
func chance(seed, n, salt uint64) float64 {
	x := seed ^ n*0x9E3779B97F4A7C15 ^ salt*0xD1B54A32D192ED03
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// draw decides which fault request n meets. canFail tells whether the dialect knows a failed answer.
func (b *Behavior) draw(seed, n uint64, stream, canFail bool) fault {
	for i := range faults {
		f := &faults[i]
		r := f.rate(b)
		if r <= 0 || (f.streamOnly && !stream) || (f.kind == faultFailed && !canFail) {
			continue
		}
		if chance(seed, n, f.salt) < r {
			return f.kind
		}
	}
	return healthy
}
