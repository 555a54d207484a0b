package embedded

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootID returns the ID of the boot, or "". It is read once: a process does not outlive a boot.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // after an error, instants cannot be compared
	return strings.TrimSpace(string(id))
})

// ThisHost returns the host of this process.
func ThisHost() Host {
	return Host{
		Wall: time.Now,
		Booted: func() (string, time.Duration) {
			var t unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
				return "", 0
			}
			return bootID(), time.Duration(t.Nano())
		},
		Kept: func() bool {
			var t unix.Timex
			_, err := unix.Adjtimex(&t)
			return err == nil && t.Status&unix.STA_UNSYNC == 0
		},
	}
}
