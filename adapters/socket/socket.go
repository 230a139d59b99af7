// Package socket makes TCP connections that call the kernel without announcing it to Go's scheduler.
//
// An announced call that takes longer than some 20 µs, as each does whose thread the kernel puts aside, has its processor
// taken away by the monitor of the run time, which then looks every 20 µs for more of them: on two busy cores a tenth of the
// gateway's CPU, and threads that come and go. Sockets of package net never block, so that there is nothing to announce:
// a read or write only copies, at most 256 kB at once here.
package socket
