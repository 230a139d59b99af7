package load

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestATreeHasItsDescendants(t *testing.T) {
	c := exec.Command("cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	defer c.Wait()
	defer in.Close()
	me := &tree{Process: Process{PID: os.Getpid()}}
	if pids := me.pids(); pids[0] != os.Getpid() || !slices.Contains(pids, c.Process.Pid) {
		t.Errorf("%v does not have %d", pids, c.Process.Pid)
	}
	child := &tree{Process: Process{PID: c.Process.Pid}}
	child.sample()
	me.sample()
	if child.now.threads != 1 || child.now.rss <= 0 || me.rssMax <= child.rssMax || me.now.fds <= child.now.fds {
		t.Errorf("me %+v, child %+v", me.now, child.now)
	}
}

func TestTheHostIsBusyAtMostAllTheTime(t *testing.T) {
	if h := hostCPU(); h.total <= 0 || h.busy <= 0 || h.busy > h.total || h.steal > h.busy {
		t.Errorf("%+v", h)
	}
}
