//go:build unix

package redis

import (
	"syscall"
	"testing"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// A process that stands still for longer than its lease lasts knows when it
// goes on, before it does anything else, that the lease is over. What it then
// gives back is not what another has by now.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	c, err := startContender(t, f.addresses(), "1h")
	f.must(err)
	wait.Until(t, "the process to have the lease", func() bool { return c.mustRequest(t, "valid?") > 0 })

	f.must(services.Signal(c.process, syscall.SIGSTOP))
	l := f.hold(quorum.MaxTTL)
	// It reads this first when it continues: no timer and no reply of a node can have ended
	// the lease before.
	f.must(c.write("valid?"))
	f.must(c.process.Signal(syscall.SIGCONT))
	switch lease, err := c.read(); {
	case err != nil:
		t.Fatal(err)
	case lease != 0:
		t.Errorf("lease %d of a process that was stopped is valid to it, and another has it", lease)
	}
	c.mustRequest(t, "release")
	f.awaitRenewal(0)
	if c.mustRequest(t, "valid?") != 0 || !l.Valid() {
		t.Error("the process that was stopped has taken the lease from another")
	}
	f.must(l.Release(t.Context()))
	wait.Until(t, "the process to have the lease again", func() bool { return c.mustRequest(t, "valid?") > 0 })
}

// A process that was killed keeps nobody out for longer than a ttl.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	c, err := startContender(t, f.addresses(), "1h")
	f.must(err)
	wait.Until(t, "the process to have the lease", func() bool { return c.mustRequest(t, "valid?") > 0 })
	c.kill()
	for node, server := range f.servers {
		if left := pttl(t, server, leaseKey); left == -1 || left > contenderTTL.Milliseconds() {
			t.Errorf("node %d has the lease for another %d ms; its ttl is %v", node, left, contenderTTL)
		}
	}
	f.must(f.hold(quorum.DefaultTTL).Release(t.Context()))
}
