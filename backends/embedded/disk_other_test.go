//go:build !linux

package embedded

import "testing"

// onOwnDisk runs test in a plain folder: mounting is Linux's here.
func onOwnDisk(t *testing.T, test func(t *testing.T, dir string, mounted bool)) {
	test(t, t.TempDir(), false)
}

func remount(t *testing.T, dir string, _ bool) { t.Fatalf("%s is not a disk of its own", dir) }
