package embedded

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// ownDisk is set in the child process of onOwnDisk.
const ownDisk = "SALECTL_TEST_OWN_DISK"

// onOwnDisk runs a test in a child process that has a small disk mounted for
// itself alone: nothing is left behind, however the test ends. Where the
// system forbids that, test runs here, in a plain folder, with mounted false.
func onOwnDisk(t *testing.T, test func(t *testing.T, dir string, mounted bool)) {
	if dir := os.Getenv(ownDisk); dir != "" {
		mount(t, "", "/", syscall.MS_REC|syscall.MS_PRIVATE)
		mount(t, "size=4m", dir, 0)
		test(t, dir, true)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), ownDisk+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	output, err := child.CombinedOutput()
	switch {
	case child.Process == nil:
		t.Logf("no disk of its own (%v): a plain folder serves", err)
		test(t, t.TempDir(), false)
	case err != nil:
		t.Errorf("%v\n%s", err, output)
	default:
		t.Logf("in a child process:\n%s", output)
	}
}

func mount(t *testing.T, options, target string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", target, "tmpfs", flags, options); err != nil {
		t.Fatalf("mount %s: %v", target, err)
	}
}

// remount makes the disk of onOwnDisk refuse all writing, or take it again.
func remount(t *testing.T, dir string, writable bool) {
	t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if !writable {
		flags |= syscall.MS_RDONLY
	}
	mount(t, "size=4m", dir, flags)
}
