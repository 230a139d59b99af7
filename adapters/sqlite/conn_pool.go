package sqlite

import (
	"context"
	"sync"
)

// pool keeps connections for reading. At most its size are in use at once; who comes later waits. A caller gives its
// connection back before it asks for another one.
type pool struct {
	path    string
	options connOptions
	slots   chan struct{}

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// newPool makes a pool of connections that refuse to write. It opens none yet.
func newPool(path string, o connOptions, size int) *pool {
	o.QueryOnly = true
	return &pool{path: path, options: o, slots: make(chan struct{}, size)}
}

// read runs f inside one read snapshot on a connection of the pool, interrupted when the context ends.
func (p *pool) read(ctx context.Context, f func(*conn) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := p.take()
	if err != nil {
		return err
	}
	c.SetInterrupt(ctx)
	err = c.read(func() error { return f(c) })
	c.SetInterrupt(context.Background())
	p.giveBack(c, err == nil)
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

func (p *pool) take() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	return openConn(p.path, p.options)
}

// giveBack keeps a connection for the next reader, unless it has met an error: a new one costs little.
func (p *pool) giveBack(c *conn, good bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if good && !p.closed {
		p.idle = append(p.idle, c)
		return
	}
	_ = c.close() // it has only read
}

// close closes idle connections now and the others when their readers are done.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.close() // it has only read
	}
	p.idle = nil
}
