package actors

import (
	"errors"
	"io"
	"time"

	"github.com/penstock/penstock/domain/failure"
	"github.com/penstock/penstock/domain/money"
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// tokenBytesMax is more bytes than a token of output can be. The longest tokens of the vocabularies that are known have 128
// bytes (a run of blanks), and what the meter counts holds in places the JSON around a text, which is as much again at most.
const tokenBytesMax = 256

// errOverspent ends a stream that has used up what was set aside for it.
var errOverspent = errors.New("the answer has cost more than was set aside for it")

// ceiling is what is set aside for an attempt by strict limits. A stream is cut there, but only when it has certainly cost more:
// no upstream that keeps to the limits of the request is ever cut, whatever its tokenizer, its prompt of its own and its prices
// in the end are. So the cost that is looked at is the least that it can be: output of which only the bytes are known counts a
// token for every tokenBytesMax; input counts as far as it is reported and within what was set aside for it, all at the
// cheapest prices that can come to count. An upstream that reports its usage as it goes is cut at once, others later: with
// ordinary text, of four bytes to a token, after 64 times the output that was allowed.
type ceiling struct {
	caller, upstream money.Amount // of this attempt; negative: no strict limit
	input            int64        // tokens that were set aside; pricing.Unknown: as many as the model takes
	free             int64        // bytes of output that may be no output: an echo of the prompt
	deaf             bool         // what streams need not be text: its bytes say nothing
	output           int64        // tokens at which it was looked last
	sheets           pricing.Sheets
	multipliers      pricing.Multipliers
}

// ceiling is that of the present attempt; nil when nothing is set aside for it.
func (l *life) ceiling() *ceiling {
	p := &l.purse
	if p.most == nil || !p.strict && !p.sure {
		return nil
	}
	c := &ceiling{caller: -1, upstream: -1, input: p.most.Input, free: int64(len(l.c.Body)) * max(p.most.Choices, 1), deaf: hasAny(l.c.Body, sounding)}
	if p.strict {
		c.caller = p.held.Caller
	}
	if p.sure {
		c.upstream = p.held.Upstream
	}
	c.sheets = l.snap.Sheets(l.model(), l.cand.UpstreamModel, l.up.ID, l.admittedAt.Truncate(time.Microsecond))
	c.multipliers = l.snap.Multipliers(l.up, payer(&l.c.Ask))
	return c
}

// sounding are requests whose answers may be sound.
var sounding = quoted("audio", "modalities", "AUDIO")

// overspent says that the stream has certainly cost more by now than is set aside for it.
func (s *stream) overspent() bool {
	c := s.ceiling
	if c == nil {
		return false
	}
	var used pricing.Usage
	if !c.deaf {
		used.Output = max(s.meter.OutputBytes()-c.free, 0) / tokenBytesMax
	}
	if u, src := s.meter.Usage(); src != pricing.None {
		used.Output = max(used.Output, u.OutputTotal())
		if in := u.InputTotal(); c.input < 0 || in <= c.input {
			used.Input = in
		}
	}
	if used.Output <= c.output {
		return false
	}
	c.output = used.Output
	least := c.sheets.Least(used, c.multipliers)
	return c.caller >= 0 && least.Caller > c.caller || c.upstream >= 0 && least.Upstream > c.upstream
}

// cutAtCeiling ends a stream that has cost all that is set aside for it with an error in the client's dialect. What it has used
// is settled like that of any other, though it may be more than was set aside; the upstream's breaker is told nothing.
func (s *stream) cutAtCeiling(w io.Writer) error {
	l, t := s.l, s.t
	r := failure.New(failure.BudgetExceeded, failure.ReservationExceeded).At(failure.StageStreaming)
	t.class, t.evidence = failure.Cancelled, errOverspent.Error()
	told := s.tell(w, r)
	s.done()
	l.settled(&request.Settled{Outcome: request.FailedOutcome, Status: t.status, Code: r.Code, Reason: r.Reason, Stage: r.Stage}, t)
	if !told {
		return io.ErrUnexpectedEOF
	}
	return nil
}
