//go:build !linux

package socket

import "net"

// Direct is c itself.
func Direct(c *net.TCPConn) net.Conn { return c }
