//go:build !race

package sim

// racing says that the race detector is on.
const racing = false
