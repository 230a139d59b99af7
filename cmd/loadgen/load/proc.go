package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticksPerSecond is USER_HZ, which is 100 on every Linux that Go runs on.
const ticksPerSecond = 100

// tree is a process and all its descendants.
type tree struct {
	Process
	cpuBefore float64
	rssMax    int64
	now       memory
}

// memory is what a tree holds: KiB (shared pages counted once per process), threads, descriptors.
type memory struct{ rss, threads, fds int64 }

// pids are the root and its descendants.
func (t *tree) pids() []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statFields(pid); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], pid)
		}
	}
	out := []int{t.PID}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// statFields are the fields of /proc/PID/stat after the command name (index 0 = state); nil if there is no such
// process.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// cpu is the CPU time of the tree in seconds, children that were waited for included.
func (t *tree) cpu() float64 {
	var ticks int64
	for _, pid := range t.pids() {
		f := statFields(pid)
		if len(f) < 15 {
			continue
		}
		for _, v := range f[11:15] { // utime stime cutime cstime
			n, _ := strconv.ParseInt(v, 10, 64)
			ticks += n
		}
	}
	return float64(ticks) / ticksPerSecond
}

// sample reads the memory of the tree and keeps the peak.
func (t *tree) sample() {
	var m memory
	for _, pid := range t.pids() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(b)) {
			name, rest, _ := strings.Cut(line, ":")
			f := strings.Fields(rest)
			if len(f) == 0 {
				continue
			}
			n, _ := strconv.ParseInt(f[0], 10, 64)
			switch name {
			case "VmRSS":
				m.rss += n
			case "Threads":
				m.threads += n
			}
		}
		fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		m.fds += int64(len(fds))
	}
	t.now, t.rssMax = m, max(t.rssMax, m.rss)
}

// host is what the whole machine has done since boot, in CPU seconds; busy includes stolen time.
type host struct{ busy, total, steal float64 }

func hostCPU() (h host) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	const idle, iowait, steal, guest = 3, 4, 7, 8 // guest time is part of user time
	for i, f := range strings.Fields(line) {
		i-- // the first is the name
		if i < 0 || i >= guest {
			continue
		}
		v, _ := strconv.ParseFloat(f, 64)
		v /= ticksPerSecond
		h.total += v
		if i != idle && i != iowait {
			h.busy += v
		}
		if i == steal {
			h.steal = v
		}
	}
	return h
}

// selfCPU is the CPU time of this process in seconds.
func selfCPU() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
