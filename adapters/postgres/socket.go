package postgres

import (
	"context"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Socket gives what a connection to the server is read from and written to, below TLS. Nil: the connection itself.
type Socket func(*net.TCPConn) net.Conn

// over is dial with the socket behind it.
func (s Socket) over(dial pgconn.DialFunc) pgconn.DialFunc {
	if s == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if tcp, ok := c.(*net.TCPConn); ok && err == nil {
			c = s(tcp)
		}
		return c, err
	}
}
