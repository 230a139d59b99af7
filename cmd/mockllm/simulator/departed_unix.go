//go:build unix

package simulator

import (
	"net"
	"syscall"
)

// departed says whether the client of a connection has closed it, although nobody has read that far yet: what has come
// in from it ends here, in the kernel.
func departed(c *net.TCPConn) (gone bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == syscall.ECONNRESET
	})
	return gone
}
