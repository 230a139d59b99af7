package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// pool keeps connections for reading. At most its size are in use at once; who comes later waits. A caller gives its
// connection back before it asks for another one.
type pool struct {
	dialer *dialer
	slots  chan struct{}

	mu     sync.Mutex
	idle   []*pgx.Conn
	closed bool
}

// newPool makes a pool. It opens no connection yet.
func newPool(d *dialer, size int) *pool { return &pool{dialer: d, slots: make(chan struct{}, size)} }

// read runs f, which only reads and may be repeated: when a connection turns out to have died while it was idle, f
// runs once more on a new one.
func (p *pool) read(ctx context.Context, f func(*pgx.Conn) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, used, err := p.take(ctx)
	if err != nil {
		return err
	}
	err = f(c)
	if used && err != nil && c.IsClosed() && ctx.Err() == nil {
		p.dropIdle() // they have lost the same server
		if c, err = p.dialer.connect(ctx); err != nil {
			return err
		}
		err = f(c)
	}
	p.giveBack(c)
	return err
}

// take gets an idle connection or opens one.
func (p *pool) take(ctx context.Context) (c *pgx.Conn, used bool, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, errClosed
	}
	if n := len(p.idle); n > 0 {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
		p.mu.Unlock()
		return c, true, nil
	}
	p.mu.Unlock()
	c, err = p.dialer.connect(ctx)
	return c, false, err
}

// giveBack keeps a connection that works for the next reader.
func (p *pool) giveBack(c *pgx.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.IsClosed() && !p.closed {
		p.idle = append(p.idle, c)
		return
	}
	drop(c)
}

func (p *pool) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		drop(c)
	}
	p.idle = nil
}

// close closes idle connections now and the others when their readers are done.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.dropIdle()
}
