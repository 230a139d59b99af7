package webhook

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/penstock/penstock/events"
)

// AuditHead is the name by which a webhook asks for the signed heads of the chain. Such a delivery is one head as JSON
// and nothing else: it can be given to those who check the chain as it is.
const AuditHead = "audit.head"

// Names lists what can be asked for beside facts.
func Names() []string { return append(AlertNames(), AuditHead) }

// Head sends a signed head of the chain to the webhooks that ask for it. It never blocks. One that was not delivered
// yet is not any more: the later one proves all that it proved. A webhook that is new or changed gets the last one.
func (m *Manager) Head(head events.Head) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.head = &head
	for _, h := range m.hooks {
		h.hasHead(head)
	}
}

// hasHead puts the head in the place of the one that waits. Calls take turns: they hold the manager's mutex.
func (h *hook) hasHead(head events.Head) {
	if !h.spec.Active || !h.wants(AuditHead) {
		return
	}
	line, err := json.Marshal(&head)
	if err != nil {
		h.m.o.Logger.Error("head of the chain can not be written for a webhook", "webhook", h.spec.ID, "error", err)
		return
	}
	at := strconv.FormatInt(int64(head.Position), 10)
	b := &batch{lines: 1, head: true, first: at, last: at}
	b.body.Write(append(line, '\n'))
	select {
	case <-h.heads.newer:
	default:
	}
	h.heads.newer <- b
}

// sendHeads delivers heads until the context ends. It has a lane of its own: a receiver that refuses heads gets its
// facts, and one that refuses a fact gets its heads.
func (h *hook) sendHeads(ctx context.Context) {
	for {
		select {
		case b := <-h.heads.newer:
			if !h.deliver(ctx, &h.heads, b) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
