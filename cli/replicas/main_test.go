// Package replicas runs one sale in several real processes, and stops, kills, pauses and
// cuts them off under a steady load. Its tests hold what clients were told against the
// export of the sale; its benchmarks print what a claim costs and how long one waits.
package replicas

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"salectl/cli"
)

// The tests run salectl as a process of its own, which is the program of the tests: so it
// has the race detector if they have.
func TestMain(m *testing.M) {
	testscript.Main(shared{m}, map[string]func(){
		"salectl":     salectl,
		"bare-store":  bareStore,
		"bare-server": bareServer,
	})
}

// profiles is a folder in which each process leaves its profile; "": none does.
var profiles = os.Getenv("SALECTL_TEST_PROFILES")

// salectl is the program.
func salectl() {
	stop := func() {}
	if profiles != "" {
		if f, err := os.Create(filepath.Join(profiles, fmt.Sprintf("%s-%d.prof", filepath.Base(os.Args[1]), os.Getpid()))); err == nil && pprof.StartCPUProfile(f) == nil {
			stop = pprof.StopCPUProfile
		}
	}
	code := cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
	stop()
	os.Exit(code)
}

// shared stops the servers that tests share when all have run.
type shared struct{ *testing.M }

func (m shared) Run() int {
	code := m.M.Run()
	stopHBase()
	return code
}
