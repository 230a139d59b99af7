package events

import (
	"github.com/penstock/penstock/domain/pricing"
	"github.com/penstock/penstock/domain/request"
)

// The facts that every request writes, field by field in the order and with the names of their struct tags. A test
// compares them with the generic codec; a field that is missing here fails it.

func walkRejected(m *members, f *request.Rejected) {
	m.text(`,"stage":`, &f.Stage)
	m.text(`,"code":`, &f.Code)
	m.count(`,"status":`, &f.Status)
	m.textIfAny(`,"reason":`, &f.Reason)
	if m.must(`,"ask":`) {
		object(m, &f.Ask, walkAsk)
	}
	listIfAny(m, `,"excluded":`, &f.Excluded, exclusion)
	m.integer(`,"duration_us":`, &f.DurationUS)
}

func walkAsk(m *members, f *request.Ask) {
	m.textIfAny(`,"key":`, &f.Key)
	m.textIfAny(`,"user":`, &f.User)
	m.textIfAny(`,"group":`, &f.Group)
	m.textIfAny(`,"method":`, &f.Method)
	m.textIfAny(`,"path":`, &f.Path)
	m.textIfAny(`,"dialect":`, &f.Dialect)
	m.textIfAny(`,"capability":`, &f.Capability)
	m.textIfAny(`,"model":`, &f.Model)
	m.flagIfAny(`,"stream":`, &f.Stream)
	m.textIfAny(`,"session":`, &f.Session)
	m.textIfAny(`,"continuation":`, &f.Continues)
	m.textIfAny(`,"client":`, &f.Client)
	m.textIfAny(`,"client_profile":`, &f.Profile)
	m.textIfAny(`,"client_request_id":`, &f.ClientID)
	m.textIfAny(`,"address":`, &f.Address)
}

func walkAdmitted(m *members, f *request.Admitted) {
	walkAsk(m, &f.Ask)
	m.integerIfAny(`,"input_estimate":`, &f.InputEstimate)
	list(m, `,"plan":`, &f.Plan, candidate)
	listIfAny(m, `,"excluded":`, &f.Excluded, exclusion)
	m.textIfAny(`,"affinity":`, &f.Affinity)
	m.textIfAny(`,"paid_by":`, &f.PaidBy)
}

func walkQueued(m *members, f *request.Queued) {
	list(m, `,"upstreams":`, &f.Upstreams, textOf)
	m.count(`,"position":`, &f.Position)
	m.unsigned(`,"ticket":`, &f.Ticket)
	m.time(`,"deadline":`, &f.Deadline)
}

func walkResumed(m *members, f *request.Resumed) {
	m.text(`,"upstream":`, &f.Upstream)
	m.integer(`,"waited_us":`, &f.WaitedUS)
}

func walkDispatched(m *members, f *request.Dispatched) {
	m.count(`,"n":`, &f.N)
	m.text(`,"upstream":`, &f.Upstream)
	m.text(`,"account":`, &f.Account)
	m.textIfAny(`,"resolved_model":`, &f.ResolvedModel)
	m.textIfAny(`,"upstream_model":`, &f.UpstreamModel)
	m.textIfAny(`,"why":`, &f.Why)
	m.flagIfAny(`,"probe":`, &f.Probe)
}

func walkFailed(m *members, f *request.Failed) {
	m.count(`,"n":`, &f.N)
	m.text(`,"class":`, &f.Class)
	m.countIfAny(`,"upstream_status":`, &f.UpstreamStatus)
	m.textIfAny(`,"upstream_request_id":`, &f.UpstreamID)
	m.textIfAny(`,"evidence":`, &f.Evidence)
	m.text(`,"next":`, &f.Next)
	m.flagIfAny(`,"counted":`, &f.Counted)
	usageIfAny(m, `,"usage":`, &f.Usage)
	m.textIfAny(`,"usage_source":`, (*string)(&f.UsageSource))
	m.flagIfAny(`,"usage_clamped":`, &f.Clamped)
	m.textIfAny(`,"service_tier":`, &f.ServiceTier)
	m.textIfAny(`,"price_version":`, &f.PriceVersion)
	m.textIfAny(`,"price_origin":`, (*string)(&f.PriceOrigin))
	m.flagIfAny(`,"price_inherited":`, &f.Inherited)
	multipliersIfAny(m, &f.Multipliers)
	m.amountIfAny(`,"upstream_cost":`, &f.UpstreamCost)
	m.amountIfAny(`,"cost":`, &f.Cost)
	m.flagIfAny(`,"unpriced":`, &f.Unpriced)
	m.textIfAny(`,"unpriced_reason":`, &f.UnpricedReason)
	m.integer(`,"took_us":`, &f.TookUS)
	m.integerIfAny(`,"ttft_us":`, &f.TTFTUS)
}

func walkSettled(m *members, f *request.Settled) {
	m.text(`,"outcome":`, (*string)(&f.Outcome))
	m.count(`,"status":`, &f.Status)
	m.textIfAny(`,"code":`, &f.Code)
	m.textIfAny(`,"reason":`, &f.Reason)
	m.textIfAny(`,"failure_stage":`, &f.Stage)
	m.textIfAny(`,"class":`, &f.Class)
	m.countIfAny(`,"upstream_status":`, &f.UpstreamStatus)
	m.textIfAny(`,"upstream_request_id":`, &f.UpstreamID)
	m.textIfAny(`,"evidence":`, &f.Evidence)
	m.count(`,"attempts":`, &f.Attempts)
	m.flag(`,"did_send_upstream":`, &f.Sent)
	usageIfAny(m, `,"usage":`, &f.Usage)
	m.text(`,"usage_source":`, (*string)(&f.UsageSource))
	m.flagIfAny(`,"usage_clamped":`, &f.Clamped)
	m.textIfAny(`,"service_tier":`, &f.ServiceTier)
	m.textIfAny(`,"response_id":`, &f.ResponseID)
	m.textIfAny(`,"price_version":`, &f.PriceVersion)
	m.textIfAny(`,"price_origin":`, (*string)(&f.PriceOrigin))
	m.flagIfAny(`,"price_inherited":`, &f.Inherited)
	multipliersIfAny(m, &f.Multipliers)
	m.amountIfAny(`,"upstream_cost":`, &f.UpstreamCost)
	m.amountIfAny(`,"cost":`, &f.Cost)
	m.flagIfAny(`,"free":`, &f.Free)
	m.flagIfAny(`,"unpriced":`, &f.Unpriced)
	m.textIfAny(`,"unpriced_reason":`, &f.UnpricedReason)
	m.flagIfAny(`,"client_gone":`, &f.ClientGone)
	m.textIfAny(`,"on_disconnect":`, &f.OnDisconnect)
	m.integerIfAny(`,"ttft_us":`, &f.TTFTUS)
	m.integerIfAny(`,"attempt_us":`, &f.AttemptUS)
	m.textIfAny(`,"queue_state":`, &f.QueueState)
	m.integerIfAny(`,"waited_us":`, &f.WaitedUS)
	m.integer(`,"duration_us":`, &f.DurationUS)
}

func multipliersIfAny(m *members, f *request.Multipliers) {
	if (m.reading || *f != request.Multipliers{}) && m.name(`,"multipliers":`) {
		object(m, f, walkMultipliers)
	}
}

func walkMultipliers(m *members, f *request.Multipliers) {
	m.textIfAny(`,"input":`, &f.Input)
	m.textIfAny(`,"output":`, &f.Output)
	m.textIfAny(`,"group":`, &f.Group)
	m.textIfAny(`,"key":`, &f.Key)
}

func usageIfAny(m *members, quoted string, u *pricing.Usage) {
	if (!m.reading && u.IsZero()) || !m.name(quoted) {
		return
	}
	object(m, u, func(m *members, u *pricing.Usage) {
		m.integer(`,"input":`, &u.Input)
		m.integer(`,"cached_input":`, &u.CachedInput)
		m.integer(`,"cache_write_5m":`, &u.CacheWrite5m)
		m.integer(`,"cache_write_1h":`, &u.CacheWrite1h)
		m.integer(`,"output":`, &u.Output)
		m.integer(`,"reasoning":`, &u.Reasoning)
		m.integerIfAny(`,"audio_input":`, &u.AudioInput)
		m.integerIfAny(`,"audio_output":`, &u.AudioOutput)
		m.integerIfAny(`,"image_input":`, &u.ImageInput)
		m.integerIfAny(`,"image_output":`, &u.ImageOutput)
		m.integerIfAny(`,"images":`, &u.Images)
		m.integerIfAny(`,"web_searches":`, &u.WebSearches)
		m.integerIfAny(`,"file_searches":`, &u.FileSearches)
	})
}

func exclusion(m *members, e *request.Exclusion) {
	object(m, e, func(m *members, e *request.Exclusion) {
		m.text(`,"upstream":`, &e.Upstream)
		m.text(`,"reason":`, &e.Reason)
		m.textIfAny(`,"account":`, &e.Account)
		m.timeIfAny(`,"until":`, &e.Until)
	})
}

func candidate(m *members, c *request.Candidate) {
	object(m, c, func(m *members, c *request.Candidate) {
		m.text(`,"upstream":`, &c.Upstream)
		m.count(`,"tier":`, &c.Tier)
		m.textIfAny(`,"why":`, &c.Why)
	})
}
